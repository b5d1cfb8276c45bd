"""The distribution of values that are all 0 or 1: two counts hold everything."""

from __future__ import annotations

from streamer.stats.distribution import Distribution
from streamer.stats.held import Held, ZerosAndOnes


class Shares(Distribution):
    """A :class:`~streamer.stats.Distribution` of 0 and 1 only; raises StatsError for other values.

    >>> shares = Shares()
    >>> shares.extend([1.0, 1.0, 0.0])
    >>> shares.median(), shares.mean(), shares.summary()["std_dev"]
    (1.0, 0.6666666666666666, 0.4714045207910317)
    """

    __slots__ = ()

    def _empty(self) -> Held:
        return ZerosAndOnes()
