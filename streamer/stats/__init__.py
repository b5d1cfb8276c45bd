"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs, `add`, `remove`, `merge` and `summary`, and its answer is a
function of the multiset of values it holds, to the last bit: no order, duplicate, removal or split shows.

Import each from its module: most of them need numpy, and the inference gets along without it.
"""
