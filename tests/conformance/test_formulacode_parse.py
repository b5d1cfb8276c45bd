"""The log parser against every `parse` case of the real harness, and where rulings make it differ.

What is compared: statuses and counts of TESTS and SNAPSHOT, both failure flags, the verdict, the old
format's speedup_percentage, the benchmarks of every agent, the claimed advantages and counts. The
percentage of the new format is no matter of the log: scoring works it out of the benchmarks.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from streamer.folding.fold import Folding, fold_records
from streamer.schemas.base import MAX_COUNT
from streamer.schemas.wire import records_of_lines
from streamer.sources.fc_eval_payload import ParsedLog, parse_log, place, sections_for
from streamer.sources.files import Subject
from tests.conformance.fc_run_differences import LEFT_OUT
from tests.conformance.fc_runs import block, crashed_as_a_whole
from tests.conformance.folds import digests, summaries
from tests.conformance.formulacode_rules import cost_weighted, exact_mean, ruled_gmean
from tests.conformance.formulacode_run_cases import (
    MEANS,
    SUMS,
    Entry,
    Json,
    agents,
    by_agent,
    number,
    scored_trial,
    summary,
    whole,
)
from tests.conformance.formulacode_run_directories import Run, expected
from tests.support import formulacode_cases
from tests.support.cli import streamer
from tests.support.events import a_trial, folded
from tests.support.formulacode_cases import ADVANTAGES, close, kinds, the_case

TEST_COUNTS = ("passed", "failed", "error", "skipped", "total")
SNAPSHOT_COUNTS = ("passed", "skipped", "total")
CLAIMS = (
    "agent_advantage",
    *(f"agent_advantage_level{level}" for level in (1, 2, 3, 4)),
    "num_valid_benchmarks",
    "total_benchmarks",
)


class Case(NamedTuple):
    id: str
    text: str
    expected: dict[str, Any]
    """What the harness made of it."""

    @property
    def metrics(self) -> dict[str, Any]:
        return self.expected["extra_metrics"] or {}

    @property
    def improvements(self) -> dict[str, Any]:
        result = self.metrics.get("improvements_dict")
        return result if isinstance(result, dict) else {}

    @property
    def of_agent(self) -> dict[str, Any]:
        """The one entry of agent_metrics_by_agent, its counts being whole numbers (B15); or {}."""
        return next(iter((self.metrics.get("agent_metrics_by_agent") or {}).values()), {})


@functools.cache
def cases() -> tuple[Case, ...]:
    every = formulacode_cases.cases("parse")
    return tuple(Case(case.id, case.input["text"], travelling(case.expected)) for case in every)


def harness_ran(case: Case) -> bool:
    return case.expected["raised"] is None


def harness_view(case: Case) -> dict[str, Any]:
    metrics, one = case.metrics, case.of_agent
    tests = one.get("pytest_summary") or {name: metrics.get(f"test_{name}") for name in TEST_COUNTS}
    snapshot = one.get("snapshot_summary") or {
        name: metrics.get(f"snapshot_{name}") for name in SNAPSHOT_COUNTS
    }
    return {
        "verdict": case.expected["parser_results"]["improvements"],
        "tests": metrics["tests"],
        "test counts": [min(tests[name] or 0, MAX_COUNT) for name in TEST_COUNTS],
        "pytest_failed": metrics["pytest_failed"],
        "snapshot": metrics["snapshot_status"],
        "snapshot counts": [snapshot[name] or 0 for name in SNAPSHOT_COUNTS],
        "pass_to_fail": metrics["snapshot_pass_to_fail"],
        "snapshot_failed": metrics["snapshot_failed"],
    }


def our_view(parsed: ParsedLog) -> dict[str, Any]:
    """The same, and 0 for a count that is not there, as the harness has it."""
    tests, snapshot = parsed.tests["status"], parsed.snapshot["status"]
    pytest_failed, snapshot_failed = tests != "ok", snapshot != "passed"
    return {
        "verdict": "failed" if pytest_failed or snapshot_failed else "passed",
        "tests": "failed" if pytest_failed else "passed",
        "test counts": [parsed.tests.get(name, 0) for name in TEST_COUNTS],
        "pytest_failed": pytest_failed,
        "snapshot": "failed" if snapshot_failed else "passed",
        "snapshot counts": [parsed.snapshot.get(name, 0) for name in SNAPSHOT_COUNTS],
        "pass_to_fail": int(parsed.snapshot.get("pass_to_fail", 0)),
        "snapshot_failed": snapshot_failed,
    }


def travelling(value: Any) -> Any:
    """JSON with its non-finite numbers as text."""
    if isinstance(value, dict):
        return {key: travelling(item) for key, item in value.items()}
    if isinstance(value, list):
        return [travelling(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def fallen_back(benchmarks: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Ratios after the harness's fallback, from raw ones (C1)."""
    raw = {name: entry.get("oracle/nop") for name, entry in benchmarks.items() if isinstance(entry, dict)}
    return {name: (1.0, oracle if isinstance(oracle, int | float) else 1.0) for name, oracle in raw.items()}


NO_ERROR_KEY = {
    *("parse-0034", "parse-0036", "parse-0037", "parse-0039", "parse-0040", "parse-0061", "parse-0255"),
    *("parse-0267", "parse-0268", "parse-0278", "parse-0304", "parse-0338", "parse-0347", "parse-0372"),
}
"""R5: no `error` key means no errors; 120 passed, 3 skipped of 123 in each."""

ONE_ERROR = {"parse-0027", "parse-0030", "parse-0032", "parse-0033", "parse-0060"}
"""R5: `error: 1` is one errored test; 120 passed, 3 skipped of 123 in each."""

NOT_UNDER_ITS_KEY = {*("parse-0142", "parse-0143", "parse-0146", "parse-0151", "parse-0152", "parse-0156")}
"""R7: no key of the log is the last agent's, so it has no benchmarks; the harness takes another key or {}."""

ONLY_KEY_WITH_ITS_LABEL = {"parse-0139"}
"""R7: the log names its last agent without a model, and has one key with that label, as the harness."""

NO_RESULT = {
    *("parse-0098", "parse-0099", "parse-0100", "parse-0101", "parse-0102", "parse-0104", "parse-0105"),
    *("parse-0107", "parse-0108", "parse-0112", "parse-0214", "parse-0215", "parse-0219"),
}
"""R1: no result can be read, so there is no percentage."""

RAISED = {
    "parse-0064": ("failed", "unparsable", "passed"),
    "parse-0088": ("failed", "ok", "unparsable"),
    "parse-0092": ("failed", "ok", "unparsable"),
    "parse-0096": ("failed", "ok", "unparsable"),
    "parse-0115": ("passed", "ok", "passed"),
    "parse-0117": ("passed", "ok", "passed"),
    "parse-0118": ("failed", "failed", "passed"),
    "parse-0125": ("passed", "ok", "passed"),
    "parse-0126": ("failed", "failed", "passed"),
    "parse-0165": ("passed", "ok", "passed"),
    "parse-0179": ("passed", "ok", "passed"),
}
"""B4: verdict, tests and snapshot where the harness stumbles. A bad claim fails nothing (B8, R3)."""


def test_counts_and_flags_are_the_harnesss_but_where_r5_rules() -> None:
    assert len(cases()) == 193
    views = {c.id: (our_view(parse_log(c.text)), harness_view(c)) for c in cases() if harness_ran(c)}
    assert {name for name, (ours, theirs) in views.items() if ours != theirs} == ONE_ERROR | NO_ERROR_KEY


def test_r5_no_error_key_and_one_error_keep_the_counts() -> None:
    for case in cases():
        if case.id in NO_ERROR_KEY | ONE_ERROR:
            parsed, errors = parse_log(case.text), int(case.id in ONE_ERROR)
            counts = {"passed": 120, "failed": 0, "error": errors, "skipped": 3, "total": 123}
            assert parsed.tests == {"status": "failed" if errors else "ok", **counts}
            passes = not errors and case.metrics["snapshot_status"] == "passed"
            assert our_view(parsed)["verdict"] == ("passed" if passes else "failed")


def test_where_the_harness_stumbles_there_are_flags() -> None:
    parsed = {case.id: parse_log(case.text) for case in cases() if not harness_ran(case)}
    verdicts = {name: our_view(one)["verdict"] for name, one in parsed.items()}
    assert {n: (verdicts[n], p.tests["status"], p.snapshot["status"]) for n, p in parsed.items()} == RAISED


def test_the_snapshots_own_failed_count_is_kept() -> None:
    """R6: the harness has 0 or 1 there, whatever the count (B7)."""
    ruled = 0
    for case in cases():
        own = block(case.text, "SNAPSHOT")
        if harness_ran(case) and isinstance(own, dict) and "failed" in own:
            assert parse_log(case.text).snapshot["failed"] == own["failed"]
            ruled += (
                case.of_agent.get("snapshot_summary", {"failed": own["failed"]})["failed"] != own["failed"]
            )
    assert ruled == 126


def test_benchmarks_of_every_agent_are_those_written() -> None:
    agents = 0
    for case in cases():
        result = block(case.text, "RESULT")
        by_agent = result.get("per_benchmark_speedups_by_agent") if isinstance(result, dict) else None
        for label, benchmarks in (by_agent or {}).items() if isinstance(by_agent, dict) else ():
            agents += 1
            assert sections_for(parse_log(case.text), Subject(label))["benchmarks"] == travelling(benchmarks)
    assert agents == 444


def test_benchmarks_are_the_harnesss_but_where_r7_rules() -> None:
    """Raw ones where it has raw ones; where it fell back, its fallback of ours."""
    compared, ruled = 0, set()
    for case in cases():
        last_agent = str(case.metrics.get("last_agent"))
        for key, one in (case.metrics.get("agent_metrics_by_agent") or {}).items():
            ours = sections_for(parse_log(case.text), Subject(last_agent)).get("benchmarks")
            if ours is None:
                ruled.add(case.id)
            elif one["pytest_failed"] or one["snapshot_failed"]:
                shown = one["per_benchmark_speedups"].items()
                ratios = {name: (entry["agent/nop"], entry["oracle/nop"]) for name, entry in shown}
                assert ratios == fallen_back(ours), case.id
                compared += 1
            else:
                assert key == last_agent or case.id in ONLY_KEY_WITH_ITS_LABEL
                assert one["per_benchmark_speedups"] == ours, case.id
                compared += 1
    assert ruled == NOT_UNDER_ITS_KEY
    assert compared == 160 - len(NOT_UNDER_ITS_KEY)


def test_claims_are_those_written() -> None:
    for case in cases():
        parsed = parse_log(case.text)
        for label, claims in (case.improvements.get("agent_advantages_by_agent") or {}).items():
            if isinstance(claims, dict) and "fallback_to_baseline" not in claims:
                assert parsed.result is not None
                ours = parsed.result.claims_by_agent[label]
                assert ours == {name: claims[name] for name in ours}, case.id
                assert not {name for name in CLAIMS if name in claims} - ours.keys(), case.id


def test_claims_of_the_last_agent_are_those_copied() -> None:
    """B9: advantages through float(), counts through int(); after a fallback the harness's are no claims."""
    compared = 0
    for case in cases():
        parsed, one = parse_log(case.text), case.of_agent
        if parsed.result is None or not parsed.result.claims or not harness_ran(case):
            continue
        if one.get("pytest_failed") or one.get("snapshot_failed"):
            continue
        ours = parsed.result.claims
        assert ours == {name: case.metrics[name] for name in ours}, case.id
        compared += 1
    assert compared == 61


def test_the_percentage_of_the_old_format_is_the_harnesss_but_a_missing_one_is_missing() -> None:
    """R1: no readable RESULT gives no percentage; the harness writes 0.0 (B9)."""
    old: set[str] = set()
    missing: set[str] = set()
    for case in cases():
        if harness_ran(case) and not case.of_agent and "agent_advantage" not in case.metrics:
            result = parse_log(case.text).result
            ours = result.speedup_percentage if result else None
            (missing if ours is None else old).add(case.id)
            assert case.metrics["speedup_percentage"] == (ours or 0.0), case.id
    assert old == {"parse-0182", "parse-0185"}
    assert missing == NO_RESULT


# -----------------------------------------------------------------------------
# Run-level aggregation of FormulaCode as fc-eval 0.1.0's, or as the rulings say.
#
# The cases give each agent's metrics per trial, so these go into the aggregate of an agent:model as scored
# trials; verdicts, costs and percentages go through the whole pipeline as events. Fields are as dirty as
# fc-eval bears them: text, lists, null. Ours is always the ruled answer, worked out here with fractions;
# where fc-eval's differs, the field stands in `DIFFERS` under the ruling.


COMPARED, EQUAL = 876, 641
"""Fields of the agents' summaries; those of them that are fc-eval's."""

DIFFERS = {
    "R1": "1:15 11:8 13:3 19:3 33:2 35:12 37:1 44:8 45:8 46:6 48:5",
    "R18": "1:17 11:7 13:21 19:2 27:24 35:11 37:39 48:2",
    "R20": "1:4 13:3 19:1 27:3 37:5 45:1",
    "R25": "1:4 11:2 13:3 19:1 27:3 35:3 37:5 44:1 45:1 48:1",
}
"""Ruling -> case:fields of its agents' summaries that it makes differ from fc-eval's, 235 of 876.

R1: a missing value is left out of the mean, where fc-eval puts a default. R18: so is NaN or infinity,
which makes fc-eval's mean NaN or infinite. R20: without a success and without flags the verdict decides,
where fc-eval counts a success. R25: the mean advantage over the mean cost, each of the trials that have it.
"""


def ruled(entries: list[Entry]) -> Json:
    known: dict[str, list[float]] = {}
    for name, field in MEANS.items():
        values = map(whole if field == "trajectory_length" else number, (e.raw.get(field) for e in entries))
        known[name] = [value for value in values if value is not None]
    return {
        **{name: exact_mean(values) for name, values in known.items()},
        **{name: sum(whole(entry.raw.get(name)) or 0 for entry in entries) for name in SUMS},
        "mean_success_rate": exact_mean([float(entry.scored.success) for entry in entries]),
        "cost_weighted_advantage": cost_weighted(known["agent_advantage"], known["mean_cost_per_task"]),
    }


def why(field: str, entries: list[Entry]) -> str:
    """The ruling that can make fc-eval's field differ; "" if none does."""
    if field == "mean_success_rate":
        return "" if all(isinstance(e.raw.get("success"), bool) for e in entries) else "R20"
    if field == "cost_weighted_advantage":
        needed = ("agent_advantage", "task_cost_usd")
        return "R25" if any(number(e.raw.get(n)) is None for e in entries for n in needed) else ""
    values = [e.raw.get(MEANS.get(field, field)) for e in entries]
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return "R18"
    return "R1" if any(number(v) is None or whole(v) is None for v in values) else ""


def same(ours: Any, theirs: Any) -> bool:
    return bool(ours == (theirs if theirs is None or math.isnan(theirs) else close(theirs)))


def test_every_agents_summary_is_the_ruled_one() -> None:
    compared = 0
    for case, key, entries in agents():
        ours = summary(key, entries)
        for field, value in ruled(entries).items():
            assert ours[field] == close(value), (case.id, key, field)
        compared += 1
    assert compared == 74


def test_every_agents_summary_is_fc_evals_or_differs_by_a_ruling() -> None:
    result: dict[str, Counter[int]] = defaultdict(Counter)
    equal = 0
    for case, key, entries in agents():
        theirs = case.expected["agent_metrics_summary"]
        if "raised" in theirs:
            assert case.id == "run-0049"  # an infinite length breaks fc-eval's whole file (F2)
            continue
        for field, value in ruled(entries).items():
            if same(value, theirs[key][field]):
                equal += 1
                continue
            ruling = why(field, entries)
            assert ruling, (case.id, key, field, value, theirs[key][field])
            result[ruling][int(case.id.removeprefix("run-"))] += 1
    assert {
        ruling: " ".join(f"{case}:{fields}" for case, fields in stored.items())
        for ruling, stored in result.items()
    } == DIFFERS
    differing = sum(stored.total() for stored in result.values())
    assert equal == EQUAL
    assert differing == COMPARED - EQUAL


def test_every_geometric_mean_of_advantages_is_fc_evals_but_r18_without_nan() -> None:
    """Numbers only, text left out (F7); one NaN makes fc-eval's NaN. Not for nop."""
    compared = nan = 0
    for case in formulacode_cases.cases("run"):
        theirs = case.expected["agent_advantages_gmean"]
        stored = by_agent(case, "agent_advantages_by_agent")
        assert set(theirs) <= set(stored)
        for key, entries in stored.items():
            raws = [{n: v for n, v in e.raw.items() if isinstance(v, int | float)} for e in entries]
            numeric = [Entry(raw, scored_trial(raw, None)) for raw in raws]
            ours = summary(key, numeric)["agent_advantages_gmean"]
            if key.partition(":")[0] == "nop":
                assert ours is None
                assert key not in theirs
                continue
            for name in ADVANTAGES:
                values = [e.raw[name] for e in numeric if name in e.raw]
                finite = [float(v) for v in values if math.isfinite(v)]
                assert ours[name] == close(ruled_gmean(finite)), (case.id, key, name)
                if len(finite) == len(values):
                    assert ours[name] == close(theirs.get(key, {}).get(name)), (case.id, key, name)
                    compared += 1
                else:
                    nan += 1
    assert (compared, nan) == (222, 53)


def test_verdicts_pass_at_k_and_costs_of_a_run_are_fc_evals_but_r11_k_is_one_too() -> None:
    """Of an empty run there is no summary."""
    for case in formulacode_cases.cases("run"):
        seen, events, theirs = Counter[str](), [], case.expected
        for trial in case.input["results"]:
            seen[trial["task_id"]] += 1
            place = {"run_id": case.id, "task_id": trial["task_id"], "attempt": seen[trial["task_id"]]}
            percentage = (trial.get("parser_extra_metrics") or {}).get("speedup_percentage")
            said = {"resolved": trial.get("is_resolved"), "cost_usd": trial.get("total_cost")}
            said["speedup_percentage"] = number(percentage) if isinstance(percentage, int | float) else None
            events.append(a_trial(**place, **said))
        pipeline, result = folded(events)
        assert not result.rejections
        if not events:
            assert list(pipeline.runs()) == []
            assert (theirs["accuracy"], theirs["mean_cost_per_task"]) == (0.0, None)
            continue
        (run,) = (c.summary for c in pipeline.run(case.id).summaries() if c.kind == "run")
        assert run is not None
        assert (run["resolved"], run["unresolved"]) == (theirs["n_resolved"], theirs["n_unresolved"])
        for name in ("accuracy", "mean_speedup_percentage"):
            assert run[name] == close(theirs[name])
        assert (run["total_cost"] or 0.0) == close(theirs["total_cost"])  # of nothing ours is null (R1)
        for k, value in theirs["pass_at_k"].items():
            assert run["pass_at_k"][k]["value"] == close(value)
            assert not run["pass_at_k"][k]["partial"]
        assert "1" in run["pass_at_k"]
        assert "1" not in theirs["pass_at_k"]


# -----------------------------------------------------------------------------
# Complete fc-eval run directories through `convert` and `fold`: order, missing files, and the command.


def test_crashed_trials_of_one_agent_count_and_of_several_are_left_out_and_reported(
    directories: Path, run: Run
) -> None:
    """R21, R28; fc-eval's summaries leave out what has no payload (F1)."""
    out = LEFT_OUT.get(run.name, 0)
    assert len(crashed_as_a_whole(directories / run.name, run.expected["agents"])) == out
    assert len(run.trials) == run.expected["n_trials_in_run_results"] - out
    for one_summary in run.agents.values():
        assert one_summary["trials"] == len(run.trials)
        assert one_summary["coverage"]["trajectory_length"] <= len(run.trials)
    said = streamer("convert", directories / run.name).stderr.decode()
    assert ("unknown_agent_error" in said) is bool(out)


def test_any_order_of_the_events_folds_to_the_same_digests(events: list[bytes], folding: Folding) -> None:
    backwards = fold_records(records_of_lines(reversed(events)))
    assert digests(backwards) == digests(folding)


def test_trial_files_alone_leave_the_crashed_trials_out(directories: Path) -> None:
    name = "fc-no-oracle-same-framework"
    done = streamer("convert", "--trial-files-only", directories / name)
    summary = summaries(fold_records(records_of_lines(done.stdout.splitlines())), "run")[0]
    theirs = expected()[name]["expected_from_trial_files"]
    assert summary["trials"] == expected()[name]["n_trial_files"]
    assert (summary["resolved"], summary["unresolved"]) == (theirs["n_resolved"], theirs["n_unresolved"])
    assert summary["accuracy"] == close(theirs["accuracy"])


def test_fold_prints_the_same_summaries(events: list[bytes], folding: Folding) -> None:
    done = streamer("fold", "--json", "-", stdin=b"\n".join(events))
    assert done.returncode == 0, done.stderr.decode()
    printed: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    ours = {change.digest for change in folding.summaries()}
    assert {line["digest"] for line in printed} == ours


# -----------------------------------------------------------------------------
# Every kind of case has its test, or the ruling under which it has no counterpart here.


ELSEWHERE = {"costs", "model_names"}
"""In tests/folding/test_score.py."""
WITHOUT_COUNTERPART = {"deep_merge": "R7: agents' results are never merged into one another"}


def test_no_kind_of_case_is_left_out() -> None:
    tables = {"agent_keys", "benchmark_names", "gmeans", "resolve_keys", "trial_names"}
    here = {"merge", "parse", "run", "speedups"} | tables
    assert kinds() == here | ELSEWHERE | WITHOUT_COUNTERPART.keys()


def test_sub_trials_differ_from_trials_by_name() -> None:
    """F11, G2: `.agent-<digits>-` behind the trial's own name."""
    for row in the_case("trial_names").expected:
        task = row["name"].partition(".")[0]
        assert (place(task, row["name"], ()).agent_index is not None) is row["is_sub_trial"], row["name"]
