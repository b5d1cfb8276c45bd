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
from streamer.schemas.wire import canonical_json
from tests.conformance.fc_run_differences import LEFT_OUT, RUN_LEVEL, SUB_TRIALS
from tests.conformance.fc_runs import Trial
from tests.conformance.folds import (
    Summary,
    folded,
    pooled_tiers,
    statistics_of,
    summaries,
    the_run,
    travelling,
)
from tests.conformance.folds import close as close_of_groups
from tests.conformance.formulacode_compare import differing_fields, rulings
from tests.conformance.formulacode_rules import (
    Json,
    SubTrial,
    cost_weighted,
    exact_mean,
    fallen_back,
    known_oracles,
    ruled,
    ruled_gmean,
)
from tests.conformance.formulacode_run_directories import Run
from tests.conformance.group_rules import (
    BASELINES,
    SCORED,
    cost_of_pass,
    distribution,
    graded,
    pass_at_k,
    uplift,
    verdict,
)
from tests.conformance.ruling_examples import (
    AGENT,
    FINISHED,
    OF_AGENT,
    ORACLE,
    numbers,
    summary,
    the_agent,
    the_oracle,
)
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_cases import ADVANTAGES, Case, cases, close, close_difference, the_case
from tests.support.formulacode_trials import a_suite, published

MEANS = {
    "mean_speedup": "task_speedup",
    **{name: name for name in ADVANTAGES},
    "mean_success_rate": "success",
    "mean_cost_per_task": "task_cost_usd",
    "mean_trajectory_length": "trajectory_length",
}
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
            ours, want = run.scored[trial.task_id, trial.attempt, sub.key], ruled(sub, trial.subs)
            assert ours["resolved"] is sub.written["is_resolved"]
            assert ours["success"] is want["success"], trial.name
            assert ours["cost_usd"] == close(want["task_cost_usd"])
            assert ours["trajectory_length"] == want["trajectory_length"]
            if ours["formulacode"] is None:
                assert not sub.is_formulacode
                assert not known_oracles(sub, trial.subs)
            else:
                assert not differing_fields(ours["formulacode"], want), (trial.name, sub.key)


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
    result: Counter[str] = Counter()
    for trial in run.trials:
        for sub in trial.subs:
            result[why(run, trial, sub, ruled(sub, trial.subs))] += 1
    assert result == SUB_TRIALS[run.name]


def ruled_summary(run: Run, key: str) -> Json:
    """An agent:model's numbers by the specification and the rulings, over all its sub-trials."""
    rows = [ruled(sub, trial.subs) for trial, sub in run.subs(key)]
    known = {name: [row[field] for row in rows if row[field] is not None] for name, field in MEANS.items()}
    advantages = [row["agent_advantage"] for row in rows]
    weighted = cost_weighted(advantages, [row["task_cost_usd"] for row in rows])
    return {
        **{name: exact_mean(values) for name, values in known.items()},
        **{name: sum(row[name] for row in rows) for name in ("num_benchmarks", "num_valid_benchmarks")},
        "cost_weighted_advantage": weighted,
    }


def test_every_agents_summary_is_the_ruled_one(run: Run) -> None:
    assert set(run.agents) == {sub.key for trial in run.trials for sub in trial.subs}
    for key, one_summary in run.agents.items():
        ours, want = one_summary["formulacode"], ruled_summary(run, key)
        assert {name: ours[name] for name in want} == {name: close(value) for name, value in want.items()}
        advantages = [ruled(sub, trial.subs)["agent_advantage"] for trial, sub in run.subs(key)]
        means = ours["agent_advantages_gmean"]
        if key == "nop:nop":
            assert means is None
        else:
            assert means["agent_advantage"] == close_difference(
                ruled_gmean([a for a in advantages if a is not None])
            )


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
            result[key] = " ".join(short(fields))
            assert any(why(run, trial, sub, ruled(sub, trial.subs)) for trial, sub in run.subs(key))
    assert result == RUN_LEVEL.get(run.name, {})


def short(fields: list[str]) -> list[str]:
    """The fields by their short names, each once."""
    return list(dict.fromkeys(SHORT[name] for name in fields))


def test_verdicts_accuracy_pass_at_k_and_failure_modes_are_fc_evals_but_r11_and_r28(run: Run) -> None:
    known, summary, out = run.expected, run.summary, LEFT_OUT.get(run.name, 0)
    theirs = known["expected_from_run_results"]
    baselines_only = run.name == "fc-single-nop"
    assert summary["trials"] == known["n_trials_in_run_results"] - out
    assert (summary["resolved"], summary["unresolved"]) == (
        theirs["n_resolved"],
        theirs["n_unresolved"] - out,
    )
    assert summary["accuracy"] == close(theirs["n_resolved"] / (known["n_trials_in_run_results"] - out))
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
    """Every number that fc-eval has; `values` set the scale of what an advantage subtracts.

    Where nothing is valid, nothing was measured (R21, differs from A3 and A4).
    """
    measured = ours.num_valid_benchmarks > 0
    assert ours.task_speedup == (close(theirs["task_speedup"]) if measured else None)
    assert (ours.num_benchmarks, ours.num_valid_benchmarks) == (
        theirs["total_benchmarks"],
        theirs["num_valid_benchmarks"],
    )
    if not measured:
        assert ours.advantages is None
        return
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
    result: dict[str, float | None] = {}
    for name, entry in case.input["per_benchmark_speedups"].items():
        if isinstance(entry, dict):
            value = entry.get("oracle/nop")
            number = float(value) if isinstance(value, int | float) else 0.0
            result[name] = number if math.isfinite(number) and number > 0 else None
    return result


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
        """The trials with these fields."""
        return [t for t in self.trials if all(t.get(name) == value for name, value in fields.items())]

    @property
    def compared(self) -> Events:
        return [trial for trial in self.trials if trial["agent"] not in BASELINES]


def groups(run: RunOfGroups) -> Iterator[tuple[Summary, Events]]:
    """Every summary of a group, and the group's trials."""
    folding = folded(run.events)
    for one_summary in summaries(folding, "agent_model"):
        yield one_summary, run.of(agent=one_summary["agent"])
    for one_summary in summaries(folding, "tier"):
        mine = run.of(tier=one_summary["tier"])
        key = one_summary["agent_model"]
        yield (
            one_summary,
            [t for t in mine if key == f"{t['agent']}:m" or (key is None and t in run.compared)],
        )


@pytest.fixture(params=SEEDS, scope="module")
def run_of_groups(request: pytest.FixtureRequest) -> RunOfGroups:
    return RunOfGroups(request.param)


def test_every_statistic_is_the_ruled_one(run_of_groups: RunOfGroups) -> None:
    """R1, R13 to R16, R18."""
    for ours, trials in groups(run_of_groups):
        for metric in SCORED:
            ruled = {name: travelling(value) for name, value in distribution(trials, metric).items()}
            stored = statistics_of(ours, metric)
            assert stored == {name: close_of_groups(value) for name, value in ruled.items()}, metric
            assert stored["mode"] == ruled["mode"], metric
            assert ours["coverage"][metric] == ruled["count"]


def test_every_grade_rests_on_the_ruled_number(run_of_groups: RunOfGroups) -> None:
    """R13."""
    for ours, trials in groups(run_of_groups):
        over = run_of_groups.finished and run_of_groups.judged is not True  # a declared judge comes later
        ruled = graded(trials, run_of_groups.judged, over)
        assert {name: ours[name] for name in ruled} == {
            name: close_of_groups(value) if name == "grade_score" else value for name, value in ruled.items()
        }


def test_every_cost_of_pass_is_total_known_cost_per_pass_at_a_known_cost(run_of_groups: RunOfGroups) -> None:
    """R14."""
    for ours, trials in groups(run_of_groups):
        assert ours["cost_of_pass"] == close_of_groups(travelling(cost_of_pass(trials)))


def test_uplift_is_of_the_number_that_the_grade_rests_on(run_of_groups: RunOfGroups) -> None:
    """R23."""
    tiers = pooled_tiers(folded(run_of_groups.events))
    mine = {tier: [t for t in run_of_groups.compared if t.get("tier") == tier] for tier in tiers}
    for tier, ours in tiers.items():
        if tier == "T0" or "T0" not in tiers:
            assert (ours["tier_uplift"], ours["tier_delta"]) == (None, None)
            continue
        both = [graded(mine[t], run_of_groups.judged, run_of_groups.finished) for t in (tier, "T0")]
        ruled = uplift(*both)
        assert {name: ours[name] for name in ruled} == {
            name: close_of_groups(value) for name, value in ruled.items()
        }


def test_pass_at_k_is_the_ruled_one_and_null_over_a_mixture(run_of_groups: RunOfGroups) -> None:
    """R10, R11: trial groups count as one trial in the run alone, and baselines not at all."""
    check_pass_at_k(the_run(folded(run_of_groups.events)), run_of_groups.trials, run_of_groups.attempts)
    for ours, trials in groups(run_of_groups):
        if not ours.get("baseline") and trials[0]["agent"] not in BASELINES:
            check_pass_at_k(ours, [t | {"agent_index": None} for t in trials], run_of_groups.attempts)


def check_pass_at_k(ours: Summary, trials: Events, attempts: int) -> None:
    ruled, stored = pass_at_k(trials, attempts), ours["pass_at_k"]
    assert (stored is None) is (ruled is None)
    assert {k: (v["value"], v["tasks_covered"]) for k, v in (stored or {}).items()} == {
        k: (close_of_groups(v["value"]), v["tasks_covered"]) for k, v in (ruled or {}).items()
    }


def test_accuracy_is_over_all_trials_of_an_agent(run_of_groups: RunOfGroups) -> None:
    """R19: without a verdict, not resolved."""
    for ours, trials in groups(run_of_groups):
        assert ours["accuracy"] == close_of_groups(sum(verdict(t) is True for t in trials) / len(trials))
        assert ours["no_verdict"] == sum(verdict(t) is None for t in trials)


# -----------------------------------------------------------------------------
# R21: planned agents without a sub-trial count as failures once the run has finished.


PLAN = a_plan(agent_models=[ORACLE, AGENT])
WITHOUT_THE_AGENT = [PLAN, the_oracle(task_id="t1"), the_agent(task_id="t1"), the_oracle(task_id="t2")]


def test_r21_a_planned_agent_without_a_sub_trial_counts_once_the_run_has_finished() -> None:
    running = numbers(*WITHOUT_THE_AGENT)
    assert (running["missing"], running["mean_success_rate"]) == (0, 1.0)
    assert running["mean_speedup"] == pytest.approx(1.2)
    finished = numbers(*WITHOUT_THE_AGENT, FINISHED)
    assert (finished["missing"], finished["mean_success_rate"]) == (1, 0.5)
    assert finished["mean_speedup"] == pytest.approx(1.1)
    assert finished["agent_advantage"] == pytest.approx(-0.4)


def test_r21_what_is_missing_counts_like_a_failure_in_formulacodes_numbers_alone() -> None:
    running, finished = summary(*WITHOUT_THE_AGENT), summary(*WITHOUT_THE_AGENT, FINISHED)
    for name in ("trials", "accuracy", "resolved", "unresolved", "failure_modes", "pass_at_k", "total_cost"):
        assert finished[name] == running[name], name
    assert finished["formulacode"]["mean_cost_per_task"] == running["formulacode"]["mean_cost_per_task"]
    assert finished["formulacode"]["num_benchmarks"] > running["formulacode"]["num_benchmarks"]


def test_r21_nothing_is_re_scored_for_what_is_missing() -> None:
    stream = published(*WITHOUT_THE_AGENT)
    scored = dict(stream.scored)
    stream.fold(FINISHED)
    assert stream.scored == scored
    assert stream.rescorings() == []


def test_r21_what_was_missing_is_no_more_once_it_arrives() -> None:
    late = the_agent(task_id="t2")
    arrived = numbers(*WITHOUT_THE_AGENT, FINISHED, late)
    assert (arrived["missing"], arrived["mean_success_rate"]) == (0, 1.0)
    assert canonical_json(arrived) == canonical_json(numbers(*WITHOUT_THE_AGENT, late, FINISHED))


def test_r21_an_agent_is_missing_only_where_a_trial_has_several_agents() -> None:
    """Trials of their own are of one agent each (R10)."""
    alone = a_trial(agent="other", task_id="t2", tests=a_suite(0), benchmarks=OF_AGENT)
    stored = numbers(PLAN, a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone, FINISHED)
    assert stored["missing"] == 0
