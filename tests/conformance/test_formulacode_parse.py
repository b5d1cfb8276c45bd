"""The log parser against every `parse` case of the real harness, and where rulings make it differ.

What is compared: statuses and counts of TESTS and SNAPSHOT, both failure flags, the verdict, the old
format's speedup_percentage, the benchmarks of every agent, the claimed advantages and counts. The
percentage of the new format is no matter of the log: scoring works it out of the benchmarks.
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

from streamer.schemas.base import MAX_COUNT
from streamer.sources.fc_eval_payload import ParsedLog, parse_log, sections_for
from streamer.sources.files import Subject
from tests.support import formulacode_cases

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
        found = self.metrics.get("improvements_dict")
        return found if isinstance(found, dict) else {}


@functools.cache
def cases() -> tuple[Case, ...]:
    return tuple(
        Case(case.id, case.input["text"], travelling(case.expected))
        for case in formulacode_cases.cases("parse")
    )


def harness_ran(case: Case) -> bool:
    return case.expected["raised"] is None


def summaries(case: Case) -> dict[str, Any]:
    """The one entry of agent_metrics_by_agent, its counts being whole numbers (B15); {} if there is none."""
    by_agent = case.metrics.get("agent_metrics_by_agent") or {}
    return next(iter(by_agent.values()), {})


def harness_view(case: Case) -> dict[str, Any]:
    metrics, one = case.metrics, summaries(case)
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


def block(case: Case, name: str) -> Any:
    """JSON of a block, cut out independently of the parser; None if it is missing or no JSON."""
    before, _, after = case.text.partition(f"FORMULACODE_{name}_START")
    inner, end, _ = after.partition(f"FORMULACODE_{name}_END")
    if not end or f"FORMULACODE_{name}_END" in before:
        return None
    try:
        return json.loads("".join(inner.strip().splitlines()))
    except ValueError:
        return None


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
    return {name: (1.0, kept_oracle(entry)) for name, entry in benchmarks.items() if isinstance(entry, dict)}


def kept_oracle(entry: dict[str, Any]) -> float:
    oracle = entry.get("oracle/nop")
    return float(oracle) if isinstance(oracle, int | float) else 1.0


def ratios(benchmarks: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (entry["agent/nop"], entry["oracle/nop"]) for name, entry in benchmarks.items()}


NO_ERROR_KEY = {
    *("parse-0034", "parse-0036", "parse-0037", "parse-0039", "parse-0040", "parse-0061", "parse-0255"),
    *("parse-0267", "parse-0268", "parse-0278", "parse-0304", "parse-0338", "parse-0347", "parse-0372"),
}
"""R5: no `error` key means no errors; 120 passed, 3 skipped of 123 in each."""

ONE_ERROR = {"parse-0027", "parse-0030", "parse-0032", "parse-0033", "parse-0060"}
"""R5: `error: 1` is one errored test; 120 passed, 3 skipped of 123 in each."""

NOT_UNDER_ITS_KEY = {
    *("parse-0142", "parse-0143", "parse-0146", "parse-0151", "parse-0152", "parse-0156"),
}
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


def test_all_cases_are_there() -> None:
    assert len(cases()) == 193


def test_counts_and_flags_are_the_harnesss_but_where_r5_rules() -> None:
    differing = {
        case.id
        for case in cases()
        if harness_ran(case) and our_view(parse_log(case.text)) != harness_view(case)
    }
    assert differing == ONE_ERROR | NO_ERROR_KEY


def test_tests_without_an_error_key_count_no_errors() -> None:
    for case in cases():
        if case.id in NO_ERROR_KEY:
            parsed, snapshot = parse_log(case.text), case.metrics["snapshot_status"]
            counts = {"passed": 120, "failed": 0, "error": 0, "skipped": 3, "total": 123}
            assert parsed.tests == {"status": "ok", **counts}
            assert our_view(parsed)["verdict"] == snapshot == harness_view(case)["snapshot"]


def test_one_errored_test_fails_and_keeps_its_counts() -> None:
    for case in cases():
        if case.id in ONE_ERROR:
            counts = {"passed": 120, "failed": 0, "error": 1, "skipped": 3, "total": 123}
            assert parse_log(case.text).tests == {"status": "failed", **counts}


def test_where_the_harness_stumbles_there_are_flags() -> None:
    stumbled = {case.id: parse_log(case.text) for case in cases() if not harness_ran(case)}
    assert {
        case_id: (our_view(parsed)["verdict"], parsed.tests["status"], parsed.snapshot["status"])
        for case_id, parsed in stumbled.items()
    } == RAISED


def test_the_snapshots_own_failed_count_is_kept() -> None:
    """R6: the harness has 0 or 1 there, whatever the count (B7)."""
    ruled = 0
    for case in cases():
        own = block(case, "SNAPSHOT")
        if harness_ran(case) and isinstance(own, dict) and "failed" in own:
            assert parse_log(case.text).snapshot["failed"] == own["failed"]
            ruled += (
                summaries(case).get("snapshot_summary", {"failed": own["failed"]})["failed"] != own["failed"]
            )
    assert ruled == 126


def test_benchmarks_of_every_agent_are_those_written() -> None:
    agents = 0
    for case in cases():
        result = block(case, "RESULT")
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
                assert ratios(one["per_benchmark_speedups"]) == fallen_back(ours), case.id
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
        parsed, one = parse_log(case.text), summaries(case)
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
        if harness_ran(case) and not summaries(case) and "agent_advantage" not in case.metrics:
            result = parse_log(case.text).result
            ours = result.speedup_percentage if result else None
            (missing if ours is None else old).add(case.id)
            assert case.metrics["speedup_percentage"] == (ours or 0.0), case.id
    assert old == {"parse-0182", "parse-0185"}
    assert missing == NO_RESULT
