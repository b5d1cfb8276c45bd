"""Complete fc-eval run directories through `convert` and `fold`: fc-eval's numbers, or the ruled ones.

Three answers are compared: ours; fc-eval's, per trial and per run; and the ruled one, worked out from the
raw logs by `fc_runs` and `formulacode_rules` without any of our code. Ours is always the ruled one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from tests.conformance.fc_run_differences import LEFT_OUT, RUN_LEVEL, SUB_TRIALS
from tests.conformance.fc_runs import Trial
from tests.conformance.formulacode_compare import differing_fields, rulings
from tests.conformance.formulacode_rules import (
    Json,
    SubTrial,
    cost_weighted,
    exact_mean,
    known_oracles,
    ruled,
    ruled_gmean,
)
from tests.conformance.formulacode_run_directories import Run
from tests.support.formulacode_cases import ADVANTAGES, close, close_difference

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
    found = rulings(sub, trial.subs, want, theirs).split()
    if theirs is None and not trial.payloads:
        found = [ruling for ruling in found if ruling != "R7"]  # there is no payload of anybody
    if any(other.agent == sub.agent and other.key not in trial.payloads for other in trial.subs) and theirs:
        found.append("R7")  # another agent of the framework was written over it
    if run.one_agent and fields & {"task_cost_usd", "trajectory_length"}:
        found.append("R8")
    if sub.agent == "nop" and theirs and theirs["fallback_to_baseline"]:
        found.append("R4")
    if run.one_agent and theirs and not theirs["fallback_to_baseline"] and fields & set(ADVANTAGES):
        found.append("R3")
    if "task_cost_usd" in fields and not run.one_agent and theirs and not theirs["task_cost_usd"]:
        found.append("R2")
    assert found, (trial.name, sub.key, fields)
    return " ".join(dict.fromkeys(found))


def test_every_sub_trial_is_fc_evals_or_differs_by_a_ruling(run: Run) -> None:
    found: Counter[str] = Counter()
    for trial in run.trials:
        for sub in trial.subs:
            found[why(run, trial, sub, ruled(sub, trial.subs))] += 1
    assert found == SUB_TRIALS[run.name]


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
    for key, summary in run.agents.items():
        ours, want = summary["formulacode"], ruled_summary(run, key)
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
    for key, summary in run.agents.items():
        tasks = defaultdict(list)
        for trial, sub in run.subs(key):
            speedup = ruled(sub, trial.subs)["task_speedup"]
            if speedup is not None:
                tasks[trial.task_id].append(speedup)
        held = summary["formulacode"]["mean_speedup_standard_error"]
        if summary["baseline"] or len(tasks) < 2:
            assert held is None
            continue
        mean = exact_mean([speedup for task in tasks.values() for speedup in task])
        spread = sum((sum(task) - len(task) * mean) ** 2 for task in tasks.values())
        trials = sum(map(len, tasks.values()))
        assert held == close(math.sqrt(len(tasks) / (len(tasks) - 1) * spread) / trials)


def test_every_agents_summary_is_fc_evals_but_for_fields_of_sub_trials_that_differ(run: Run) -> None:
    found = {}
    theirs = run.expected["expected_from_run_results"]["agent_metrics_summary"]
    assert set(theirs) == set(run.agents)
    for key, summary in run.agents.items():
        ours = summary["formulacode"]
        fields = [n for n, value in theirs[key].items() if ours[n] != close_difference(value)]
        if fields:
            found[key] = " ".join(short(fields))
            assert any(why(run, trial, sub, ruled(sub, trial.subs)) for trial, sub in run.subs(key))
    assert found == RUN_LEVEL.get(run.name, {})


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
    ours = {k: held["value"] for k, held in summary["pass_at_k"].items()}
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
