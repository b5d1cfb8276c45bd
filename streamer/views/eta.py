"""How fast a run goes and what it costs: time left, burn rate, projected total. Pure.

Everything rests on event time, never on the reader's clock. So a replay of a run shows the same as the run
itself, and the page in the browser (`streamer/web/static/js/run.js`) the same as the terminal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from streamer.schemas.base import Number
from streamer.schemas.summaries import RunSummary


@dataclass(frozen=True, slots=True)
class Observation:
    """Where a run stood.

    Attributes:
        at: event time, None: unknown.
        done: slots filled.
        cost: known cost in USD, None: no cost is known.
    """

    at: datetime | None
    done: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Eta:
    """The estimates that follow from where a run stands; None: unknown.

    Attributes:
        share: filled part of the plan, 0 to 1.
        seconds_left: until the plan is filled, counted from the last event, >= 0; 0: nothing is awaited.
        usd_per_hour: known cost per hour of event time.
        projected_usd: known cost once the plan is filled.
    """

    share: float | None
    seconds_left: float | None
    usd_per_hour: float | None
    projected_usd: float | None


def eta_of(run: RunSummary, since: Observation | None = None) -> Eta:
    """The pace of a run from its start, or from where it stood when the viewer began to look.

    A run that its harness has ended awaits nothing, whatever its plan said.

    Args:
        run: as it stands now.
        since: where the pace is taken from if the plan does not say when the run started.
    """
    now = observation_of(run)
    start = Observation(run.started_at, 0, None) if run.started_at else since or now
    ended = run.status is not None
    planned = run.progress.planned
    seconds = seconds_between(start, now)
    spent = None if now.cost is None else now.cost - (start.cost or 0.0)
    return Eta(
        share=share_of(now.done, planned),
        seconds_left=0.0 if ended else seconds_left(now.done, planned, now.done - start.done, seconds),
        usd_per_hour=usd_per_hour(spent, seconds),
        projected_usd=now.cost if ended else projected_usd(now.cost, now.done, planned),
    )


def observation_of(run: RunSummary) -> Observation:
    """Where a run stands now."""
    return Observation(run.last_event_at, run.progress.done, finite(run.total_cost))


def seconds_between(start: Observation, now: Observation) -> float | None:
    """Event time that passed, > 0; None: unknown, or no time has passed.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> seconds_between(Observation(noon, 0, None), Observation(noon.replace(minute=1), 1, None))
    60.0
    >>> seconds_between(Observation(noon, 0, None), Observation(noon, 1, None)) is None
    True
    """
    if start.at is None or now.at is None:
        return None
    seconds = (now.at - start.at).total_seconds()
    return seconds if seconds > 0 else None


def share_of(done: int, planned: int | None) -> float | None:
    """Filled part of the plan, at most 1; None: no plan, or one of nothing.

    >>> share_of(3, 4), share_of(5, 4), share_of(3, None), share_of(0, 0)
    (0.75, 1.0, None, None)
    """
    return min(1.0, done / planned) if planned else None


def seconds_left(done: int, planned: int | None, came: int, seconds: float | None) -> float | None:
    """Time until the plan is filled, if the rest comes as fast as what came.

    Args:
        done: slots filled.
        planned: slots planned; None: no plan, and everything is unknown.
        came: slots that were filled in that time; 0 or fewer (retractions): everything is unknown.
        seconds: the event time that passed; one trial is enough, if the start is known.

    >>> seconds_left(3, 9, 3, 60.0), seconds_left(1, 9, 1, 10.0)
    (120.0, 80.0)
    >>> seconds_left(9, 9, 3, 60.0), seconds_left(9, 9, 0, None)
    (0.0, 0.0)
    >>> seconds_left(3, None, 3, 60.0), seconds_left(0, 9, 0, 60.0), seconds_left(1, 9, 1, None)
    (None, None, None)
    """
    if planned is None:
        return None
    if done >= planned:
        return 0.0
    if came <= 0 or seconds is None:
        return None
    return (planned - done) * seconds / came


def usd_per_hour(spent: float | None, seconds: float | None) -> float | None:
    """Known cost per hour of event time.

    >>> usd_per_hour(2.0, 1800.0), usd_per_hour(0.0, 60.0), usd_per_hour(None, 60.0), usd_per_hour(1.0, None)
    (4.0, 0.0, None, None)
    """
    return None if spent is None or seconds is None else spent * 3600 / seconds


def projected_usd(cost: float | None, done: int, planned: int | None) -> float | None:
    """Known cost once the plan is filled, if the rest costs what the trials so far cost on average.

    >>> projected_usd(2.0, 4, 10), projected_usd(2.0, 10, 10), projected_usd(0.0, 4, 10)
    (5.0, 2.0, 0.0)
    >>> projected_usd(2.0, 4, None), projected_usd(None, 4, 10), projected_usd(0.0, 0, 10)
    (None, None, None)
    """
    if cost is None or planned is None or done <= 0:
        return None
    return cost * max(planned, done) / done


def finite(value: Number | None) -> float | None:
    """A number of a summary to calculate with; None: unknown, infinite or NaN (R14).

    >>> finite(0.5), finite("Infinity"), finite(None)
    (0.5, None, None)
    """
    return None if value is None or not math.isfinite(float(value)) else float(value)
