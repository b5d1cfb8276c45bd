"""The records of evals that inspect_ai gives its hooks, as the events that `convert` makes of their logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamer.hooks.background import Event, Publish
from streamer.sources.fit import fit_event
from streamer.sources.inspect_events import (
    finished_event,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)
from streamer.sources.names import with_short_names

log = logging.getLogger("streamer.hooks")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Eval:
    """An eval under way: its run, its specification and its solvers."""

    run_id: str
    spec: Record
    plan: Record


class Evals:
    """The evals of a process that are under way. Records are as JSON has them.

    The methods run in the thread of the hook. An eval is known by its `eval_id`. One that began before the
    hook was active is left alone.
    """

    def __init__(self) -> None:
        self._running: dict[str, _Eval] = {}
        self._said: set[str] = set()

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
            event, left_out = trial_event(begun.spec, begun.plan, sample, time.time_ns())
            for why in left_out:
                self._say(f"run {begun.run_id}: {why}, and is left out")
            self._publish(begun, event, publish)

    def ended(self, eval_id: str, status: str, stats: Record, publish: Publish) -> None:
        """Publish the end of an eval (its status, `EvalStats`), once."""
        begun = self._running.pop(eval_id, None)
        finished = finished_event(status, stats)
        if begun and finished:
            self._publish(begun, finished, publish)

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
