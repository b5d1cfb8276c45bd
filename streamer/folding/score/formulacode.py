"""FormulaCode's score of one trial: failure flags, fallback to baseline, metrics (R3, R4, R21, R22)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter, sub
from statistics import median
from typing import Any, NamedTuple

from pydantic import JsonValue

from streamer.schemas.base import MAX_BENCHMARKS_PER_TRIAL, canonical_json
from streamer.schemas.events import ADVANTAGES
from streamer.schemas.wire import Result

# -----------------------------------------------------------------------------
# Speedups of single benchmarks, from ratios or seconds, and the benchmarks of a failed agent (R21).


AGENT, ORACLE = "agent/nop", "oracle/nop"
_AGENT_SECONDS, _ORACLE_SECONDS, _NOP_SECONDS = "agent_s", "oracle_s", "nop_s"


Entries = dict[str, JsonValue]

Pair = tuple[str, float | None, float | None]


class Speedup(NamedTuple):
    """One benchmark's speedups: above 1 is faster than the baseline (nop); None: invalid or missing (A1)."""

    name: str
    agent: float | None
    oracle: float | None

    @property
    def advantage(self) -> float | None:
        return None if self.agent is None or self.oracle is None else self.agent - self.oracle


def speedups(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> list[Speedup]:
    return [Speedup._make(pair) for pair in effective_pairs(benchmarks, fallback=fallback)]


def effective_pairs(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> list[Pair]:
    """The effective speedups as plain tuples, which are cheaper.

    With `fallback` the agent's value is 1.0, and a valid oracle value is kept (R21). Entries that are not
    objects are dropped (C1).
    """
    if fallback:
        return [(name, 1.0, oracle_speedup(e)) for name, e in benchmarks.items() if isinstance(e, dict)]
    return [
        (name, _speedup(e, AGENT, _AGENT_SECONDS), _speedup(e, ORACLE, _ORACLE_SECONDS))
        if isinstance(e, dict)
        else (name, None, None)
        for name, e in benchmarks.items()
    ]


def oracle_speedup(entry: JsonValue) -> float | None:
    return _speedup(entry, ORACLE, _ORACLE_SECONDS) if isinstance(entry, dict) else None


def has_oracle(benchmarks: Mapping[str, JsonValue]) -> bool:
    return any(
        isinstance(entry, dict) and (entry.get(ORACLE) is not None or entry.get(_ORACLE_SECONDS) is not None)
        for entry in benchmarks.values()
    )


def benchmarks_of(group: Sequence[Result]) -> Entries:
    """Every benchmark of the group's sub-trials, with its first valid oracle value.

    The oracle's own entries come first, then the others' by position, regardless of the order of events.
    Entries that are not objects are left out (C1).
    """
    merged: Entries = {}
    for sub_trial in sorted(group, key=_oracle_first):
        _join(merged, sub_trial.benchmarks or {})
    return merged


def with_own(event: Result, shared: Entries) -> Entries:
    """The benchmarks that a failed agent counts with; its own entries take precedence."""
    if not event.benchmarks:
        return shared
    own: Entries = {}
    _join(own, event.benchmarks)
    _join(own, shared)
    return own


def _join(merged: Entries, entries: Mapping[str, JsonValue]) -> None:
    for name, entry in entries.items():
        if isinstance(entry, dict) and (name not in merged or _adds_the_oracle(entry, merged[name])):
            merged[name] = entry


def _oracle_first(event: Result) -> tuple[bool, int, str, str]:
    return (event.agent != "oracle", event.agent_index or 0, event.agent, event.model)


def _adds_the_oracle(entry: JsonValue, stored: JsonValue) -> bool:
    return oracle_speedup(stored) is None and oracle_speedup(entry) is not None


def _speedup(entry: dict[str, Any], ratio: str, seconds: str) -> float | None:
    given = entry.get(ratio)
    if given.__class__ is float and 0.0 < given < math.inf:
        return given  # the usual case, at half the price
    if ratio in entry or seconds not in entry:
        return _valid(given)
    own, nop = _seconds(entry[seconds]), _seconds(entry.get(_NOP_SECONDS))
    return None if own is None or nop is None else _valid(nop / own)


def _seconds(value: Any) -> float | None:
    samples = value if isinstance(value, list) else [value]
    if not samples or any(_valid(sample) is None for sample in samples):
        return None
    return float(median(samples))


def _valid(value: Any) -> float | None:
    """A positive finite number as float, else None (A1). JSON true counts as 1, as in the harness."""
    if isinstance(value, float):
        return value if 0.0 < value < math.inf else None
    if not isinstance(value, int) or value <= 0:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


# -----------------------------------------------------------------------------
# The advantages of an agent at the four levels of FormulaCode: benchmarks by module, class and function.
#
# The names of a task's benchmarks repeat from trial to trial, so their groups are computed once.


_KEPT_NAMES = 100_000
_MOST_REMEMBERED = 2_000


class BenchmarkName(NamedTuple):
    module: str | None
    class_: str | None
    function: str | None


class Grouping(NamedTuple):
    """Groups of benchmarks as indices into the names; `singles` have one member."""

    singles: tuple[int, ...]
    larger: tuple[Callable[[Sequence[float]], tuple[float, ...]], ...]


def advantages(
    names: tuple[str, ...], agent: list[float], oracle: list[float]
) -> tuple[float, float, float, float]:
    """The advantages of levels 1 to 4 (A5, A6): means of gmean(agent) - gmean(oracle); 0.0 if empty.

    `names` are the valid benchmarks (A1). The other arguments are logarithms of their speedups.
    """
    groupings = _remembered(names) if len(names) <= _MOST_REMEMBERED else _groupings(names)
    means: dict[int, float] = {}
    for grouping in groupings:
        if id(grouping) not in means:
            differences = list(map(sub, _gmeans(grouping, agent), _gmeans(grouping, oracle)))
            means[id(grouping)] = _mean_of(differences)
    one, two, three, four = (means[id(grouping)] for grouping in groupings)
    return one, two, three, four


def gmean(logs: Sequence[float]) -> float:
    """Geometric mean from logarithms; 1.0 if empty (A3)."""
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def _mean_of(differences: list[float]) -> float:
    if not differences:
        return 0.0
    try:
        return math.fsum(differences) / len(differences)
    except OverflowError:  # the sum is beyond the range of floats, the mean is not
        return math.fsum(difference / len(differences) for difference in differences)


def _gmeans(grouping: Grouping, logs: list[float]) -> list[float]:
    means = [math.exp(logs[place]) for place in grouping.singles]
    return means + [gmean(take(logs)) for take in grouping.larger]


@lru_cache(maxsize=_KEPT_NAMES)
def benchmark_name(name: str) -> BenchmarkName:
    """The parts of a benchmark's name. Names repeat across trials, so each is parsed once.

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


def _groupings(names: Sequence[str]) -> tuple[Grouping, ...]:
    """Groupings by module, class and function, and of all (A6). Equal groupings are the same object."""
    stored: dict[tuple[tuple[int, ...], ...], Grouping] = {}
    groupings = []
    for depth in (1, 2, 3, 0):
        groups: dict[tuple[str | None, ...], list[int]] = {}
        for place, name in enumerate(names):
            groups.setdefault(benchmark_name(name)[:depth], []).append(place)
        places = tuple(map(tuple, groups.values()))
        groupings.append(stored.setdefault(places, _grouping(places)))
    return tuple(groupings)


_remembered = lru_cache(maxsize=256)(_groupings)


def _grouping(groups: tuple[tuple[int, ...], ...]) -> Grouping:
    return Grouping(
        tuple(group[0] for group in groups if len(group) == 1),
        tuple(itemgetter(*group) for group in groups if len(group) > 1),
    )


# -----------------------------------------------------------------------------
# Task metrics: the geometric mean speedup and the advantage at four levels.
#
# One logarithm and one exponential, from `math`, serve every size and every path: numpy's differ in the
# last bit. Sums of logarithms are exactly rounded, so the order of benchmarks never matters.


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one agent on one task.

    Attributes:
        task_speedup: geometric mean over the valid benchmarks; 1.0 for a fallback (R21).
        advantages: by module, class and function, and over all, levels 1 to 4 (A6). None without an oracle
        value (R22), or without a valid one (R21).
    """

    task_speedup: float | None
    advantages: tuple[float, float, float, float] | None
    num_benchmarks: int
    num_valid_benchmarks: int


def task_metrics(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> TaskMetrics:
    """Metrics over the effective speedups.

    >>> task_metrics({"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}}, fallback=False)
    TaskMetrics(task_speedup=2.0, advantages=(1.0, 1.0, 1.0, 1.0), num_benchmarks=1, num_valid_benchmarks=1)
    >>> task_metrics({}, fallback=False)
    TaskMetrics(task_speedup=None, advantages=None, num_benchmarks=0, num_valid_benchmarks=0)
    """
    effective = effective_pairs(benchmarks, fallback=fallback)
    valid = [
        (name, agent, oracle) for name, agent, oracle in effective if agent is not None and oracle is not None
    ]
    if not valid:
        counts = fallback or not has_oracle(benchmarks)
        alone = [math.log(agent) for _, agent, _ in effective if agent is not None and counts]
        return TaskMetrics(gmean(alone) if alone or fallback else None, None, len(effective), 0)
    names = tuple(name for name, _, _ in valid)
    agents = [math.log(agent) for _, agent, _ in valid]
    oracles = [math.log(oracle) for _, _, oracle in valid]
    return TaskMetrics(gmean(agents), advantages(names, agents, oracles), len(effective), len(valid))


# -----------------------------------------------------------------------------
# FormulaCode's score of one trial: failure flags, fallback to baseline, metrics (R3, R4, R21, R22).


@dataclass(frozen=True, slots=True)
class FormulaCodeScore:
    """FormulaCode's results for one agent on one task.

    Attributes:
        pytest_failed: the test suite failed, relative to the oracle's if there is one (D8, R5).
        snapshot_failed: the snapshot comparison failed (D10).
        fallback: the agent failed, and each known benchmark counts as 1.0 (R21). Without known benchmarks it
            is false, though the speedup is 1.0 (C3).
        task_speedup: None if not measured (R21).
        advantages: in the order of :data:`ADVANTAGES`; all or single ones are None if unknown (R21, R22).
        claimed: a log states the advantages without speedups (R3).
        speedup_percentage: (task_speedup - 1) x 100, or the old result format's without benchmarks. None if
            it overflows a float.
        has_no_reference: the oracle has no readable counts, so 0 failures are allowed (R20).
    """

    pytest_failed: bool
    snapshot_failed: bool
    fallback: bool
    task_speedup: float | None
    advantages: tuple[float | None, ...] | None
    claimed: bool
    num_benchmarks: int
    num_valid_benchmarks: int
    speedup_percentage: float | None
    has_no_reference: bool = False


def formulacode_score(
    event: Result, *, pytest_failed: bool, snapshot_failed: bool, reverted_to: Entries | None
) -> FormulaCodeScore:
    """Score a trial whose group has any FormulaCode section.

    A failed agent counts with the benchmarks of `reverted_to`, each unchanged; None: it did not fail.
    """
    if reverted_to is not None:
        return _reverted(reverted_to, pytest_failed, snapshot_failed, event.speedup_percentage)
    benchmarks, percentage = event.benchmarks, event.speedup_percentage
    claims = None if benchmarks else _claims(event.claimed)
    metrics = None if benchmarks is None else task_metrics(benchmarks, fallback=False)
    if metrics is not None and claims is None:
        counts = metrics.num_benchmarks, metrics.num_valid_benchmarks
    else:
        counts = _claimed_counts(event.claimed)
    if metrics is not None and (benchmarks or percentage is None):
        percentage = _percentage(metrics.task_speedup)
    return FormulaCodeScore(
        pytest_failed=pytest_failed,
        snapshot_failed=snapshot_failed,
        fallback=False,
        task_speedup=None if metrics is None else metrics.task_speedup,
        advantages=claims or (None if metrics is None else _measured(metrics)),
        claimed=claims is not None,
        num_benchmarks=counts[0],
        num_valid_benchmarks=counts[1],
        speedup_percentage=percentage,
    )


def missing_score(group: Sequence[Result]) -> FormulaCodeScore:
    """Score of a planned agent without a sub-trial in a trial: it changed nothing (R21)."""
    return _reverted(benchmarks_of(group), False, False, None)


def _reverted(
    entries: Mapping[str, JsonValue], pytest_failed: bool, snapshot_failed: bool, percentage: float | None
) -> FormulaCodeScore:
    """Score of a failed agent: 1.0 for each known benchmark; without any, unknown advantages (R21).

    The `percentage` of the old result format counts if no benchmark is known (F8).
    """
    metrics = task_metrics(entries, fallback=True)
    is_old = not entries and percentage is not None
    return FormulaCodeScore(
        pytest_failed=pytest_failed,
        snapshot_failed=snapshot_failed,
        fallback=bool(entries),
        task_speedup=metrics.task_speedup,
        advantages=_measured(metrics),
        claimed=False,
        num_benchmarks=metrics.num_benchmarks,
        num_valid_benchmarks=metrics.num_valid_benchmarks,
        speedup_percentage=percentage if is_old else _percentage(metrics.task_speedup),
    )


def _measured(metrics: TaskMetrics) -> tuple[float, ...] | None:
    return metrics.advantages and (metrics.advantages[-1], *metrics.advantages)


def is_formulacode(event: Result) -> bool:
    return not (
        event.benchmarks is None
        and event.tests is None
        and event.snapshot is None
        and event.claimed is None
        and event.speedup_percentage is None
    )


def _percentage(task_speedup: float | None) -> float | None:
    if task_speedup is None:
        return None
    percentage = (task_speedup - 1.0) * 100.0
    return percentage if math.isfinite(percentage) else None


def _claims(claimed: Mapping[str, JsonValue] | None) -> tuple[float | None, ...] | None:
    values = tuple(_number((claimed or {}).get(name)) for name in ADVANTAGES)
    return values if any(value is not None for value in values) else None


def _claimed_counts(claimed: Mapping[str, JsonValue] | None) -> tuple[int, int]:
    counts = claimed or {}
    total, valid = _number(counts.get("total_benchmarks")), _number(counts.get("num_valid_benchmarks"))
    return _possible(total), _possible(valid)


def _possible(count: float | None) -> int:
    return int(count) if count is not None and 0 <= count <= MAX_BENCHMARKS_PER_TRIAL else 0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


# -----------------------------------------------------------------------------
# The per-agent task payload of the specification, in a scored trial.


MAX_PAYLOAD_BYTES = 240 * 1024
"""Keeps a scored trial with all its names within 256 KiB."""

KEPT_AT_EACH_END = (100, 50, 25, 10, 3, 1, 0)
"""Above the size limit, the slowest and fastest 100 benchmarks are kept, and the rest are counted. Very long
names leave room for fewer.
"""


def task_payload(
    event: Result,
    group: Sequence[Result],
    score: FormulaCodeScore,
    *,
    success: bool,
    cost_usd: float | None,
    trajectory_length: int | None,
) -> dict[str, Any]:
    """Payload of one agent on one task; `per_benchmark_speedups` is null if not measured (R21)."""
    advantages = score.advantages or (None,) * len(ADVANTAGES)
    payload: dict[str, Any] = {
        "per_benchmark_speedups": None,
        "benchmarks_left_out": 0,
        "pytest_summary": _pytest_summary(event),
        "snapshot_summary": None if event.snapshot is None else event.snapshot.model_dump(mode="json"),
        "pytest_failed": score.pytest_failed,
        "snapshot_failed": score.snapshot_failed,
        "success": success,
        "fallback_to_baseline": score.fallback,
        "claimed": score.claimed,
        "reference": "none" if score.has_no_reference else None,
        "num_benchmarks": score.num_benchmarks,
        "num_valid_benchmarks": score.num_valid_benchmarks,
        "task_speedup": score.task_speedup,
        "task_cost_usd": cost_usd,
        "trajectory_length": trajectory_length,
    } | dict(zip(ADVANTAGES, advantages, strict=True))
    benchmarks = with_own(event, benchmarks_of(group)) if score.fallback else event.benchmarks
    if benchmarks is not None:
        effective = speedups(benchmarks, fallback=score.fallback)
        payload["per_benchmark_speedups"] = _details(effective, score.fallback)
        for ends in KEPT_AT_EACH_END:
            if len(canonical_json(payload)) <= MAX_PAYLOAD_BYTES:
                break
            kept = _extremes(effective, ends)
            payload["per_benchmark_speedups"] = _details(kept, score.fallback)
            payload["benchmarks_left_out"] = len(effective) - len(kept)
    return payload


def _details(effective: list[Speedup], fallback: bool) -> dict[str, dict[str, Any]]:
    mark = {"fallback_to_baseline": True} if fallback else {}
    return {
        speedup.name: {
            "agent/nop": speedup.agent,
            "oracle/nop": speedup.oracle,
            "advantage": speedup.advantage,
        }
        | mark
        for speedup in effective
    }


def _extremes(effective: list[Speedup], ends: int) -> list[Speedup]:
    ordered = sorted(effective, key=lambda speedup: (speedup.agent or 0.0, speedup.name))
    return ordered if len(ordered) <= 2 * ends else ordered[:ends] + ordered[len(ordered) - ends :]


def _pytest_summary(event: Result) -> dict[str, Any] | None:
    if event.tests is None:
        return None
    counts = event.tests.model_dump(mode="json")
    return counts | {"failed_total": (event.tests.failed or 0) + (event.tests.error or 0)}
