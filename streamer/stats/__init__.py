"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs, `add`, `remove`, `merge` and `summary`, and its answer is a
function of the multiset of values it holds, to the last bit: no order, duplicate, removal or split shows.
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
