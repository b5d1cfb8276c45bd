"""The one error of the statistics: a caller that breaks their contract."""

from __future__ import annotations


class StatsError(ValueError):
    """A value that a statistic cannot take, or was asked to give back without having it.

    It always means a mistake of the caller (bad input from outside is dealt with before it gets here);
    the statistic is left as it was.
    """

    @classmethod
    def absent(cls, holder: str, value: object) -> StatsError:
        """`value` was to be removed from `holder` and is not in it."""
        return cls(
            f"{holder} does not hold {value!r}, so it cannot be removed; remove exactly what was added, once"
        )

    @classmethod
    def unfit(cls, holder: str, value: object, allowed: str) -> StatsError:
        """`value` is outside of what `holder` takes."""
        return cls(f"{holder} does not take {value!r}; it takes {allowed}; count other values apart")
