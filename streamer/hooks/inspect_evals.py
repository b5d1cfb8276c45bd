"""The records of evals that inspect_ai gives its hooks, as the events that `convert` makes of their logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.aggregate.keys import rfc3339
from streamer.hooks.background import Event, Publish
from streamer.schemas.canonical import canonical_json
from streamer.sources.files import FileError
from streamer.sources.fit import fit_event, slot_of
from streamer.sources.inspect_events import (
    finished_event,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)
from streamer.sources.inspect_log import is_log, read_samples
from streamer.sources.names import with_short_names

log = logging.getLogger("streamer.hooks")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Eval:
    """An eval under way: its run, its specification, its solvers, and the published results by slot."""

    run_id: str
    spec: Record
    plan: Record
    results: dict[tuple[Any, ...], bytes] = field(default_factory=dict)


class Evals:
    """The evals of a process that are under way. Records are as JSON has them.

    The methods run in the thread of the hook. An eval is known by its `eval_id`. One that began before the
    hook was active is left alone.
    """

    def __init__(self) -> None:
        self._running: dict[str, _Eval] = {}
        self._said: set[str] = set()

    @property
    def are_running(self) -> bool:
        """Whether an eval is under way; from any thread."""
        return bool(self._running)

    def started(self, eval_id: str, spec: Record, plan: Record, publish: Publish) -> None:
        """Publish the plan of an eval (`EvalSpec`, `EvalPlan`)."""
        run_id = run_id_of(spec)
        if run_id is None:
            self._say("an eval without the name of its task is not published")
            return
        begun = self._running[eval_id] = _Eval(run_id, spec, plan)
        self._publish(begun, started_event(spec, plan), publish)

    def sample_started(self, eval_id: str, summary: Record, publish: Publish) -> None:
        """Publish the start of a sample (`EvalSampleSummary`)."""
        if begun := self._running.get(eval_id):
            self._publish(begun, start_event(begun.spec, begun.plan, summary, time.time_ns()), publish)

    def sample_ended(self, eval_id: str, sample: Record, publish: Publish) -> None:
        """Publish the result of a sample (`EvalSample`)."""
        if begun := self._running.get(eval_id):
            self._result(begun, sample, publish)

    def ended(self, eval_id: str, status: str, stats: Record, log_file: str, publish: Publish) -> None:
        """Publish the results that only the log has, and the end of an eval (its status, `EvalStats`), once.

        inspect_ai calls no hook for a sample that ended while the eval was being stopped. Nor does it for one
        that a retry took over from an earlier log.
        """
        begun = self._running.pop(eval_id, None)
        if begun is None:
            return
        path = Path(log_file.removeprefix("file://"))
        try:
            samples = list(read_samples(path)) if is_log(path) else []
        except FileError as error:
            self._say(f"{path}: {error}")
            samples = []
        for sample in samples:
            if isinstance(sample, dict):
                self._result(begun, sample, publish)
        if finished := finished_event(status, stats):
            self._publish(begun, finished, publish)

    def stopped(self, inspect_run_id: str, publish: Publish) -> None:
        """Publish the end of the evals of one `inspect eval` that Ctrl-C stopped: there is no log then."""
        stats = {"completed_at": rfc3339(time.time_ns() // 1000)}
        for eval_id, begun in list(self._running.items()):
            if begun.spec.get("run_id") == inspect_run_id:
                self.ended(eval_id, "cancelled", stats, "", publish)

    def _result(self, begun: _Eval, sample: Record, publish: Publish) -> None:
        """Publish a result unless it is published already."""
        event, left_out = trial_event(begun.spec, begun.plan, sample, time.time_ns())
        slot, content = slot_of(event), canonical_json(event)
        if begun.results.get(slot) == content:
            return
        begun.results[slot] = content
        for why in left_out:
            self._say(f"run {begun.run_id}: {why}, and is left out")
        self._publish(begun, event, publish)

    def _publish(self, begun: _Eval, event: Event, publish: Publish) -> None:
        addressed, cut = with_short_names({"run_id": begun.run_id, **event})
        fitted, misfits = fit_event(addressed)
        for name, reason in (*cut.items(), *misfits.items()):
            self._say(f"run {begun.run_id}: {name} {reason}")
        if fitted is not None:
            publish(fitted)

    def _say(self, what: str) -> None:
        """Tell the user, once each."""
        if what not in self._said:
            self._said.add(what)
            log.warning("inspect: %s", what)
