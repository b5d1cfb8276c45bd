"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs: `add`, `remove`, `merge` and `summary`. The multiset of the values
that it holds decides its answer, to the last bit. Order, duplicates, removals and splits change nothing.
"""

from streamer.stats.distribution import Distribution, Shares
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.held import Values
from streamer.stats.ordered import OrderedMultiset
from streamer.stats.pass_at_k import Attempts, PassAtK

__all__ = [
    "Attempts",
    "Distribution",
    "ExactSum",
    "OrderedMultiset",
    "PassAtK",
    "Shares",
    "StatsError",
    "Values",
]
