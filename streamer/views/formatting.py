"""Spans, ages, bars, counts, places and shares of passes as text. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context

from streamer.schemas.base import Number
from streamer.schemas.comparison import Rank
from streamer.schemas.summary_fields import PassAtK
from streamer.text import UNSEEN, percent

OLD = timedelta(days=2)
"""An older one is shown by its date."""

AHEAD = timedelta(minutes=1)
"""A time further ahead of this machine's clock is not of this clock: the run is simulated or replayed."""

THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)
"""What a time span is rounded by. Python's own format would make 12.2 of 12.25, the page 12.3."""

EVENT_TIME = "event time, ahead of this clock: the run is simulated or replayed"
"""What stands beside the time of a last event that has not come yet."""


def span(seconds: float | None) -> str:
    """A time span with three digits, halves rounded up as on the page.

    >>> [span(s) for s in (0.0, 8.5, 119.4, 735.0, 20_000.0, 400_000.0, None)]
    ['0 s', '8.5 s', '1.99 min', '12.3 min', '5.56 h', '4.63 d', '–']
    """
    if seconds is None:
        return UNSEEN
    for unit, size, least in (("d", 86_400, 200_000), ("h", 3600, 6000), ("min", 60, 100), ("s", 1, 0)):
        if abs(seconds) >= least:
            rounded = float(THREE_DIGITS.create_decimal_from_float(seconds / size))
            return f"{rounded:.3g} {unit}"
    return UNSEEN


def age(at: datetime | None, now: datetime) -> str:
    """How long ago something was, in one unit; a time ahead of the clock is called event time, UTC.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> [age(noon - timedelta(seconds=s), noon) for s in (0, 59, 61, 7300, 200_000, -600)]
    ['0 s ago', '59 s ago', '1 min ago', '2 h ago', '2026-01-29', 'event time 12:10 UTC']
    >>> age(None, noon)
    '–'
    """
    if at is None:
        return UNSEEN
    passed = now - at
    if passed < -AHEAD:
        return f"event time {at:%H:%M} UTC" if -passed < OLD else f"event time {at:%Y-%m-%d}"
    if passed >= OLD:
        return f"{at:%Y-%m-%d}"
    seconds = max(0, int(passed.total_seconds()))
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def event_time_note(last_event_at: datetime | str | None, now: datetime) -> str | None:
    """Why the time of a last event is not of this clock; None: it may be.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> event_time_note(noon + timedelta(minutes=24), noon)
    'event time, ahead of this clock: the run is simulated or replayed'
    >>> event_time_note("2026-01-31T12:24:00Z", noon) == EVENT_TIME, event_time_note(noon, noon) is None
    (True, True)
    """
    if last_event_at is None:
        return None
    moment = last_event_at if isinstance(last_event_at, datetime) else datetime.fromisoformat(last_event_at)
    return EVENT_TIME if moment - now > AHEAD else None


def minute(at: datetime | str | None) -> str:
    """A time to the minute, UTC.

    >>> minute("2026-01-31T09:08:35.377616Z"), minute(None)
    ('2026-01-31 09:08 UTC', '–')
    """
    if at is None:
        return UNSEEN
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def bar(share: float, width: int) -> str:
    """A bar of this width; full only if the share is.

    >>> bar(0.5, 4), bar(0.999, 4), bar(1.0, 4), bar(0.01, 4), bar(0.0, 4)
    ('██░░', '███░', '████', '█░░░', '░░░░')
    """
    filled = int(share * width) or (1 if share > 0 else 0)
    return "█" * filled + "░" * (width - filled)


def of_planned(done: int, planned: int | None) -> str:
    """A count, and the whole that it is of if that is known.

    >>> of_planned(12, 80), of_planned(1200, None)
    ('12 of 80', '1,200')
    """
    return f"{done:,}" if planned is None else f"{done:,} of {planned:,}"


def place(rank: Rank) -> str:
    """The places that an agent may truly have.

    >>> place(Rank(best=1, worst=3)), place(Rank(best=2, worst=2))
    ('1-3', '2')
    """
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}-{rank.worst}"


def largest_k(pass_at_k: Mapping[str, PassAtK] | None) -> str | None:
    """The largest k above 1 that has a value, as the mapping names it; None: there is none."""
    known = [k for k, found in (pass_at_k or {}).items() if found.value is not None and int(k) > 1]
    return max(known, key=int, default=None)


def share_of_pass(pass_at_k: Mapping[str, PassAtK] | None, k: str | None) -> str:
    """pass@k; `*` while not every planned task supports it (R11)."""
    found = (pass_at_k or {}).get(k) if k else None
    return UNSEEN if found is None or found.value is None else percent(found.value) + "*" * found.partial


def share_of(done: int, planned: int | None) -> float | None:
    """Filled part of the plan, at most 1; None: no plan, or one of nothing.

    >>> share_of(3, 4), share_of(5, 4), share_of(3, None), share_of(0, 0)
    (0.75, 1.0, None, None)
    """
    return min(1.0, done / planned) if planned else None


def finite(value: Number | None) -> float | None:
    """A number of a summary to calculate with; None: unknown, infinite or NaN (R14).

    >>> finite(0.5), finite("Infinity"), finite(None)
    (0.5, None, None)
    """
    return None if value is None or not math.isfinite(float(value)) else float(value)
