"""What a benchmark hands back: rows with a figure, its spread and its target; details for the chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from benchmarks.common import Scale, spread
from benchmarks.site import Site, a_site


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what was measured, with the numbers that it depends on.
        values: one for each turn that counts; (): not measured, and `what` says why.
        unit: of the values and of the target.
        sense, target: `>=` or `<=` so much; None where nothing is asked.
    """

    what: str
    values: Sequence[float]
    unit: str
    sense: Literal[">=", "<="] | None = None
    target: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file; `met` is null where nothing is asked, figures where nothing is measured."""
        result = spread(self.values) if self.values else dict.fromkeys(("median", "min", "max"))
        met = None
        if self.target is not None and self.values:
            met = result["median"] >= self.target if self.sense == ">=" else result["median"] <= self.target
        asked = {"sense": self.sense, "target": self.target, "met": met}
        return {"what": self.what, **result, "turns": len(self.values), "unit": self.unit, **asked}


@dataclass
class Measured:
    """Rows of a family, and other data worth keeping."""

    rows: list[Row]
    details: dict[str, Any] = field(default_factory=dict)


class Sites:
    """The brokers that families share, each started when first asked for; they end with the block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, Site] = {}

    def __getitem__(self, engine: str) -> Site:
        if engine not in self._running:
            self._running[engine] = self._stack.enter_context(a_site(engine))
        return self._running[engine]

    def __enter__(self) -> Sites:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


Family: TypeAlias = Callable[[Scale, Sites], Measured]
