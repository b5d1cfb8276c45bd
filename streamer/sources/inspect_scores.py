"""Scores of inspect_ai as named metrics and a verdict.

A scorer's value becomes the metric SCORER. The entries of a dictionary become SCORER/KEY. Values become
numbers as in the metrics of inspect_ai (`value_to_float`): C is 1, P is 0.5, I and N are 0. A value that is
no number at all counts as 0 there. Here it is left out, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamer.schemas.limits import MAX_METRICS
from streamer.sources.names import metric_name

CORRECT, INCORRECT = "C", "I"
LETTERS = {CORRECT: 1.0, "P": 0.5, INCORRECT: 0.0, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

_SHOWN = 40


@dataclass(slots=True)
class SampleScores:
    """The scores of one sample.

    Attributes:
        metrics: name to value; 64 at most (R30).
        resolved: the verdict of the first scorer whose value is C or I; None without any.
        left_out: what is no number, and why.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    resolved: bool | None = None
    left_out: list[str] = field(default_factory=list)


def read_scores(scores: Mapping[str, Any]) -> SampleScores:
    """The scores of a sample, as its log has them: scorer to an object with `value`.

    >>> found = read_scores({"match": {"value": "C"}, "judge": {"value": {"style": 0.5, "size": 3}}})
    >>> found.resolved, found.metrics
    (True, {'match': 1.0, 'judge/style': 0.5, 'judge/size': 3.0})
    >>> read_scores({"sizes": {"value": [1, 2]}}).left_out
    ["the score 'sizes' is a list"]
    """
    found = SampleScores()
    for scorer, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else None
        if found.resolved is None and isinstance(value, str) and value in (CORRECT, INCORRECT):
            found.resolved = value == CORRECT
        for name, single in _singles(scorer, value):
            _add(found, name, single)
    return found


def _singles(scorer: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values that are no dictionary."""
    if isinstance(value, dict):
        yield from ((f"{scorer}/{key}", single) for key, single in value.items())
    else:
        yield scorer, value


def _add(found: SampleScores, name: str, value: Any) -> None:
    """Take a value in, or say why not. None and NaN are inspect_ai's "not scored": missing, and no fault."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return
    number = _number(value)
    named = metric_name(name)
    if number is None:
        found.left_out.append(f"the score {name!r} is {_kind(value)}")
    elif named in found.metrics:
        found.left_out.append(f"the score {name!r} has the name {named!r} of another one")
    elif not named or len(found.metrics) == MAX_METRICS:
        found.left_out.append(
            f"the score {name!r} is one more than {MAX_METRICS}" if named else "a score has no name"
        )
    else:
        found.metrics[named] = number


def _number(value: Any) -> float | None:
    """The value as inspect_ai's metrics count it; None for what is no finite number."""
    if isinstance(value, str):
        known = LETTERS.get(value, WORDS.get(value.lower()))
        if known is not None:
            return known
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    shown = repr(value)
    return f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}, which is no number"
