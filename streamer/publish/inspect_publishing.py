"""What the hook of inspect_ai does with what it is told: the same events as `convert` makes of the log.

Nothing here waits. inspect_ai calls its hooks in the event loop of the eval, so an event is only
handed over: the publisher's thread sends it, and it waits on the disk while the broker is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamer.publish.invalid_events import InvalidEvent
from streamer.publish.results import NotAccepted
from streamer.publish.trial_publisher import TrialPublisher
from streamer.sources.fit import fit_event
from streamer.sources.inspect_events import (
    finished_event,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)
from streamer.sources.names import with_short_names

SETTLE_SECONDS = 10.0
"""How long the end of an eval waits, in a thread, for the last acknowledgements before it says so."""

log = logging.getLogger("streamer.inspect")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Eval:
    """An eval under way: its run, its specification and its solvers."""

    run_id: str
    spec: Record
    plan: Record


class InspectPublishing:
    """Takes the records of evals, as JSON has them, and publishes their events.

    Args:
        publisher: None: one that finds the broker as every command does. Making it takes a moment.
    """

    def __init__(self, publisher: TrialPublisher | None = None) -> None:
        self._publisher = publisher or TrialPublisher(on_invalid=self._say)
        self._evals: dict[str, _Eval] = {}
        self._said: set[str] = set()

    def task_started(self, eval_id: str, spec: Record, plan: Record) -> None:
        """An eval begins: its plan (`EvalSpec`, `EvalPlan`)."""
        run_id = run_id_of(spec)
        if run_id is None:
            self._say("an eval without a task's name is not published")
            return
        begun = self._evals[eval_id] = _Eval(run_id, spec, plan)
        self._publish(begun, started_event(spec, plan))

    def sample_started(self, eval_id: str, summary: Record) -> None:
        """A sample begins (`EvalSampleSummary`)."""
        if begun := self._evals.get(eval_id):
            self._publish(begun, start_event(begun.spec, begun.plan, summary, time.time_ns()))

    def sample_ended(self, eval_id: str, sample: Record) -> None:
        """A sample has ended (`EvalSample`)."""
        if begun := self._evals.get(eval_id):
            event, left_out = trial_event(begun.spec, begun.plan, sample, time.time_ns())
            for why in left_out:
                self._say(f"run {begun.run_id}: {why}, and is left out")
            self._publish(begun, event)

    def task_ended(self, eval_id: str, status: str, stats: Record) -> None:
        """An eval has ended: its status, its times (`EvalStats`). To be told twice does no harm."""
        begun = self._evals.pop(eval_id, None)
        finished = finished_event(status, stats)
        if begun and finished:
            self._publish(begun, finished)
            # Whether all has arrived is looked at beside the eval.
            threading.Thread(target=self._settle, args=(begun.run_id,), daemon=True).start()

    def close(self) -> None:
        """Close the publisher; the end of the process does that too."""
        self._publisher.close()

    def _publish(self, begun: _Eval, event: dict[str, Any]) -> None:
        addressed, cut = with_short_names({"run_id": begun.run_id, **event})
        fitted, misfits = fit_event(addressed)
        for name, reason in (*cut.items(), *misfits.items()):
            self._say(f"run {begun.run_id}: {name} {reason}")
        if fitted is None:
            return
        try:
            self._publisher.publish(fitted)
        except (InvalidEvent, NotAccepted, RuntimeError) as error:
            self._say(f"run {begun.run_id}: an event is not published: {error}")

    def _settle(self, run_id: str) -> None:
        if not self._publisher.flush(SETTLE_SECONDS):
            reason = self._publisher.problem or "they are still on their way"
            log.warning(
                "run %s: some results are not at the broker yet (%s). They wait on the disk, and the next "
                "publisher or `streamer publish` sends them",
                run_id,
                reason,
            )

    def _say(self, what: object) -> None:
        """Tell the user, once each."""
        if str(what) not in self._said:
            self._said.add(str(what))
            log.warning("%s", what)
