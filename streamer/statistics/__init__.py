"""Exact running statistics; they know nothing of benchmarks.

Every statistic is a value with four verbs: `add`, `remove`, `merge` and `summary`. Its answer depends on the
multiset of its values alone, to the last bit.

Import each from its module: a distribution needs numpy, the inference does not.
"""
