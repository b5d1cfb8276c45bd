"""How a worker's speed grows old: more slots in one run, the same number of events over more runs.

The rates are events for each second of the worker's processor time from its first fetch on. That time is the
limit, and other work on the machine changes it little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from benchmarks.common import Scale, events, spread
from benchmarks.drain import drain
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment

FALLS_AT_MOST = 1 / 3
Shape: TypeAlias = Mapping[str, int]
GRID: Shape = {"tiers": 7, "agents": 5}
"""48 groups a run: over 2,000 runs of 50,000 events nearly every event makes a new group."""

PLAIN: Shape = {"tiers": 1, "agents": 1}
"""4 groups a run."""


def growth(scale: Scale, sites: Sites) -> Measured:
    """Rows: the rate at the most over the rate at the fewest, for slots and for runs."""
    over = min(scale.backlog, max(scale.growth))
    slots = {number: _rates(sites, scale, number, 1, GRID) for number in scale.growth}
    runs = {number: _rates(sites, scale, over, number, GRID) for number in scale.runs}
    plain = {number: _rates(sites, scale, over, number, PLAIN) for number in scale.runs}
    rows = [
        _row(slots, "slots in one run", target=1 - FALLS_AT_MOST),
        _row(runs, f"runs of 7 tiers and 5 agents, {over:,} events in all"),
        _row(plain, f"runs of one tier and agent, {over:,} events in all"),
    ]
    rates = {"slots": _medians(slots), "runs": _medians(runs), "plain_runs": _medians(plain)}
    return Measured(rows, {**rates, "events_over_runs": over})


def _rates(sites: Sites, scale: Scale, number: int, runs: int, shape: Shape) -> list[float]:
    with Deployment(sites["kafka"]) as deployment:
        expected = deployment.load(events(number, runs=runs, **shape))
        turns = 1 if number > scale.backlog else min(2, scale.repeats)
        drained = [drain(deployment, expected, number) for _ in range(turns)]
    return [1e6 / one.cpu_microseconds for one in drained]


def _row(rates: dict[int, list[float]], what: str, target: float | None = None) -> Row:
    fewest, most = min(rates), max(rates)
    ends = [spread(rates[number])["median"] for number in (fewest, most)]
    text = f"growth: events/s with {most:,} {what}, over those with {fewest:,}"
    return Row(text, [ends[1] / ends[0]], "x", None if target is None else ">=", target)


def _medians(rates: dict[int, list[float]]) -> dict[str, float]:
    return {str(number): spread(result)["median"] for number, result in rates.items()}
