"""Multi-agent trials: each agent's payload as fc-eval 0.1.0 merges it, or as the rulings say.

Every sub-trial goes through the whole pipeline as an event. Three answers are compared: ours, fc-eval's,
and the ruled one of `formulacode_rules`. Ours is always the ruled one; where fc-eval's is not, the
sub-trial stands in `DIFFERS` under the ruling that makes it differ.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.conformance.formulacode_compare import differing_fields, finite, rulings
from tests.conformance.formulacode_rules import SubTrial, known_oracles, ruled, split, sub_trials
from tests.support.events import Event, a_trial, folded
from tests.support.formulacode_cases import Case, cases, close, close_difference, the_case

Json = dict[str, Any]
COUNTS = ("passed", "failed", "error", "skipped", "total")
COMPARED, EQUAL = 395, 299
"""Sub-trials that stand in their slot; those of them that are fc-eval's in every field."""

DIFFERS = {
    "R1": "230.1 230.2 230.3",
    "R5": "7.3 22.3 26.3 41.3 67.3 75.2 77.2 82.2 82.3 84.2 85.2 86.2 86.3 132.3 136.2 139.4 147.1 148.1 "
    "167.2 169.1",
    "R5 R21": "129.5 133.3 136.4 136.5 158.3 176.6",
    "R7": "43.1 43.2 113.1 113.2 113.3 115.1 115.2 115.3 123.1 160.1 160.2 160.3 188.3 190.3 198.3 199.3 "
    "200.1 200.2 204.3 204.4 205.4 246.1 246.2 247.1 247.2",
    "R7 R21": "196.3 202.3 205.3 206.3 214.1 214.2 214.3 244.3 245.3",
    "R7 R20 R21": "14.3 59.3 74.3 127.2 154.1 154.3 160.4",
    "R7 R20 R21 R1": "113.5 123.2 134.1 152.2 160.5 174.4",
    "R20 R21": "121.1 121.2 121.3",
    "R20 R21 R1": "43.3 115.4",
    "R21": "128.3 135.3 158.5 162.5 171.1 171.2 182.3 187.4 210.1 210.2 210.3 213.1 213.2 213.3",
    "R22": "179.2",
}
"""Rulings -> the sub-trials (case.index) that they make differ from fc-eval's merge, 96 of 395.

R1: a trajectory length that is no number is unknown, not 0. R5: a TESTS block that is missing fails.
R7: numbers that are not the agent's own, or an entry under another key. R20: no section, so only the
verdict counts. R21: not measured, so null and not 1.0 or 0.0; or a failed agent, whose benchmarks and
oracle values are those that its trial knows. R22: no oracle value, no advantage.
"""


@cache
def written_cases() -> list[Case]:
    """Cases whose merge wrote a trial."""
    return [case for case in cases("merge") if case.expected["written"]]


def an_event(case: Case, sub: SubTrial) -> Event:
    """What a connector makes of a sub-trial; later sub-trials of one agent correct earlier ones (R17)."""
    metrics = sub.metrics
    sections: Json = {}
    if sub.has_tests:
        status = "missing" if not sub.has_counts else "ok" if metrics["tests"] == "passed" else "failed"
        held = {name: int(metrics[f"test_{name}"]) for name in COUNTS if f"test_{name}" in metrics}
        sections["tests"] = {"status": status} | held
    if sub.has_snapshot:
        status = str(metrics.get("snapshot_status")).lower()
        sections["snapshot"] = {
            "status": {"passed": "passed", "none": "missing"}.get(status, "failed"),
            "pass_to_fail": float(metrics.get("snapshot_pass_to_fail") or 0),
        } | {name: metrics[f"snapshot_{name}"] for name in ("passed", "skipped", "total")}
    return a_trial(
        run_id=case.id,
        agent=sub.agent,
        model=sub.model,
        agent_index=sub.index,
        revision=sub.index,
        resolved=sub.written["is_resolved"],
        failure_mode=sub.written["failure_mode"],
        cost_usd=sub.written["total_cost"],
        trajectory_length=sub.trajectory_length,
        benchmarks=finite(sub.benchmarks),
        **sections,
    )


@cache
def folded_case(case_id: str) -> tuple[dict[str, Json], Json]:
    """Scored trials by agent:model, and the run summary."""
    (case,) = (case for case in written_cases() if case.id == case_id)
    pipeline, result = folded([an_event(case, sub) for sub in sub_trials(case)])
    assert not result.rejections
    scored = [json.loads(trial.value) for trial in pipeline.run(case_id).take_changes().scored if trial.value]
    (run,) = (c.summary for c in pipeline.run(case_id).summaries() if c.kind == "run")
    assert run is not None
    return {trial["agent_model"]: trial for trial in scored}, run


def standing(case: Case) -> list[SubTrial]:
    """Sub-trials that stand in their slot: of two of one agent:model the later does (R17, as D5 a)."""
    return list({sub.key: sub for sub in sub_trials(case)}.values())


def payload_of(case: Case, sub: SubTrial) -> Json | None:
    """fc-eval's payload under the sub-trial's own key."""
    metrics = case.expected["merged"]["parser_extra_metrics"]
    held: Json | None = metrics["agent_metrics_by_agent"].get(sub.key)
    return held


def number(case: Case) -> int:
    return int(case.id.removeprefix("merge-"))


def test_every_sub_trial_has_the_ruled_payload() -> None:
    compared = bare = 0
    for case in written_cases():
        scored, _ = folded_case(case.id)
        assert set(scored) == {sub.key for sub in sub_trials(case)}
        for sub in standing(case):
            want, ours = ruled(sub, sub_trials(case)), scored[sub.key]
            assert ours["success"] is want["success"], (case.id, sub.key)
            payload = ours["formulacode"]
            compared += 1
            if payload is None:
                bare += 1
                assert nothing_is_known(sub, sub_trials(case))
                continue
            assert not differing_fields(payload, want), (case.id, sub.key)
    assert compared == COMPARED
    assert bare <= 18


def nothing_is_known(sub: SubTrial, trial: list[SubTrial]) -> bool:
    """True if a sub-trial has no FormulaCode section, and its trial no benchmark to fall back on (R21)."""
    return not sub.is_formulacode and not known_oracles(sub, trial)


def test_every_sub_trial_has_fc_evals_payload_or_differs_by_a_ruling() -> None:
    found: dict[str, list[str]] = {}
    equal = 0
    for case in written_cases():
        for sub in standing(case):
            want, theirs = ruled(sub, sub_trials(case)), payload_of(case, sub)
            if theirs is not None and not differing_fields(want, theirs):
                equal += 1
                continue
            why = rulings(sub, sub_trials(case), want, theirs)
            assert why, (case.id, sub.key)
            found.setdefault(why, []).append(f"{number(case)}.{sub.index}")
    assert {why: " ".join(held) for why, held in found.items()} == DIFFERS
    assert equal == EQUAL


def test_summaries_of_tests_and_snapshots_are_fc_evals_but_r6_the_snapshots_own_failures() -> None:
    """fc-eval's `snapshot_summary.failed` is its own flag as 0 or 1 (B7); these logs hold no other count."""
    compared: Counter[str] = Counter()
    for case in written_cases():
        scored, _ = folded_case(case.id)
        for sub in standing(case):
            payload, theirs = scored[sub.key]["formulacode"], payload_of(case, sub)
            if payload is None or theirs is None or not sub.has_snapshot:
                continue
            snapshot, counted = payload["snapshot_summary"], theirs["snapshot_summary"]
            compared["snapshots"] += 1
            assert {n: snapshot[n] for n in ("passed", "skipped", "total", "pass_to_fail")} == {
                n: counted[n] for n in ("passed", "skipped", "total", "pass_to_fail")
            }
            assert (snapshot["failed"], counted["failed"]) == (None, int(sub.metrics["snapshot_failed"]))
            assert snapshot["status"] in (counted["status"].lower(), "missing", "failed")
            if sub.has_counts:
                compared["tests"] += 1
                tests = payload["pytest_summary"]
                assert {n: tests[n] for n in (*COUNTS, "failed_total")} == {
                    n: theirs["pytest_summary"][n] for n in (*COUNTS, "failed_total")
                }
                assert (tests["status"] == "ok") is (theirs["pytest_summary"]["status"] == "passed")
    assert compared == {"snapshots": 363, "tests": 339}


def test_the_trials_verdict_and_failure_mode_are_fc_evals() -> None:
    """R10 too: where the last of a trial is a baseline, the agent before it has the same verdict here."""
    for case in written_cases():
        _, run = folded_case(case.id)
        merged = case.expected["merged"]
        verdict = None if run["no_verdict"] else bool(run["resolved"])
        assert (run["trials"], verdict) == (1, merged["is_resolved"]), case.id
        assert run["failure_modes"] == {merged["failure_mode"]: 1}


def test_r10_the_trials_speedup_is_the_deciding_sub_trials() -> None:
    """fc-eval's is that of whichever agent the last log names (D14)."""
    same = 0
    for case in written_cases():
        _, run = folded_case(case.id)
        decides = [s for s in standing(case) if s.agent not in ("nop", "oracle")] or standing(case)
        measured = any(sub.is_formulacode for sub in standing(case))  # (R21) else no run of FormulaCode
        speedup = ruled(decides[-1], sub_trials(case))["task_speedup"] if measured else None
        ours = run["mean_speedup_percentage"]
        assert ours == close_difference(None if speedup is None else (speedup - 1.0) * 100.0, 100.0)
        theirs = case.expected["merged"]["parser_extra_metrics"].get("speedup_percentage")
        same += theirs is not None and ours == close_difference(theirs, 100.0)
    assert same == 98


def test_a_trials_cost_is_the_sum_of_its_agents_costs() -> None:
    """merge-0242: fc-eval sums the map `costs_by_agent_model`, which may not agree with them (D3)."""
    other = {}
    for case in written_cases():
        _, run = folded_case(case.id)
        assert run["total_cost"] == close(sum(sub.written["total_cost"] for sub in standing(case)))
        if run["total_cost"] != close(case.expected["merged"]["total_cost"]):
            other[case.id] = case.expected["merged"]["total_cost"]
    assert other == {"merge-0242": 0.75, "merge-0243": pytest.approx(3.090218)}


def test_a_merge_that_throws_loses_no_sub_trial_here() -> None:
    """merge-0237: fc-eval raises on a null advantage and writes no trial (D16)."""
    (case,) = (case for case in cases("merge") if case.expected["raised"])
    assert case.expected["raised"] == "TypeError"
    pipeline, result = folded([an_event(case, sub) for sub in sub_trials(case)])
    assert not result.rejections
    assert len([trial for trial in pipeline.run(case.id).take_changes().scored if trial.value]) == 3


def test_the_reference_splits_names_as_fc_eval() -> None:
    for name, parts in the_case("benchmark_names").expected:
        assert list(split(name)) == parts
