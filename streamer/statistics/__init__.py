"""Exact running statistics, independent of benchmarks.

Every statistic is a value with four verbs: `add`, `remove`, `merge` and `summary`. Its answer depends only on
the multiset of its values, to the last bit.

Import each statistic from its module: distributions need numpy, inference does not.
"""
