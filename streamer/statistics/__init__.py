"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs: `add`, `remove`, `merge` and `summary`. The multiset of the values
that it holds decides its answer, to the last bit. Order, duplicates, removals and splits change nothing.

Import each from its module: a distribution needs numpy, and the inference gets along without it.
"""
