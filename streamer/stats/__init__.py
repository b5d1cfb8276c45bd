"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs, `add`, `remove`, `merge` and `summary`, and its answer is a
function of the multiset of values it holds, to the last bit: no order, duplicate, removal or split shows.
"""

from streamer.schemas.canonical import JsonNumber, json_number
from streamer.stats.attempts import Attempts
from streamer.stats.distribution import Distribution
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.ordered import OrderedMultiset
from streamer.stats.pass_at_k import PassAtK
from streamer.stats.shares import Shares
from streamer.stats.values import Values

__all__ = [
    "Attempts",
    "Distribution",
    "ExactSum",
    "JsonNumber",
    "OrderedMultiset",
    "PassAtK",
    "Shares",
    "StatsError",
    "Values",
    "json_number",
]
