"""An agent:model over the nights: its finished runs of one benchmark, and whether the last change is real."""

from __future__ import annotations

from pydantic import Field

from streamer.client.results import BoardRun, ComparedRun
from streamer.inference.paired import Paired, paired
from streamer.schemas.base import Instant, Message, Number
from streamer.text import UNSEEN, ends_in_points, points
from streamer.views.comparisons import EITHER, between, task_pairs
from streamer.views.models import Ends


class TrendPoint(Message):
    """One finished run of an agent:model."""

    run: str = Field(description="Run id.")
    at: Instant | None = Field(description="Event time of its last event.")
    value: Number = Field(description="In the unit of the metric.")
    interval: Ends | None = Field(description="On tasks like these, 95 %; null: none is known.")
    trials: int = Field(ge=0, description="Trials of the run.")


class Change(Message):
    """The newest finished run of an agent:model against the one before, on their common tasks."""

    before: str = Field(description="Run id of the older run.")
    after: str = Field(description="Run id of the newer run.")
    difference: float | None = Field(
        description="Pass rate after minus before, over known trials of common tasks; null: none."
    )
    interval: Ends | None = Field(
        description="Of the difference, 95 %, clustered; null: trials are unknown, or under two tasks."
    )
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Exact two-sided sign test over the tasks with equal attempts; null: trials are unknown, "
        "or there is no such task.",
    )
    certain: bool = Field(
        description="The sign test shows it at 5 %, and the mean agrees; or, where trials are unknown, an "
        "e-value of 40 does (inference 7)."
    )
    said: str = Field(
        description="The difference, its interval, and `real`, `may be chance` or `attempts differ`."
    )
    words: list[str] = Field(description="What may be said, one sentence each; names are not escaped.")


def change_between(before: BoardRun, after: BoardRun, agent_model: str) -> Change:
    """How an agent:model changed from one finished run to the next.

    It is one comparison that was chosen before its outcome was seen. Of twenty agents that did not change,
    about one looks as if it had.
    """
    found = paired(task_pairs(after.tasks, before.tasks, agent_model, agent_model, None))
    older, newer = (ComparedRun(run.run, None, run.tasks) for run in (before, after))
    ended = not before.run.provisional and not after.run.provisional
    ends = found.interval
    certain = found.certain or (not found.ended and max(found.better, found.worse) >= EITHER)
    return Change(
        before=before.run.run_id,
        after=after.run.run_id,
        difference=found.difference,
        interval=ends and Ends(low=ends.low, high=ends.high),
        p_value=found.p_value,
        certain=certain,
        said=_said(found, certain=certain),
        words=between(newer, older, agent_model, agent_model, ended=ended),
    )


def _said(found: Paired, *, certain: bool) -> str:
    if found.difference is None:
        return UNSEEN
    ends, untested = found.interval, found.uneven == found.tasks
    between = f" {ends_in_points(ends.low, ends.high)}" if ends else ""
    judged = "real" if certain else "attempts differ" if untested else "may be chance"
    return f"{points(found.difference)}{between}, {judged}"
