"""Benchmark name -> module, class, function (A10-A15)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_KEPT_NAMES = 100_000


class BenchmarkName(NamedTuple):
    """Parts of a benchmark's name; None where the name has no such part."""

    module: str | None
    class_: str | None
    function: str | None


@lru_cache(maxsize=_KEPT_NAMES)
def benchmark_name(name: str) -> BenchmarkName:
    """Split a benchmark's name. Names repeat across trials: each is parsed once.

    >>> benchmark_name("pkg.sub.Class.time_x(10, 'a')")
    BenchmarkName(module='pkg.sub', class_='Class', function='time_x')
    >>> benchmark_name("Class.time_m")
    BenchmarkName(module='Class', class_=None, function='time_m')
    >>> benchmark_name("...")
    BenchmarkName(module=None, class_=None, function=None)
    """
    text = name.strip()
    if "(" in text and text.endswith(")"):
        text = text[: text.index("(")].strip()
    parts = [part for part in text.split(".") if part]
    if not parts:
        return BenchmarkName(None, None, None)
    *before, function = parts
    if len(before) >= 2 and before[-1][0].isupper():
        return BenchmarkName(".".join(before[:-1]), before[-1], function)
    return BenchmarkName(".".join(before) if before else None, None, function)
