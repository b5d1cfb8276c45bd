"""The state of a run in one word, the same word on every surface.

docs/viewer.md shows the table. The word follows from the run's summary and the time of asking. Times are
event times, so a replay of an old run reads `stalled` until its plan is fulfilled.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from streamer.schemas.summaries import RunSummary

State = Literal["complete", "finished", "running", "stalled", "unfinished"]

SILENT_AFTER = timedelta(minutes=10)
"""A run without an event for longer than this is silent."""

PLAN_INCOMPLETE = "plan not complete yet"
NO_PLAN = "no plan known"
"""What stands in place of the number of planned trials, and why there is none."""

UNNAMED = "finished"
"""Status of a run whose `run_finished` event names none."""


def state_of(run: RunSummary | Mapping[str, Any], now: datetime | None) -> State:
    """The state of a run at a moment.

    | plan fulfilled | `run_finished` came | silent | plan known | state |
    |---|---|---|---|---|
    | yes | | | | complete |
    | no | yes | | | finished |
    | no | no | no | | running |
    | no | no | yes | yes | stalled |
    | no | no | yes | no | unfinished |

    Args:
        run: its summary, as the model or as the dict of its JSON.
        now: the time of asking. An event ahead of it counts as heard just now. None: the time is not known,
            as of a line of a file. A run is then not silent.
    """
    found = run if isinstance(run, RunSummary) else RunSummary.model_validate(run)
    if is_fulfilled(found):
        return "complete"
    if found.status is not None:
        return "finished"
    heard = found.last_event_at
    if now is None or (heard is not None and now - heard <= SILENT_AFTER):
        return "running"
    return "stalled" if found.progress.planned else "unfinished"


def plan_words(run: RunSummary | Mapping[str, Any]) -> str:
    """Why the number of planned trials is not known; "" where it is.

    >>> progress = {"done": 12, "planned": None, "plan_complete": False}
    >>> [plan_words({"progress": progress | more}) for more in ({}, {"plan_complete": True}, {"planned": 80})]
    ['plan not complete yet', 'no plan known', '']
    """
    if isinstance(run, RunSummary):
        planned, complete = run.progress.planned, run.progress.plan_complete
    else:
        planned, complete = run["progress"]["planned"], run["progress"].get("plan_complete", True)
    if planned is not None:
        return ""
    return NO_PLAN if complete else PLAN_INCOMPLETE


def is_fulfilled(run: RunSummary) -> bool:
    """True if every planned slot is filled. A plan of nothing is no plan."""
    return 0 < (run.progress.planned or 0) <= run.progress.done


def is_over(run: RunSummary) -> bool:
    """True if nothing more is awaited: the plan is fulfilled, or `run_finished` came."""
    return run.status is not None or is_fulfilled(run)


def with_state(run: RunSummary, now: datetime) -> dict[str, Any]:
    """The JSON of a run as readers get it: the summary as published, and its `state` at the moment."""
    return run.model_dump(mode="json") | {"state": state_of(run, now)}


def state_and_status(state: str, status: str | None) -> str:
    """The state, and in parentheses what the harness called the end.

    >>> state_and_status("finished", "aborted"), state_and_status("complete", None)
    ('finished (aborted)', 'complete')
    >>> state_and_status("finished", "finished")
    'finished'
    """
    return state if status in (None, UNNAMED) else f"{state} ({status})"
