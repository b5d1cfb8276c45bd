"""Task metrics of single benchmark dicts, benchmark names, geometric means and agent keys as fc-eval 0.1.0.

Every case equals what fc-eval computed, or is listed here by id with the ruling that makes it differ.
"""

from __future__ import annotations

import math
from typing import Any

from streamer.folding.score.formulacode import Speedup, TaskMetrics, benchmark_name, speedups, task_metrics
from streamer.schemas.base import agent_model_label, model_for_reporting
from tests.conformance.formulacode_rules import fallen_back
from tests.support.events import Event, a_trial, summarised
from tests.support.formulacode_cases import ADVANTAGES, Case, cases, close, close_difference, the_case

NO_ORACLE_AT_ALL = {"speedups-0032"}
"""(R22) fc-eval says speedup 1.0 and advantages 0.0; the speedup is the agent's own, advantages unknown."""

INVENTED_NO_ORACLE = 79
"""Cases whose fallback is the same in fc-eval: it puts 1.0 nowhere, and some oracle value is valid."""

KEYS_BY_RULE = {"found": 7, "not merged (R7)": 21, "not found": 37}
"""How many rows of resolve_keys end under the target's key in both, in fc-eval's merge only, in neither."""


def effective(case: Case, *, fallback: bool) -> list[Speedup]:
    return speedups(case.input["per_benchmark_speedups"], fallback=fallback)


def metrics(case: Case, *, fallback: bool) -> TaskMetrics:
    return task_metrics(case.input["per_benchmark_speedups"], fallback=fallback)


def check(ours: TaskMetrics, theirs: dict[str, Any], values: list[float]) -> None:
    """Every number that fc-eval has; `values` set the scale of what an advantage subtracts."""
    assert ours.task_speedup == close(theirs["task_speedup"])
    assert (ours.num_benchmarks, ours.num_valid_benchmarks) == (
        theirs["total_benchmarks"],
        theirs["num_valid_benchmarks"],
    )
    assert ours.advantages is not None
    for name, advantage in named_advantages(ours).items():
        assert advantage == close_difference(theirs[name], *values), name


def test_every_benchmark_dict_gives_fc_evals_task_metrics() -> None:
    compared = 0
    for case in cases("speedups"):
        if case.id in NO_ORACLE_AT_ALL:
            continue
        values = [v for s in effective(case, fallback=False) for v in (s.agent, s.oracle) if v]
        for part in ("parser", "harness"):
            check(metrics(case, fallback=False), case.expected[part], values)
        compared += 1
    assert compared == 102 - len(NO_ORACLE_AT_ALL)


def test_r21_every_fallback_is_fc_evals_or_invents_no_oracle_value() -> None:
    """fc-eval puts 1.0 where a benchmark has no finite oracle value (C1); here it keeps none."""
    equal = 0
    for case in cases("speedups"):
        oracles = own_oracles(case)
        ours, want = metrics(case, fallback=True), fallen_back(oracles)
        named = named_advantages(ours)
        assert ours.task_speedup == want["task_speedup"] == 1.0
        assert (ours.num_benchmarks, ours.num_valid_benchmarks) == (
            want["num_benchmarks"],
            want["num_valid_benchmarks"],
        )
        assert named == {
            name: close_difference(want[name], *filter(None, oracles.values())) for name in named
        }
        theirs = case.expected["fallback_metrics"]
        kept = {name: kept_oracle(entry) for name, entry in case.expected["fallback_speedups"].items()}
        if oracles == kept and any(kept.values()):
            check(ours, theirs, [value for value in oracles.values() if value])
            equal += 1
    assert equal == INVENTED_NO_ORACLE


def test_r22_without_any_oracle_value_the_speedup_is_the_agents_own_and_advantages_are_unknown() -> None:
    """speedups-0032: one valid agent value, 0.673706; the other entry is null."""
    (case,) = (case for case in cases("speedups") if case.id in NO_ORACLE_AT_ALL)
    assert case.expected["harness"]["task_speedup"] == 1.0
    assert case.expected["harness"]["agent_advantage"] == 0.0
    assert metrics(case, fallback=False) == TaskMetrics(0.673706, None, 2, 0)
    assert metrics(case, fallback=True) == TaskMetrics(1.0, None, 1, 0)


def test_every_fallback_keeps_and_drops_the_same_benchmarks_as_fc_eval() -> None:
    for case in cases("speedups"):
        theirs, own = case.expected["fallback_speedups"], own_oracles(case)
        ours = {speedup.name: speedup for speedup in effective(case, fallback=True)}
        assert list(ours) == list(theirs), case.id
        for name, entry in theirs.items():
            assert entry["fallback_to_baseline"] is True
            assert ours[name].agent == entry["agent/nop"] == 1.0
            assert ours[name].oracle == own[name], (case.id, name)
            oracle = own[name]
            if oracle is not None:
                assert oracle == entry["oracle/nop"]
                assert ours[name].advantage == close_difference(entry["advantage"], oracle)


def own_oracles(case: Case) -> dict[str, float | None]:
    """The valid oracle value of every benchmark that is an object (A1)."""
    found: dict[str, float | None] = {}
    for name, entry in case.input["per_benchmark_speedups"].items():
        if isinstance(entry, dict):
            value = entry.get("oracle/nop")
            number = float(value) if isinstance(value, int | float) else 0.0
            found[name] = number if math.isfinite(number) and number > 0 else None
    return found


def kept_oracle(entry: dict[str, Any]) -> float | None:
    """fc-eval's oracle value after a fallback; None where it is invalid."""
    return entry["oracle/nop"] if entry["oracle/nop"] > 0 else None


def named_advantages(ours: TaskMetrics) -> dict[str, float | None]:
    if ours.advantages is None:
        return dict.fromkeys(ADVANTAGES)
    return dict(zip(ADVANTAGES, (ours.advantages[-1], *ours.advantages), strict=True))


def test_every_benchmark_name_splits_as_in_fc_eval() -> None:
    table = the_case("benchmark_names").expected
    assert len(table) == 228
    for name, parts in table:
        assert list(benchmark_name(name)) == parts, name


def test_every_geometric_mean_over_valid_values_is_fc_evals() -> None:
    """As task speedups beside an oracle of 1.0; of nothing fc-eval has null, a speedup is 1.0 (A3)."""
    rows = the_case("gmeans").expected
    assert len(rows) == 7
    for row in rows:
        benchmarks = {f"m.f{i}": {"agent/nop": v, "oracle/nop": 1.0} for i, v in enumerate(row["values"])}
        ours = task_metrics(benchmarks, fallback=False).task_speedup
        for code in ("harness", "parser", "models"):
            assert ours == close(1.0 if row[code] is None else row[code])


def test_agent_keys_are_fc_evals_but_colons_of_agents_are_encoded_so_that_labels_never_collide() -> None:
    """An import path's ":" is "." in the label that the harness hands on (D4)."""
    rows = the_case("agent_keys").expected
    assert len(rows) == 15
    for row in rows:
        model = row["model_name"] or row["harness_model_name"] or "unknown"
        assert ":" not in row["label"]
        assert agent_model_label(row["label"], model_for_reporting(model)) == row["key"]


def test_r7_two_agents_share_a_summary_only_under_equal_normalised_keys() -> None:
    """fc-eval's merge falls back to another key of the same framework (D5); here agents are never merged."""
    seen = dict.fromkeys(KEYS_BY_RULE, 0)
    for row in the_case("resolve_keys").expected:
        others = [a_trial_of(key, f"task-{n}") for n, key in enumerate(row["keys"])]
        labels = {s["agent_model"] for s in agent_models(others)}
        (ours,) = agent_models([a_trial_of(row["target"], "task-of-target")])
        found = ours["agent_model"] in labels
        together = agent_models([*others, a_trial_of(row["target"], "task-of-target")])
        assert len(together) == len(labels) + (not found)
        if found == (row["harness"] is not None):
            assert not found or shown(row["harness"]) == ours["agent_model"]
            seen["found" if found else "not found"] += 1
        else:
            assert not found
            assert row["harness"].partition(":")[0] == row["target"].partition(":")[0]
            seen["not merged (R7)"] += 1
    assert seen == KEYS_BY_RULE


def a_trial_of(key: str, task: str) -> Event:
    agent, _, model = key.partition(":")
    return a_trial(task_id=task, agent=agent or None, model=model or None)


def agent_models(events: list[Event]) -> list[dict[str, Any]]:
    return [s for s in summarised(events).values() if s["type"] == "agent_model_summary"]


def shown(key: str) -> str:
    agent, _, model = key.partition(":")
    return agent_model_label(agent, model_for_reporting(model or "unknown"))
