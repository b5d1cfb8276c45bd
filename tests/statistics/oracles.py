"""What the statistics must say, computed in one go from all values, in rationals and decimals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import comb, inf, isfinite
from typing import Any

from streamer.schemas.base import json_number

Summary = dict[str, Any]

DIGITS = Context(prec=1600, Emin=-999_999, Emax=999_999)


def rounded(value: Fraction) -> float:
    """The nearest float; infinite beyond the range; never -0.0."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return inf if value > 0 else -inf


def mean_of(values: Sequence[float]) -> float | None:
    return rounded(sum(map(Fraction, values), Fraction()) / len(values)) if values else None


def exact_variance(values: Sequence[float], ddof: int) -> Fraction:
    if len(values) < 2:
        return Fraction()
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction()) / (len(exact) - ddof)


def median_of(values: Sequence[float]) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    half, odd = divmod(len(ordered), 2)
    lower, upper = ordered[half if odd else half - 1], ordered[half]
    if lower == upper:
        return upper + 0.0
    if not (isfinite(lower) and isfinite(upper)):
        return lower + upper
    return rounded((Fraction(lower) + Fraction(upper)) / 2)


def mode_of(values: Sequence[float]) -> float | None:
    counts = Counter(value + 0.0 for value in values)
    most = max(counts.values(), default=0)
    return min((value for value, count in counts.items() if count == most), default=None)


def std_dev_of(values: Sequence[float], ddof: int) -> float | None:
    return root_of(exact_variance(values, ddof)) if values else None


def root_of(square: Fraction) -> float:
    """By way of decimals with more digits than a float between the extremes can have."""
    return float(DIGITS.sqrt(DIGITS.divide(Decimal(square.numerator), Decimal(square.denominator))))


def sums(values: Sequence[float], ddof: int = 0) -> Summary:
    return {
        "sum": json_number(rounded(sum(map(Fraction, values), Fraction()))),
        "mean": json_number(mean_of(values)),
        "variance": json_number(rounded(exact_variance(values, ddof))) if values else None,
        "std_dev": json_number(std_dev_of(values, ddof)),
        "count": len(values),
    }


def order(values: Sequence[float]) -> Summary:
    return {
        "min": json_number(min(values) + 0.0) if values else None,
        "median": json_number(median_of(values)),
        "max": json_number(max(values) + 0.0) if values else None,
        "mode": json_number(mode_of(values)),
        "count": len(values),
    }


def distribution(values: Sequence[float], ddof: int = 0) -> Summary:
    kept = [value for value in values if value == value]
    if all(map(isfinite, kept)):
        mean, std_dev = mean_of(kept), std_dev_of(kept, ddof)
    else:
        mean, std_dev = sum(value for value in kept if not isfinite(value)), None
    return {**order(kept), "mean": json_number(mean), "std_dev": json_number(std_dev)}


def pass_at_k(
    attempts: Sequence[tuple[str, bool]], planned_attempts: int = 0, planned_tasks: int = 0
) -> Summary:
    by_task: defaultdict[str, list[bool]] = defaultdict(list)
    for task, passed in attempts:
        by_task[task].append(passed)
    if not by_task:
        return {}
    most = max(planned_attempts, *map(len, by_task.values()), 1)
    result: Summary = {}
    for k in sorted({1, 2, 4, 5, 8, 10, 16, 32, 64, 128} & set(range(1, most + 1))):
        covered = [tried for tried in by_task.values() if len(tried) >= k]
        chances = [1 - Fraction(comb(tried.count(False), k), comb(len(tried), k)) for tried in covered]
        result[str(k)] = {
            "value": rounded(sum(chances, Fraction()) / len(chances)) if chances else None,
            "tasks_covered": len(covered),
            "partial": len(covered) < max(planned_tasks, len(by_task)),
        }
    return result
