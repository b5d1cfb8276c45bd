"""The tables that open docs/compatibility.md: which share of the numbers differs, which way, and why.

Our side is the plain reimplementation of the rulings. The conformance tests hold the product to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from tests.conformance import formulacode_run_directories as runs
from tests.conformance.fc_runs import Trial
from tests.conformance.formulacode_rules import ruled, ruled_summary
from tests.conformance.test_formulacode_runs import ruled_rows
from tests.conformance.test_formulacode_runs import why as ruling_of
from tests.support.formulacode_cases import close_difference

Json = dict[str, Any]
WAYS = ("equal", "lower", "higher", "unknown here", "only here")
OF_TRIALS = (
    *("success", "task_speedup"),
    *("agent_advantage", "agent_advantage_level1", "agent_advantage_level2", "agent_advantage_level3"),
    *("num_benchmarks", "num_valid_benchmarks", "task_cost_usd", "trajectory_length"),
)
OF_SUMMARIES = (
    *("mean_success_rate", "mean_speedup"),
    *("agent_advantage", "agent_advantage_level1", "agent_advantage_level2", "agent_advantage_level3"),
    *("num_benchmarks", "num_valid_benchmarks"),
    *("mean_cost_per_task", "cost_weighted_advantage", "mean_trajectory_length"),
)
MEASURED = ("success", "task_speedup", "agent_advantage")
MOVED = (*MEASURED, "task_cost_usd", "trajectory_length")
"""The numbers of a trial whose direction the table of reasons shows."""

ONLY_MOVES = {
    "R1": ("trajectory_length",),
    "R2": ("task_cost_usd",),
    "R3": ("agent_advantage",),
    "R5": MEASURED,
    "R8": ("task_cost_usd", "trajectory_length"),
    "R20": ("success",),
    "R21": MEASURED,
    "R22": MEASURED,
    "D8": MEASURED,
}
"""Rulings that concern some of the numbers alone; the others concern all of a trial's."""

RUNS = {
    "fc-nop-oracle-gpt5": "nop, oracle and one model",
    "fc-two-attempts": "nop, oracle and one model, two attempts a task",
    "fc-rough": "nop, oracle and two models, with damaged logs",
    "fc-no-oracle-same-framework": "two models of one framework, no oracle",
    "fc-single-terminus": "one agent alone",
    "fc-multi-of-one": "one agent, in fc-eval's multi-agent mode",
    "fc-single-nop": "nop alone",
}
"""What is in each of the shared run directories."""


class Number(NamedTuple):
    """One number that fc-eval has, or could have, which `way` ours differs, and the rulings that moved it."""

    run: str
    field: str
    way: str
    distance: float | None
    why: tuple[str, ...] = ()


def way(ours: Any, theirs: Any, scale: Sequence[float] = ()) -> str:
    if ours == (close_difference(theirs, *scale) if isinstance(theirs, float) else theirs):
        return "equal"
    if ours is None:
        return "unknown here"
    if theirs is None:
        return "only here"
    return "lower" if ours < theirs else "higher"


def distance(ours: Any, theirs: Any) -> float | None:
    return None if ours is None or theirs is None else abs(float(ours) - float(theirs))


def of_trials(trials: Mapping[str, list[Trial]]) -> Iterator[Number]:
    for name in RUNS:
        known = runs.expected()[name]
        run = runs.Run(name, known, trials[name], {}, {}, {})
        for trial in trials[name]:
            for sub in trial.subs:
                want, theirs = ruled(sub, trial.subs), trial.payloads.get(sub.key) or {}
                why = tuple(ruling_of(run, trial, sub, want).split())
                shown = (want["per_benchmark_speedups"] or {}).values()
                scale = [value for entry in shown for value in entry.values() if value]
                for field in OF_TRIALS:
                    pair = want[field], theirs.get(field)
                    moved = way(*pair, scale)
                    yield Number(name, field, moved, distance(*pair), why if moved != "equal" else ())


def of_summaries(trials: Mapping[str, list[Trial]]) -> Iterator[Number]:
    for name in RUNS:
        known = runs.expected()[name]
        run = runs.Run(name, known, trials[name], {}, {}, {})
        summaries = known["expected_from_run_results"]["agent_metrics_summary"]
        for key in sorted({sub.key for trial in run.trials for sub in trial.subs}):
            ours, theirs = ruled_summary(ruled_rows(run, key)), summaries.get(key, {})
            for field in OF_SUMMARIES:
                pair = ours[field], theirs.get(field)
                yield Number(name, field, way(*pair), distance(*pair))


def shares(trials: Mapping[str, list[Trial]], titles: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The page's counts, with words around them, and its tables, in Markdown."""
    single, whole = list(of_trials(trials)), list(of_summaries(trials))
    counts = [
        f"has {len(RUNS)} run directories",
        f"Of the {len(single)} numbers of single trials, {share(single)} are",
        f"Of the {len(whole)} numbers in summaries, {share(whole)} are",
    ]
    tables = (
        by_run(single, whole),
        by_field("number of a trial", single, OF_TRIALS),
        by_field("number in a summary", whole, OF_SUMMARIES),
        by_reason(single, titles),
    )
    return counts, ["\n".join([*table, ""]) for table in tables]


def share(numbers: Iterable[Number]) -> str:
    stored = [number.way == "equal" for number in numbers]
    return f"{100 * sum(stored) / len(stored):.0f} %"


def by_run(single: list[Number], whole: list[Number]) -> list[str]:
    rows = ["| run directory | agents | same in trials | same in summaries |", "|---|---|---|---|"]
    for name, agents in RUNS.items():
        mine, summed = ([n for n in stored if n.run == name] for stored in (single, whole))
        rows.append(f"| {name} | {agents} | {share(mine)} | {share(summed)} |")
    return rows


def by_field(title: str, numbers: list[Number], fields: Sequence[str]) -> list[str]:
    rows = [f"| {title} | {' | '.join(WAYS)} | by |", "|---|" + "---|" * (len(WAYS) + 1)]
    for field in fields:
        mine = [number for number in numbers if number.field == field]
        counts = (str(sum(number.way == way for number in mine)) for way in WAYS)
        moved = [n.distance for n in mine if n.way in ("lower", "higher") and n.distance is not None]
        by = f"{median(moved):.2g}" if moved else "-"
        rows.append(f"| `{field}` | {' | '.join(counts)} | {by} |")
    return rows


def by_reason(numbers: list[Number], titles: Mapping[str, str]) -> list[str]:
    result: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for number in numbers:
        for ruling in number.why:
            if number.field in ONLY_MOVES.get(ruling, MOVED):
                result[ruling][number.field, number.way] += 1
    head = " | ".join(f"`{field}`" for field in MOVED)
    rows = [f"| ruling | why | {head} |", "|---|---|" + "---|" * len(MOVED)]
    for ruling in sorted(result, key=in_order):
        cells = (moves(result[ruling], field) for field in MOVED)
        rows.append(f"| {ruling} | {titles[ruling]} | {' | '.join(cells)} |")
    return rows


def moves(result: Counter[tuple[str, str]], field: str) -> str:
    """As `3 lower, 1 higher`; a dash if nothing moves."""
    counted = [f"{result[field, way]} {way}" for way in WAYS if result[field, way]]
    return ", ".join(counted) or "-"


def in_order(ruling: str) -> tuple[bool, str, int]:
    """Rulings first, then facts, each by number."""
    return ruling[0] != "R", ruling[0], int(ruling[1:])
