"""docs/compatibility.md says what the cases say, and leaves no ruling out."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamer.folding.fold import Folding
from streamer.folding.prices import PriceTable
from streamer.sources.base import fit_event
from streamer.sources.files import enriched, read_agent_logs
from tests.conformance import make_compatibility
from tests.conformance import test_formulacode_parse as run
from tests.conformance.fc_run_differences import SUB_TRIALS
from tests.conformance.folds import summaries
from tests.conformance.formulacode_compare import check_scored, differing_fields, finite, rulings
from tests.conformance.formulacode_rules import (
    Json,
    SubTrial,
    fallen_back,
    ruled,
    ruled_summary,
    split,
    sub_trials,
)
from tests.support.data import shared_data
from tests.support.events import Event, a_plan, a_trial, folded
from tests.support.formulacode_cases import Case, cases, close, close_difference, the_case
from tests.support.formulacode_trials import published

# -----------------------------------------------------------------------------
# Multi-agent trials: each agent's payload as fc-eval 0.1.0 merges it, or as the rulings say.
#
# Every sub-trial goes through the whole pipeline as an event. Three answers are compared: ours, fc-eval's,
# and the ruled one of `formulacode_rules`. Ours is always the ruled one; where fc-eval's is not, the
# sub-trial stands in `DIFFERS` under the ruling that makes it differ.


COUNTS = ("passed", "failed", "error", "skipped", "total")
COMPARED, EQUAL = 395, 296
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
    "R21": "128.3 129.3 135.3 158.5 162.5 171.1 171.2 179.1 179.2 182.3 187.2 187.4 210.1 210.2 210.3 "
    "213.1 213.2 213.3",
}
"""Rulings -> the sub-trials (case.index) that they make differ from fc-eval's merge, 99 of 395.

R1: a trajectory length that is no number is unknown, not 0. R5: a TESTS block that is missing fails.
R7: numbers that are not the agent's own, or an entry under another key. R20: no section, so only the
verdict counts. R21: not measured, so null and not 1.0 or 0.0; or a failed agent, whose benchmarks and
oracle values are those that its trial knows. R22: no oracle value, no advantage.
"""


@cache
def written_cases() -> list[Case]:
    return [case for case in cases("merge") if case.expected["written"]]


def event_of(sub: SubTrial, **place: Any) -> Event:
    """What a connector makes of a sub-trial; later sub-trials of one agent correct earlier ones (R17)."""
    metrics = sub.metrics
    sections: Json = {}
    if sub.has_tests:
        status = "missing" if not sub.has_counts else "ok" if metrics["tests"] == "passed" else "failed"
        stored = {name: int(metrics[f"test_{name}"]) for name in COUNTS if f"test_{name}" in metrics}
        sections["tests"] = {"status": status} | stored
    if sub.has_snapshot:
        status = str(metrics.get("snapshot_status")).lower()
        sections["snapshot"] = {
            "status": {"passed": "passed", "none": "missing"}.get(status, "failed"),
            "pass_to_fail": float(metrics.get("snapshot_pass_to_fail") or 0),
        } | {name: metrics.get(f"snapshot_{name}") for name in ("passed", "skipped", "total")}
    return a_trial(
        agent=sub.agent,
        model=sub.model,
        agent_index=sub.index,
        revision=sub.index,
        resolved=sub.written["is_resolved"],
        failure_mode=sub.written["failure_mode"],
        cost_usd=sub.written["total_cost"],
        trajectory_length=sub.trajectory_length,
        benchmarks=finite(sub.benchmarks),
        **place,
        **sections,
    )


@cache
def folded_case(case_id: str) -> tuple[dict[str, Json], Json]:
    """Scored trials by agent:model, and the run summary."""
    (case,) = (case for case in written_cases() if case.id == case_id)
    pipeline, result = folded([event_of(sub, run_id=case.id) for sub in sub_trials(case)])
    assert not result.rejections
    scored = [json.loads(trial.value) for trial in pipeline.run(case_id).take_changes().scored if trial.value]
    (run,) = (c.summary for c in pipeline.run(case_id).summaries() if c.kind == "run")
    assert run is not None
    return {trial["agent_model"]: trial for trial in scored}, run


def planned(case: Case) -> list[SubTrial]:
    """Sub-trials that stand in their slot: of two of one agent:model the later does (R17, as D5 a)."""
    return list({sub.key: sub for sub in sub_trials(case)}.values())


def payload_of(case: Case, sub: SubTrial) -> Json | None:
    metrics = case.expected["merged"]["parser_extra_metrics"]
    stored: Json | None = metrics["agent_metrics_by_agent"].get(sub.key)
    return stored


@cache
def ruled_of(case_id: str) -> list[tuple[SubTrial, list[SubTrial], Json]]:
    """The sub-trials of a case that stand in their slot, all of its sub-trials, and the ruled payload."""
    (case,) = (case for case in written_cases() if case.id == case_id)
    subs = sub_trials(case)
    return [(sub, subs, ruled(sub, subs)) for sub in planned(case)]


def number(case: Case) -> int:
    return int(case.id.removeprefix("merge-"))


def test_every_sub_trial_has_the_ruled_payload() -> None:
    compared = 0
    for case in written_cases():
        scored, _ = folded_case(case.id)
        assert set(scored) == {sub.key for sub in sub_trials(case)}
        for sub, subs, _ in ruled_of(case.id):
            check_scored(scored[sub.key], sub, subs)
            compared += 1
    assert compared == COMPARED


def test_every_sub_trial_has_fc_evals_payload_or_differs_by_a_ruling() -> None:
    result: dict[str, list[str]] = {}
    equal = 0
    for case in written_cases():
        for sub, subs, want in ruled_of(case.id):
            theirs = payload_of(case, sub)
            if theirs is not None and not differing_fields(want, theirs):
                equal += 1
                continue
            why = rulings(sub, subs, want, theirs)
            assert why, (case.id, sub.key)
            result.setdefault(why, []).append(f"{number(case)}.{sub.index}")
    assert {why: " ".join(stored) for why, stored in result.items()} == DIFFERS
    assert equal == EQUAL


def test_summaries_of_tests_and_snapshots_are_fc_evals_but_r6_the_snapshots_own_failures() -> None:
    """fc-eval's `snapshot_summary.failed` is its own flag as 0 or 1 (B7); these logs hold no other count."""
    compared: Counter[str] = Counter()
    for case in written_cases():
        scored, _ = folded_case(case.id)
        for sub in planned(case):
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
        decides = [s for s in planned(case) if s.agent not in ("nop", "oracle")] or planned(case)
        measured = any(sub.is_formulacode for sub in planned(case))  # (R21) else no run of FormulaCode
        of_key = {sub.key: want["task_speedup"] for sub, _, want in ruled_of(case.id)}
        speedup = of_key[decides[-1].key] if measured else None
        ours = run["mean_speedup_percentage"]
        assert ours == close_difference(None if speedup is None else (speedup - 1.0) * 100.0, 100.0)
        theirs = case.expected["merged"]["parser_extra_metrics"].get("speedup_percentage")
        same += theirs is not None and ours == close_difference(theirs, 100.0)
    assert same == 97


def test_a_trials_cost_is_the_sum_of_its_agents_costs() -> None:
    """merge-0242: fc-eval sums the map `costs_by_agent_model`, which may not agree with them (D3)."""
    other = {}
    for case in written_cases():
        _, run = folded_case(case.id)
        assert run["total_cost"] == close(sum(sub.written["total_cost"] for sub in planned(case)))
        if run["total_cost"] != close(case.expected["merged"]["total_cost"]):
            other[case.id] = case.expected["merged"]["total_cost"]
    assert other == {"merge-0242": 0.75, "merge-0243": pytest.approx(3.090218)}


def test_a_merge_that_throws_loses_no_sub_trial_here() -> None:
    """merge-0237: fc-eval raises on a null advantage and writes no trial (D16)."""
    (case,) = (case for case in cases("merge") if case.expected["raised"])
    assert case.expected["raised"] == "TypeError"
    pipeline, result = folded([event_of(sub, run_id=case.id) for sub in sub_trials(case)])
    assert not result.rejections
    assert len([trial for trial in pipeline.run(case.id).take_changes().scored if trial.value]) == 3


def test_the_reference_splits_names_as_fc_eval() -> None:
    for name, parts in the_case("benchmark_names").expected:
        assert list(split(name)) == parts


# -----------------------------------------------------------------------------
# docs/compatibility.md says what the cases say, and leaves no ruling out.


def test_the_document_is_what_the_cases_say() -> None:
    page = make_compatibility.DOCUMENT.read_text("utf-8")
    assert make_compatibility.document(page) == page, "run: python -m tests.conformance.make_compatibility"


def test_every_ruling_that_moves_a_number_is_explained() -> None:
    counted = [*DIFFERS, *run.DIFFERS, *(stored for result in SUB_TRIALS.values() for stored in result)]
    page = make_compatibility.DOCUMENT.read_text("utf-8")
    assert {name for one in counted for name in one.split()} <= set(re.findall(r"^### (\w+):", page, re.M))


# -----------------------------------------------------------------------------
# Random multi-agent runs of FormulaCode against the plain reimplementation: R7 to R10, R20 to R22, R25.


SEEDS = range(60)
KEYS = ["nop:nop", "oracle:oracle", "alpha:m", "beta:m"]
VALUES = (None, None, 0.0, 0.5, 1.0, 1.2, 1.5, 3.0)
NAMES = ("m.f", "m.C.g(1)", "m.C.g(2)", "n.f")


class Run:
    """A random run: trials of up to four agents, with an end or without."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.finished = self.rng.random() < 0.5
        self.trials = {f"t{n}": self._trial() for n in range(self.rng.choice([1, 3, 6]))}

    def _trial(self) -> list[SubTrial]:
        taking_part = [index for index in range(1, 5) if self.rng.random() < 0.8] or [3]
        return [self._sub_trial(index) for index in taking_part]

    def _sub_trial(self, index: int) -> SubTrial:
        rng, metrics = self.rng, dict[str, Any]()
        crashed = rng.random() < 0.25
        if not crashed and rng.random() < 0.9:
            failed = rng.choice([0, 0, 0, 1, 2])
            metrics |= {"tests": "failed" if failed else "passed", "test_failed": failed, "test_error": 0}
        if not crashed and rng.random() < 0.7:
            metrics |= {"snapshot_failed": False, "snapshot_status": rng.choice(["passed"] * 4 + ["failed"])}
        if not crashed and rng.random() < 0.8:
            entries = {name: self._entry() for name in NAMES if rng.random() < 0.6}
            metrics["per_benchmark_speedups_by_agent"] = {KEYS[index - 1]: entries}
        if rng.random() < 0.7:
            metrics["trajectory_length"] = rng.choice([1, 5, 40])
        verdict = None if crashed else rng.choice([True, True, False])
        written: Json = {"is_resolved": verdict, "total_cost": rng.choice([None, 0.0, 0.1, 2.5])}
        written["failure_mode"] = "agent_timeout" if crashed else "unset"
        return SubTrial(index, KEYS[index - 1], KEYS, written, metrics)

    def _entry(self) -> Any:
        if self.rng.random() < 0.05:
            return 7
        return {side: self.rng.choice(VALUES) for side in ("agent/nop", "oracle/nop")}

    @property
    def events(self) -> list[Event]:
        plan = a_plan(agent_models=KEYS)
        subs = [event_of(sub, task_id=task) for task, trial in self.trials.items() for sub in trial]
        ends = [{"type": "run_finished", "run_id": "run-1"}] if self.finished else []
        events = [plan, *subs, *ends]
        self.rng.shuffle(events)
        return events

    @property
    def is_formulacode(self) -> bool:
        return any(sub.is_formulacode for trial in self.trials.values() for sub in trial)

    def missing(self, key: str) -> list[Json]:
        """What the rulings say of a planned agent in the trials that lack it; nop never fails (R21)."""
        if key == "nop:nop":
            return []
        lacking = [t for t in self.trials.values() if all(sub.key != key for sub in t)]
        failed = SubTrial(0, key, KEYS, {"is_resolved": None, "total_cost": None}, {})
        return [ruled(failed, trial) for trial in lacking] if self.finished else []


@pytest.fixture(params=SEEDS, scope="module")
def run_of_formulacode_groups(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def test_every_random_sub_trial_is_scored_as_ruled(run_of_formulacode_groups: Run) -> None:
    stream = published(*run_of_formulacode_groups.events)
    scored = {(s["task_id"], s["agent_model"]): s for s in stream.scored.values()}
    subs = {(t, sub.key): (sub, all_) for t, all_ in run_of_formulacode_groups.trials.items() for sub in all_}
    assert scored.keys() == subs.keys()
    for place, (sub, trial) in subs.items():
        check_scored(scored[place], sub, trial)


def test_every_agents_summary_is_the_ruled_one(run_of_formulacode_groups: Run) -> None:
    run = run_of_formulacode_groups
    result = summaries(Folding(folded(run.events)[0]), "agent_model")
    for key, ours in {one["agent_model"]: one["formulacode"] for one in result}.items():
        if not run.is_formulacode:
            assert ours is None
            continue
        rows = [ruled(sub, trial) for trial in run.trials.values() for sub in trial if sub.key == key]
        want = ruled_summary(rows, run.missing(key))
        assert {name: ours[name] for name in want} == {
            name: value if name == "coverage" else close_difference(value) for name, value in want.items()
        }, key


def test_a_fallback_on_nothing_is_a_speedup_of_one_without_advantages() -> None:
    """The reimplementation's own corner: R21 beside R22."""
    stored = fallen_back({})
    assert (stored["task_speedup"], stored["agent_advantage"], stored["num_benchmarks"]) == (1.0, None, 0)


# -----------------------------------------------------------------------------
# Every case of formulacode/logs gives fc-eval's tokens, cost and trajectory length, or names the ruling.


LOGS = sorted(case.parent for case in (shared_data() / "formulacode" / "logs").glob("*/case.json"))

NO_AGENT_LOG = {
    *("cast_all_kinds", "cast_crlf", "cast_header_only", "cast_junk", "cast_named_after_agent"),
    *("cast_no_header_first_event_lost", "cast_no_trailing_newline", "cast_two_newest_wins"),
    *("cast_u2028_in_event", "no_agent_logs_dir", "real_cast_0", "real_cast_1", "real_cast_4"),
    *("real_cast_6", "real_cast_7", "real_cast_9"),
}
STOPPED = {
    "bom": "the newest log starts with a byte order mark, which fc-eval cannot read",
    "directory_named_json": "the newest log is a directory",
    "empty_file": "the newest log is empty",
    "entry_not_dict": "the last entry is a text, which stops the scan",
    "llm_metrics_null_last": "the last entry's llm_metrics is null, which stops the scan",
    "nan_token": "prompt_tokens is NaN, which stops the scan",
    "two_files_newest_is_dict": "the newest log is an object",
    "two_files_newest_malformed_no_cast": "the newest log is cut off",
    "usage_null": "the last entry's usage is null, which stops the scan",
}
TOKENS_UNKNOWN = {*NO_AGENT_LOG, *STOPPED, "not_accumulated_per_call_only"}
"""R1: nothing states tokens in all, so they are unknown where fc-eval says 0; and the cost with them (R2)."""

LENGTH_UNKNOWN = "two_files_newest_malformed_no_cast"
"""R1: neither its log nor a recording can be read, so its length is unknown where fc-eval says 0."""

COSTS = {
    "price_03": (29071 * 1.25 + 3951 * 10) / 1e6,  # gpt-5-2025-08-07 is an alias of gpt-5
    "price_04": (16507 * 1.25 + 1814 * 10) / 1e6,  # openai/gpt-5-2025-08-07 likewise
    "price_12": (37131 * 0.45 + 2995 * 1.8) / 1e6,  # behind the gateway fireworks_ai
    "price_16": None,  # no model, no price
}
"""R2: dated names have their model's price, and a model without a price has no cost, where fc-eval says 0."""

NOT_TAKEN = {"never_any_tokens", "token_all_negative"}
"""E6: the log states tokens, none above 0; the trial's result keeps its own, and has none here."""

NO_TOKENS: Json = dict.fromkeys(("input_tokens", "output_tokens", "cost_usd"))


def restored(original: Path, tmp_path: Path) -> tuple[Path, Json]:
    """A case as it was on disk: with its times and its empty directories."""
    case: Json = json.loads((original / "case.json").read_text())
    trial = tmp_path / original.name
    shutil.copytree(original, trial)
    for name in case["empty_dirs"]:
        (trial / name).mkdir(parents=True)
    for name, mtime in case["mtimes"].items():
        os.utime(trial / name, (mtime, mtime))
    return trial, case


def ruled_of_log(case_id: str, theirs: Json) -> Json:
    """What fc-eval says, changed by the rulings, which speak only where it says 0."""
    by_rulings = NO_TOKENS if case_id in TOKENS_UNKNOWN else {}
    if case_id == LENGTH_UNKNOWN:
        by_rulings = by_rulings | {"trajectory_length": None}
    if case_id in COSTS:
        by_rulings = by_rulings | {"cost_usd": COSTS[case_id]}
    assert not any(theirs[name] for name in by_rulings)
    return {name: close(value) for name, value in (theirs | by_rulings).items()}


def test_there_is_a_case_for_every_ruling_on_logs() -> None:
    names = {case.name for case in LOGS}
    assert len(names) == 41
    assert TOKENS_UNKNOWN | COSTS.keys() | NOT_TAKEN <= names


@pytest.mark.parametrize("original", LOGS, ids=lambda case: case.name)
def test_a_log_gives_what_fc_eval_reads_from_it_but_for_the_rulings(original: Path, tmp_path: Path) -> None:
    """Every value names the file that it comes from, and every missing one has a reason."""
    trial, case = restored(original, tmp_path)
    logs, expected = read_agent_logs(trial), ruled_of_log(original.name, case["expected"])
    read = {name: getattr(logs, name) for name in ("input_tokens", "output_tokens", "trajectory_length")}
    cost = PriceTable.default().cost(case["model_name"], logs.input_tokens, logs.output_tokens)
    assert read | {"cost_usd": cost} == expected
    assert set(logs.sources) == {name for name, value in read.items() if value is not None}
    assert all((trial / file).is_file() for file in logs.sources.values())
    assert bool(logs.problems) == (original.name in STOPPED)


@pytest.mark.parametrize("original", LOGS, ids=lambda case: case.name)
def test_a_trial_is_scored_with_what_its_logs_say(original: Path, tmp_path: Path) -> None:
    trial, case = restored(original, tmp_path)
    bare = a_trial(model=case["model_name"] or "unknown")
    event, misfits = fit_event(enriched(bare, read_agent_logs(trial)).event)
    assert event is not None
    assert not misfits
    (scored,) = published(event).scored.values()
    expected = ruled_of_log(original.name, case["expected"])
    if original.name in NOT_TAKEN:
        expected |= NO_TOKENS
    assert {name: scored[name] for name in expected} == expected
    assert scored["cost_source"] == (None if expected["cost_usd"] is None else "estimated")
