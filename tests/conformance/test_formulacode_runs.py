"""Complete fc-eval run directories through `convert` and `fold`: fc-eval's numbers, or the ruled ones.

Three answers are compared: ours; fc-eval's, per trial and per run; and the ruled one, worked out from the
raw logs by `fc_runs` and `formulacode_rules` without any of our code. Ours is always the ruled one.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from streamer.folding.score.formulacode import Speedup, TaskMetrics, benchmark_name, speedups, task_metrics
from streamer.schemas.base import agent_model_label, model_for_reporting
from tests.conformance import folds, group_rules
from tests.conformance.fc_run_differences import LEFT_OUT, RUN_LEVEL, SUB_TRIALS
from tests.conformance.fc_runs import Trial
from tests.conformance.folds import Summary
from tests.conformance.formulacode_compare import check_scored, differing_fields, rulings
from tests.conformance.formulacode_rules import (
    Json,
    SubTrial,
    exact_mean,
    fallen_back,
    ruled,
    ruled_gmean,
    ruled_summary,
    valid_ratio,
)
from tests.conformance.formulacode_run_directories import Run
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_cases import ADVANTAGES, Case, cases, close, close_difference, the_case

SHORT = {
    "mean_speedup": "speedup",
    "mean_success_rate": "success",
    "num_benchmarks": "counts",
    "num_valid_benchmarks": "counts",
    "mean_cost_per_task": "cost",
    "cost_weighted_advantage": "weighted",
    "mean_trajectory_length": "length",
    **dict.fromkeys(ADVANTAGES, "advantages"),
}


def test_every_sub_trial_is_scored_as_ruled(run: Run) -> None:
    assert set(run.scored) == {(t.task_id, t.attempt, s.key) for t in run.trials for s in t.subs}
    for trial in run.trials:
        for sub in trial.subs:
            ours = run.scored[trial.task_id, trial.attempt, sub.key]
            assert ours["resolved"] is sub.written["is_resolved"]
            check_scored(ours, sub, trial.subs)


def why(run: Run, trial: Trial, sub: SubTrial, want: Json) -> str:
    """The rulings that make a sub-trial differ from fc-eval's payload of it; "" if it is equal."""
    theirs = trial.payloads.get(sub.key)
    fields = {"absent"} if theirs is None else differing_fields(want, theirs)
    if not fields:
        return ""
    result = rulings(sub, trial.subs, want, theirs).split()
    if theirs is None and not trial.payloads:
        result = [ruling for ruling in result if ruling != "R7"]  # there is no payload of anybody
    if any(other.agent == sub.agent and other.key not in trial.payloads for other in trial.subs) and theirs:
        result.append("R7")  # another agent of the framework was written over it
    if run.one_agent and fields & {"task_cost_usd", "trajectory_length"}:
        result.append("R8")
    if sub.agent == "nop" and theirs and theirs["fallback_to_baseline"]:
        result.append("R4")
    if run.one_agent and theirs and not theirs["fallback_to_baseline"] and fields & set(ADVANTAGES):
        result.append("R3")
    if "task_cost_usd" in fields and not run.one_agent and theirs and not theirs["task_cost_usd"]:
        result.append("R2")
    assert result, (trial.name, sub.key, fields)
    return " ".join(dict.fromkeys(result))


def test_every_sub_trial_is_fc_evals_or_differs_by_a_ruling(run: Run) -> None:
    pairs = [(trial, sub) for trial in run.trials for sub in trial.subs]
    reasons = Counter(why(run, trial, sub, ruled(sub, trial.subs)) for trial, sub in pairs)
    assert reasons == SUB_TRIALS[run.name]


def ruled_rows(run: Run, key: str) -> list[Json]:
    return [ruled(sub, trial.subs) for trial, sub in run.subs(key)]


def test_every_agents_summary_is_the_ruled_one(run: Run) -> None:
    assert set(run.agents) == {sub.key for trial in run.trials for sub in trial.subs}
    for key, one_summary in run.agents.items():
        ours, rows = one_summary["formulacode"], ruled_rows(run, key)
        want = ruled_summary(rows)
        assert {name: ours[name] for name in want} == {name: close(value) for name, value in want.items()}
        advantages = [row["agent_advantage"] for row in rows if row["agent_advantage"] is not None]
        means = ours["agent_advantages_gmean"]
        assert (means is None) is (key == "nop:nop")
        assert means is None or means["agent_advantage"] == close_difference(ruled_gmean(advantages))


def test_the_error_of_every_agents_mean_speedup_is_clustered_by_task(run: Run) -> None:
    """inference 6, by the formula, on the ruled speedups."""
    for key, one_summary in run.agents.items():
        tasks = defaultdict(list)
        for trial, sub in run.subs(key):
            speedup = ruled(sub, trial.subs)["task_speedup"]
            if speedup is not None:
                tasks[trial.task_id].append(speedup)
        stored = one_summary["formulacode"]["mean_speedup_standard_error"]
        if one_summary["baseline"] or len(tasks) < 2:
            assert stored is None
            continue
        mean = exact_mean([speedup for task in tasks.values() for speedup in task])
        spread = sum((sum(task) - len(task) * mean) ** 2 for task in tasks.values())
        trials = sum(map(len, tasks.values()))
        assert stored == close(math.sqrt(len(tasks) / (len(tasks) - 1) * spread) / trials)


def test_every_agents_summary_is_fc_evals_but_for_fields_of_sub_trials_that_differ(run: Run) -> None:
    result = {}
    theirs = run.expected["expected_from_run_results"]["agent_metrics_summary"]
    assert set(theirs) == set(run.agents)
    for key, one_summary in run.agents.items():
        ours = one_summary["formulacode"]
        fields = [n for n, value in theirs[key].items() if ours[n] != close_difference(value)]
        if fields:
            result[key] = " ".join(dict.fromkeys(SHORT[name] for name in fields))
            assert any(why(run, trial, sub, ruled(sub, trial.subs)) for trial, sub in run.subs(key))
    assert result == RUN_LEVEL.get(run.name, {})


def test_verdicts_accuracy_pass_at_k_and_failure_modes_are_fc_evals_but_r11_and_r28(run: Run) -> None:
    known, summary, out = run.expected, run.summary, LEFT_OUT.get(run.name, 0)
    theirs = known["expected_from_run_results"]
    baselines_only = run.name == "fc-single-nop"
    trials, resolved = known["n_trials_in_run_results"] - out, theirs["n_resolved"]
    counts = [summary[name] for name in ("trials", "resolved", "unresolved")]
    assert counts == [trials, resolved, theirs["n_unresolved"] - out]
    assert summary["accuracy"] == close(resolved / trials)
    modes: Counter[str] = Counter(known["failure_modes"])
    modes["unknown_agent_error"] -= out
    assert summary["failure_modes"] == +modes
    ours = {k: stored["value"] for k, stored in summary["pass_at_k"].items()}
    if not out:
        assert summary["accuracy"] == close(theirs["accuracy"])
        assert {k: value for k, value in ours.items() if k != "1"} == {
            k: close(value) for k, value in theirs["pass_at_k"].items()
        }
    assert ("1" in ours) is not baselines_only  # (R11, R4)


def test_costs_are_fc_evals_but_r2_where_it_did_not_know_them(run: Run) -> None:
    theirs = run.expected["expected_from_run_results"]
    costs = run.summary["cost_by_agent_model"]
    assert run.summary["total_cost"] == close(sum(costs.values()))
    unknown = {
        "fc-multi-of-one": {"terminus-2:openai/gpt-5-2025-08-07": 0.33081875},
        "fc-rough": {"terminus-2:openai/gpt-5-2025-08-07": 0.30869125},
    }.get(run.name, {})
    assert costs == {
        key: close(cost + unknown.get(key, 0.0)) for key, cost in theirs["cost_by_agent_model"].items()
    }


def test_the_runs_speedup_is_the_mean_over_trials_of_the_deciding_agents(run: Run) -> None:
    percentages = []
    for trial in run.trials:
        decides = [sub for sub in trial.subs if sub.agent not in ("nop", "oracle")] or trial.subs
        speedup = ruled(decides[-1], trial.subs)["task_speedup"]
        if speedup is not None:
            percentages.append((speedup - 1.0) * 100.0)
    assert run.summary["mean_speedup_percentage"] == close_difference(exact_mean(percentages), 100.0)


# -----------------------------------------------------------------------------
# Task metrics of single benchmark dicts, benchmark names, geometric means and agent keys as fc-eval 0.1.0.
#
# Every case equals what fc-eval computed, or is listed here by id with the ruling that makes it differ.


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
    """Every number that fc-eval has, but where nothing was measured (R21, differs from A3 and A4)."""
    counts = ours.num_benchmarks, ours.num_valid_benchmarks
    assert counts == (theirs["total_benchmarks"], theirs["num_valid_benchmarks"])
    measured = theirs if ours.num_valid_benchmarks else {}
    assert named(ours) == {name: close_difference(measured.get(name), *values) for name in named(ours)}


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


def test_r21_every_fallback_has_fc_evals_benchmarks_and_invents_no_oracle_value() -> None:
    """fc-eval puts 1.0 where a benchmark has no finite oracle value (C1); here it keeps none."""
    equal = 0
    for case in cases("speedups"):
        oracles, theirs = own_oracles(case), case.expected["fallback_speedups"]
        values = [value for value in oracles.values() if value]
        ours, want = metrics(case, fallback=True), fallen_back(oracles)
        counts = ours.num_benchmarks, ours.num_valid_benchmarks
        assert counts == (want["num_benchmarks"], want["num_valid_benchmarks"])
        assert named(ours) == {name: close_difference(want[name], *values) for name in named(ours)}
        shown = effective(case, fallback=True)
        assert [(s.name, s.agent, s.oracle) for s in shown] == [(n, 1.0, oracles[n]) for n in theirs], case.id
        for speedup in shown:
            entry = theirs[speedup.name]
            assert (entry["fallback_to_baseline"], entry["agent/nop"]) == (True, 1.0)
            if speedup.oracle is not None:
                assert speedup.oracle == entry["oracle/nop"]
                assert speedup.advantage == close_difference(entry["advantage"], speedup.oracle)
        kept = {name: entry["oracle/nop"] for name, entry in theirs.items()}
        if values and oracles == {name: oracle if oracle > 0 else None for name, oracle in kept.items()}:
            check(ours, case.expected["fallback_metrics"], values)
            equal += 1
    assert equal == INVENTED_NO_ORACLE


def test_r22_without_any_oracle_value_the_speedup_is_the_agents_own_and_advantages_are_unknown() -> None:
    """speedups-0032: one valid agent value, 0.673706; the other entry is null."""
    (case,) = (case for case in cases("speedups") if case.id in NO_ORACLE_AT_ALL)
    assert case.expected["harness"]["task_speedup"] == 1.0
    assert case.expected["harness"]["agent_advantage"] == 0.0
    assert metrics(case, fallback=False) == TaskMetrics(0.673706, None, 2, 0)
    assert metrics(case, fallback=True) == TaskMetrics(1.0, None, 1, 0)


def own_oracles(case: Case) -> dict[str, float | None]:
    """The valid oracle value of every benchmark that is an object (A1)."""
    entries = case.input["per_benchmark_speedups"].items()
    return {name: valid_ratio(entry.get("oracle/nop")) for name, entry in entries if isinstance(entry, dict)}


def named(ours: TaskMetrics) -> dict[str, float | None]:
    known = ours.advantages and (ours.advantages[-1], *ours.advantages)
    advantages = dict(zip(ADVANTAGES, known, strict=True)) if known else dict.fromkeys(ADVANTAGES)
    return {"task_speedup": ours.task_speedup} | advantages


def test_every_benchmark_name_splits_as_in_fc_eval() -> None:
    table = the_case("benchmark_names").expected
    assert len(table) == 228
    for name, parts in table:
        assert list(benchmark_name(name)) == parts, name


def test_every_geometric_mean_over_valid_values_is_fc_evals() -> None:
    """As task speedups beside an oracle of 1.0; null where nothing was measured (R21)."""
    rows = the_case("gmeans").expected
    assert len(rows) == 7
    for row in rows:
        benchmarks = {f"m.f{i}": {"agent/nop": v, "oracle/nop": 1.0} for i, v in enumerate(row["values"])}
        ours = task_metrics(benchmarks, fallback=False).task_speedup
        for code in ("harness", "parser", "models"):
            assert ours == close(row[code])


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
        result = ours["agent_model"] in labels
        together = agent_models([*others, a_trial_of(row["target"], "task-of-target")])
        assert len(together) == len(labels) + (not result)
        if result == (row["harness"] is not None):
            assert not result or shown(row["harness"]) == ours["agent_model"]
            seen["found" if result else "not found"] += 1
        else:
            assert not result
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


# -----------------------------------------------------------------------------
# Summaries of random runs against the plain reimplementation of the rulings on groups of trials.


Events = list[Event]
SEEDS = range(60)
VERDICTS = (True, True, True, False, False, None)
COSTS = (None, 0.0, 0.1, 0.2, 0.3, 1e-7, 1e-7 + 1e-13, 2.5)
SCORES = (None, 0.0, 0.3, 0.3000000001, 0.65, 0.9, 1.0, 1.7, -0.5)
JUDGED = (None, None, None, True, False)


class RunOfGroups:
    """A random run: its trials, and what its plan and its end say."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.judged = rng.choice(JUDGED)
        self.finished = rng.random() < 0.4
        self.attempts = rng.choice([1, 2, 5])
        scores = SCORES if rng.random() < 0.7 else (None,)
        tiers = rng.choice([(None,), (None,), ("T0",), ("T0", "T1", "T2")])
        self.trials = [
            self._trial(rng, tier, agent, task, attempt, rng.choice(scores))
            for tier in tiers
            for agent in rng.choice([("alpha",), ("alpha", "beta"), ("alpha", "beta", "oracle")])
            for task in ("t1", "t2", "t3")
            for attempt in range(1, 1 + rng.choice([1, 2, 5]))
            if rng.random() < 0.8
        ] or [a_trial(agent="alpha", model="m")]
        if len(tiers) == 1 and rng.random() < 0.4:
            for trial in self.trials:
                trial["agent_index"] = ("oracle", "alpha", "beta").index(trial["agent"]) + 1

    @staticmethod
    def _trial(rng: random.Random, tier: str | None, agent: str, task: str, n: int, score: Any) -> Event:
        fields = {"tier": tier, "score": score, "cost_usd": rng.choice(COSTS)}
        known = {name: value for name, value in fields.items() if value is not None}
        said = {"resolved": rng.choice(VERDICTS), "failure_mode": rng.choice(["unset", "agent_timeout"])}
        duration = {"duration_seconds": rng.choice([1.0, 2.0, 61.5])}
        return a_trial(agent=agent, model="m", task_id=task, attempt=n, **known, **said, **duration)

    @property
    def events(self) -> Events:
        plan = a_plan(judged=self.judged, attempts=self.attempts)
        ends = [{"type": "run_finished", "run_id": "run-1"}] if self.finished else []
        return [plan, *self.trials, *ends]

    def of(self, **fields: Any) -> Events:
        return [t for t in self.trials if all(t.get(name) == value for name, value in fields.items())]

    @property
    def compared(self) -> Events:
        return [trial for trial in self.trials if trial["agent"] not in group_rules.BASELINES]


def groups(run: RunOfGroups) -> Iterator[tuple[Summary, Events]]:
    folding = folds.folded(run.events)
    for one_summary in folds.summaries(folding, "agent_model"):
        yield one_summary, run.of(agent=one_summary["agent"])
    for one_summary in folds.summaries(folding, "tier"):
        mine = run.of(tier=one_summary["tier"])
        key = one_summary["agent_model"]
        yield (
            one_summary,
            [t for t in mine if key == f"{t['agent']}:m" or (key is None and t in run.compared)],
        )


@pytest.fixture(params=SEEDS, scope="module")
def run_of_groups(request: pytest.FixtureRequest) -> RunOfGroups:
    return RunOfGroups(request.param)


def test_every_number_of_a_group_is_the_ruled_one(run_of_groups: RunOfGroups) -> None:
    """R1, R13 to R16, R18, R19."""
    run = run_of_groups
    over = run.finished and run.judged is not True  # a declared judge comes later
    for ours, trials in groups(run):
        for metric in group_rules.SCORED:
            ruled = group_rules.distribution(trials, metric)
            folds.check_ruled(ours["statistics"][metric], ruled)
            assert ours["statistics"][metric]["mode"] == folds.travelling(ruled["mode"]), metric
            assert ours["coverage"][metric] == ruled["count"]
        folds.check_ruled(ours, group_rules.graded(trials, run.judged, over))
        folds.check_ruled(ours, {"cost_of_pass": group_rules.cost_of_pass(trials)})
        folds.check_ruled(
            ours, {"accuracy": sum(group_rules.verdict(t) is True for t in trials) / len(trials)}
        )
        assert ours["no_verdict"] == sum(group_rules.verdict(t) is None for t in trials)


def test_uplift_is_of_the_number_that_the_grade_rests_on(run_of_groups: RunOfGroups) -> None:
    """R23."""
    tiers = folds.pooled_tiers(folds.folded(run_of_groups.events))
    mine = {tier: [t for t in run_of_groups.compared if t.get("tier") == tier] for tier in tiers}
    for tier, ours in tiers.items():
        if tier == "T0" or "T0" not in tiers:
            assert (ours["tier_uplift"], ours["tier_delta"]) == (None, None)
        else:
            both = [
                group_rules.graded(mine[t], run_of_groups.judged, run_of_groups.finished)
                for t in (tier, "T0")
            ]
            folds.check_ruled(ours, group_rules.uplift(*both))


def test_pass_at_k_is_the_ruled_one_and_null_over_a_mixture(run_of_groups: RunOfGroups) -> None:
    """R10, R11: trial groups count as one trial in the run alone, and baselines not at all."""
    folds.check_pass_at_k(
        folds.the_run(folds.folded(run_of_groups.events)), run_of_groups.trials, run_of_groups.attempts
    )
    for ours, trials in groups(run_of_groups):
        if not ours.get("baseline") and trials[0]["agent"] not in group_rules.BASELINES:
            folds.check_pass_at_k(ours, [t | {"agent_index": None} for t in trials], run_of_groups.attempts)
