"""Forecasts with an interval, and how people read them. Pure."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import NamedTuple

WIDTH = 3.0
"""Standard errors to each side of the logarithm. 1.96 would do if finished trials were a fair sample."""


class Estimate(NamedTuple):
    """A forecast with its interval, all three in the same unit; `low <= likely <= high`."""

    low: float
    likely: float
    high: float

    @classmethod
    def around(cls, likely: float, error: float, least: float = 0.0) -> Estimate:
        """A forecast with a standard error; the interval is one of ratios, so it reaches farther upwards.

        Args:
            least: what is certain already; the interval begins there at the lowest.

        >>> Estimate.around(0.0, 1.0), Estimate.around(100.0, 0.0)
        (Estimate(low=0.0, likely=0.0, high=0.0), Estimate(low=100.0, likely=100.0, high=100.0))
        >>> [round(end) for end in Estimate.around(100.0, 20.0)]
        [55, 100, 181]
        """
        open_part = likely - least
        if open_part <= 0:
            return cls(likely, likely, likely)
        factor = math.exp(WIDTH * math.sqrt(math.log1p((error / open_part) ** 2)))
        return cls(least + open_part / factor, likely, least + open_part * factor)


def end_words(at: datetime, left: Estimate) -> str:
    """When something ends, as clock times in the zone of `at`, and that it is a forecast.

    Args:
        at: the time that `left` is counted from.
        left: seconds.

    >>> from datetime import UTC
    >>> night = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)
    >>> end_words(night, Estimate(4200.0, 6000.0, 9000.0))
    'forecast: ends about 23:40 UTC, 23:10 to 00:30'
    >>> end_words(night, Estimate(200_000.0, 300_000.0, 500_000.0))
    'forecast: ends about 4 Feb 09:20 UTC, 3 Feb 05:33 to 6 Feb 16:53'
    """
    ends = [at + timedelta(seconds=seconds) for seconds in left]
    low, likely, high = (clock(end, at, ends[2]) for end in ends)
    return f"forecast: ends about {likely} {at:%Z}, {low} to {high}"


def clock(end: datetime, at: datetime, last: datetime | None = None) -> str:
    """A time as a clock shows it, with the day where it may be another one.

    Args:
        end: the time.
        at: now.
        last: the latest of the times that stand beside it; None: `end` itself.
    """
    far = (last or end) - at >= timedelta(days=1)
    return f"{end.day} {end:%b %H:%M}" if far else f"{end:%H:%M}"


def usd_words(total: Estimate) -> str:
    """What a run will cost.

    >>> usd_words(Estimate(10.0, 12.5, 18.0))
    'forecast: about $12.50 in all, $10.00 to $18.00'
    """
    low, likely, high = (f"${usd:,.2f}" for usd in total)
    return f"forecast: about {likely} in all, {low} to {high}"
