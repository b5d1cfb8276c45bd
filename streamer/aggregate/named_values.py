"""The values of metrics that harnesses name themselves, in one group (R30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from streamer.stats.distribution import Distribution
from streamer.stats.held import Values


class Measured(Protocol):
    """A score with named metrics."""

    @property
    def metrics(self) -> Mapping[str, float] | None:
        """Metric to value; None: none."""


def named_values(scores: Iterable[Measured]) -> dict[str, Values]:
    """Metric to its values in these scores."""
    found: dict[str, list[float]] = {}
    for scored in scores:
        if scored.metrics:
            for name, value in scored.metrics.items():
                found.setdefault(name, []).append(value)
    return {name: Values(values) for name, values in found.items()}


def together(parts: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    """The values of all parts."""
    names = {name for part in parts for name in part}
    return {name: Values.together([part[name] for part in parts if name in part]) for name in names}


class NamedMetrics(dict[str, Distribution]):
    """Metric to its distribution. Counting values in and out is inverse; nothing is kept without values."""

    def count(self, values: Mapping[str, Values], sign: int) -> None:
        """Count values in (`sign` 1), or take back exactly what was counted (-1)."""
        for name, column in values.items():
            if sign > 0:
                self.setdefault(name, Distribution()).extend(column)
                continue
            self[name].withdraw(column)
            if not self[name].count:
                del self[name]
