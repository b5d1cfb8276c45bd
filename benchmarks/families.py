"""All that `make bench` measures, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.bench_fold import speed
from benchmarks.big_run import big_run
from benchmarks.commands import commands
from benchmarks.common import Scale, quotients
from benchmarks.comparisons import comparisons
from benchmarks.growth import growth
from benchmarks.latency import latency
from benchmarks.page import page
from benchmarks.peers import FLOOR, OURS, TARGETS, compare
from benchmarks.rows import Family, Measured, Row, Sites
from benchmarks.scale_out import two_workers
from benchmarks.starts import starts
from benchmarks.startup import startup
from benchmarks.volume import volume

FOLD_TARGETS = {0: 0.075, 100: 0.115}
"""Benchmarks of a trial: the share of validating alone that a fold must reach, three quarters of the most."""


def drained(scale: Scale, sites: Sites, *, folder: Path) -> Measured:
    """Rows: ours over each peer, draining a backlog."""
    figures = compare(sites["kafka"], folder, scale)
    rates, used = figures["rates"], figures["cpu_microseconds"]
    rows = [
        Row(f"drain of {scale.backlog:,} events", rates[OURS], "events/s"),
        Row("drain, processor time of the worker for an event", used[OURS], "us"),
    ]
    for peer, target in TARGETS.items():
        if peer in rates:
            number = "" if peer == FLOOR else f" (its rate over {figures['events'][peer]:,})"
            what = f"drain against {peer}{number}"
            rows.append(Row(what, quotients(rates[OURS], rates[peer]), "x", ">=", target))
    if all(used[FLOOR]):  # so few events take less than the clock can tell
        by_cpu = quotients(used[FLOOR], used[OURS])
        rows.append(Row("drain against floor, by processor time alone", by_cpu, "x"))
    return Measured(rows, figures)


def folded(scale: Scale, sites: Sites) -> Measured:
    """Rows: the fold of a file over validating it alone, small events and events with 100 benchmarks."""
    results = speed(scale.fold, scale.repeats)
    rows = [
        Row(
            f"fold of {result['events']:,} events of {result['benchmarks']} benchmarks, against validating",
            result["turns"],
            "x",
            ">=",
            FOLD_TARGETS[result["benchmarks"]],
        )
        for result in results
        if result["case"] == "fold"
    ]
    return Measured(rows, {"cases": results})


def families(find_peers: Callable[[], Path]) -> dict[str, Family]:
    """By name, in the order in which they are measured."""

    def with_peers(scale: Scale, sites: Sites) -> Measured:
        return drained(scale, sites, folder=find_peers())

    return {
        "peers": with_peers,
        "fold": folded,
        "starts": starts,
        "comparisons": comparisons,
        "growth": growth,
        "two-workers": two_workers,
        "latency": latency,
        "volume": volume,
        "big-run": big_run,
        "startup": startup,
        "commands": commands,
        "page": page,
    }
