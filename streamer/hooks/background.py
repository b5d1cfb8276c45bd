"""The worker thread of hooks with its publisher, and inspect_ai's records as events."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from streamer.client.capture import InvalidEvent, NotAccepted
from streamer.client.publisher import TrialPublisher, only_logged
from streamer.schemas.base import canonical_json, rfc3339
from streamer.sources.base import fit_event, slot_of, with_short_names
from streamer.sources.files import FileError
from streamer.sources.inspect import (
    ending_of,
    finished_event,
    is_log,
    is_unscored,
    read_header,
    read_samples,
    read_spec,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)

CLOSE_SECONDS = 10.0
"""Seconds that a harness waits at its end for the broker. The next publisher sends the rest."""

WORK_SECONDS = 300.0
"""Seconds that a harness waits at its end for unfinished work, such as a log to read."""

log = logging.getLogger("streamer.hooks")

Event = dict[str, Any]
Publish = Callable[[Event], None]
Work = Callable[[Publish], None]


class Background:
    """A thread that works in order of arrival. No method raises, and only `close` waits.

    `publisher` is closed at the end. Raises ValidationError if the settings are wrong.
    """

    def __init__(self, name: str, publisher: TrialPublisher | None = None) -> None:
        self._name = name
        # The publisher comes first: it closes itself at exit, where the last function registered is called
        # first.
        self._publisher = publisher or TrialPublisher(close_seconds=CLOSE_SECONDS, on_invalid=only_logged)
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"streamer-{name}", daemon=True)
        self._thread.start()
        self._at_exit = Finalize(None, self.close, exitpriority=0)

    def hand_over(self, work: Work) -> None:
        self._waiting.put(work)

    def close(self) -> None:
        """Wait for all work (at most 5 min) and its acknowledgement (at most 10 s); refuse later work."""
        self._at_exit.cancel()
        self._waiting.put(None)
        self._thread.join(WORK_SECONDS)
        if self._thread.is_alive():
            log.warning(
                "%s: not everything was published within %g s. Publish the rest from the harness's files: "
                "streamer convert DIR | streamer publish",
                self._name,
                WORK_SECONDS,
            )

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            try:
                work(self._publish)
            except Exception:
                log.exception("%s: an event was not published; the harness goes on", self._name)
        try:
            self._publisher.close()
        except Exception:
            log.exception("%s: the publisher failed to close", self._name)

    def _publish(self, event: Event) -> None:
        try:
            self._publisher.publish(event)
        except (InvalidEvent, NotAccepted) as error:
            log.warning("%s: an event was not published: %s", self._name, error)


# -----------------------------------------------------------------------------
# The records of evals that inspect_ai gives its hooks, as the events that `convert` makes of their logs.


Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Eval:
    run_id: str
    spec: Record
    plan: Record
    results: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    endings: set[bool | None] = field(default_factory=set)


class Evals:
    """The running evals of a process, by `eval_id`. Records are as in JSON.

    The methods run in the hook's thread. An eval that began before the hook was active is ignored.
    """

    def __init__(self) -> None:
        self._running: dict[str, _Eval] = {}
        self._said: set[str] = set()

    @property
    def are_running(self) -> bool:
        """Whether an eval is running; may be called from any thread."""
        return bool(self._running)

    def started(self, eval_id: str, spec: Record, plan: Record, publish: Publish) -> None:
        run_id = run_id_of(spec)
        if run_id is None:
            self._say("an eval without the name of its task is not published")
            return
        # A retry of the same run (an eval set retries at once) begins when the earlier try has ended. No hook
        # is called for its end, and the retry finishes its work (R34).
        self._running = {key: one for key, one in self._running.items() if one.run_id != run_id}
        begun = self._running[eval_id] = _Eval(run_id, spec, plan)
        self._publish(begun, started_event(spec, plan), publish)

    def sample_started(self, eval_id: str, summary: Record, publish: Publish) -> None:
        if begun := self._running.get(eval_id):
            self._publish(begun, start_event(begun.spec, begun.plan, summary, time.time_ns()), publish)

    def sample_ended(self, eval_id: str, sample: Record, publish: Publish) -> None:
        if begun := self._running.get(eval_id):
            self._result(begun, sample, publish)

    def ended(self, eval_id: str, status: str, stats: Record, log_file: str, publish: Publish) -> None:
        """Publish the results that only the log has, and the end of an eval (its status, `EvalStats`), once.

        inspect_ai calls no hook for samples that end while the eval is stopping, or that a retry copies from
        an earlier log.
        """
        begun = self._running.pop(eval_id, None)
        if begun is None:
            return
        path = Path(log_file.removeprefix("file://"))
        spec = begun.spec
        try:
            samples = list(read_samples(path)) if is_log(path) else []
            if samples:
                spec = read_spec({**read_header(path), "eval": spec})
        except FileError as error:
            self._say(f"{path}: {error}")
            samples = []
        for sample in samples:
            if isinstance(sample, dict):
                self._result(begun, sample, publish)
        unscored = {"verdicts": False} if is_unscored(status, begun.endings) else {}
        if unscored or spec.get("retuned"):
            self._publish(begun, started_event(spec, begun.plan) | unscored, publish)
        if finished := finished_event(status, stats):
            self._publish(begun, finished, publish)

    def stopped(self, inspect_run_id: str, publish: Publish) -> None:
        """Publish the end of evals of one `inspect eval` that Ctrl-C stopped, which leaves no log."""
        stats = {"completed_at": rfc3339(time.time_ns() // 1000)}
        for eval_id, begun in list(self._running.items()):
            if begun.spec.get("run_id") == inspect_run_id:
                self.ended(eval_id, "cancelled", stats, "", publish)

    def _result(self, begun: _Eval, sample: Record, publish: Publish) -> None:
        event, remarks = trial_event(begun.spec, begun.plan, sample, time.time_ns())
        for what, detail in remarks:
            self._say(f"run {begun.run_id}: trials {what}: {detail}")
        if (fitted := self._fitted(begun, event)) is not None:
            begun.endings.add(ending_of(fitted))
            slot, content = slot_of(fitted), canonical_json(fitted)
            if begun.results.get(slot) != content:
                begun.results[slot] = content
                publish(fitted)

    def _publish(self, begun: _Eval, event: Event, publish: Publish) -> None:
        if (fitted := self._fitted(begun, event)) is not None:
            publish(fitted)

    def _fitted(self, begun: _Eval, event: Event) -> Event | None:
        addressed, cut = with_short_names({"run_id": begun.run_id, **event})
        fitted, misfits = fit_event(addressed)
        for name, reason in (*cut.items(), *misfits.items()):
            self._say(f"run {begun.run_id}: {name} {reason}")
        return fitted

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning("inspect: %s", what)
