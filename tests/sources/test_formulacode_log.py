"""The log parser on what logs should not hold: it fails what is wrong, never raises, never dawdles."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.events import EVENT
from streamer.sources.fc_eval_payload import ParsedLog, parse_log, sections_for
from streamer.sources.files import Subject
from tests.support.examples import examples

GPT5 = "terminus-2:openai/gpt-5"
BLOCKS = ("TESTS", "RESULT", "SNAPSHOT")


def a_block(name: str, content: Any) -> str:
    inner = content if isinstance(content, str) else json.dumps(content)
    return f"FORMULACODE_{name}_START\n{inner}\nFORMULACODE_{name}_END\n"


def a_log(tests: Any = None, result: Any = None, snapshot: Any = None) -> str:
    given_blocks = zip(BLOCKS, (tests, result, snapshot), strict=True)
    return "$ run\n" + "".join(a_block(name, block) for name, block in given_blocks if block is not None)


def a_result(label: str = GPT5, **fields: Any) -> dict[str, Any]:
    speedups = {"m.f": {"agent/nop": 1.5, "oracle/nop": 2.0}}
    return {
        "last_agent": label,
        "agent_advantage": -0.5,
        "per_benchmark_speedups_by_agent": {label: speedups},
        **fields,
    }


def sections(text: str, label: str = GPT5, *others: str) -> dict[str, Any]:
    """Sections of a log, accepted by the event schema as they are."""
    found = sections_for(parse_log(text), Subject(label, others=others))
    EVENT.validate_json(orjson.dumps({"type": "trial_result", "run_id": "r", "task_id": "t", **found}))
    return found


def test_a_complete_log_gives_every_section() -> None:
    assert sections(
        a_log(
            tests={"passed": 9, "failed": 1, "error": 0, "skipped": 2, "total": 12, "warnings": 7},
            result=a_result(),
            snapshot={"pass-to-fail": 1, "passed": 40, "failed": 2, "skipped": 0, "total": 42},
        )
    ) == {
        "tests": {"status": "failed", "passed": 9, "failed": 1, "error": 0, "skipped": 2, "total": 12},
        "snapshot": {
            "status": "failed",
            "pass_to_fail": 1.0,
            "passed": 40,
            "failed": 2,
            "skipped": 0,
            "total": 42,
        },
        "benchmarks": {"m.f": {"agent/nop": 1.5, "oracle/nop": 2.0}},
    }


def test_an_empty_log_lacks_every_block() -> None:
    assert sections("") == {"tests": {"status": "missing"}, "snapshot": {"status": "missing"}}
    assert parse_log("").result is None


@pytest.mark.parametrize(
    "content", ["{oops", "[1]", "null", "3", '"text"', "{}", '{"a": 1}', "[" * 100_000, "1" * 5_000]
)
def test_a_block_of_a_wrong_shape_fails(content: str) -> None:
    parsed = parse_log(a_log(tests=content, snapshot=content))
    assert parsed.tests == {"status": "unparsable"}
    assert parsed.snapshot["status"] == ("passed" if content in ("{}", '{"a": 1}') else "unparsable")


@pytest.mark.parametrize("value", ['"1"', "null", "[]", "Infinity", "-Infinity", "1" + "0" * 400])
def test_a_snapshot_whose_pass_to_fail_is_no_count_fails(value: str) -> None:
    text = a_log(snapshot=f'{{"pass-to-fail": {value}}}')
    assert sections(text)["snapshot"]["status"] in ("failed", "unparsable")


def test_counts_go_through_int_and_an_infinite_one_fails() -> None:
    counts = sections(a_log(tests='{"passed": 1e30, "failed": 0.9, "error": "0", "skipped": null}'))["tests"]
    assert counts == {"status": "ok", "passed": 2**53, "failed": 0, "error": 0, "skipped": 0}
    assert sections(a_log(tests='{"passed": 1, "failed": Infinity}'))["tests"] == {"status": "unparsable"}


def test_an_error_of_the_snapshot_comparison_fails_whatever_it_is() -> None:
    assert sections(a_log(snapshot={"error": None, "passed": 3}))["snapshot"]["status"] == "failed"


def test_hostile_benchmarks_travel_as_what_may_travel() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    text = json.dumps(
        a_result(
            per_benchmark_speedups_by_agent={
                GPT5: {
                    "nan": {"agent/nop": float("nan"), "oracle/nop": float("-inf")},
                    "huge": {"agent/nop": 10**30, "oracle/nop": -(10**400)},
                    "half \ud800 name": "\udfff",
                    "deep": {"agent/nop": deep, "oracle/nop": {"a": {"b": {"c": 1}}}},
                    "true": {"agent/nop": True},
                    "seconds": {"agent_s": [1.0, 2.0], "nop_s": 3},
                }
            }
        )
    )
    benchmarks = sections(a_log(result=text))["benchmarks"]
    assert list(benchmarks) == ["nan", "huge", "half \ufffd name", "deep", "true", "seconds"]
    assert benchmarks["nan"] == {"agent/nop": "NaN", "oracle/nop": "-Infinity"}
    assert benchmarks["huge"] == {"agent/nop": 1e30, "oracle/nop": "-Infinity"}
    assert benchmarks["half \ufffd name"] == "\ufffd"
    assert benchmarks["deep"] == {"agent/nop": [[None]], "oracle/nop": {"a": {"b": None}}}
    assert benchmarks["true"] == {"agent/nop": True}
    assert benchmarks["seconds"] == {"agent_s": [1.0, 2.0], "nop_s": 3}


def test_an_agent_never_gets_the_benchmarks_of_another_of_its_framework() -> None:
    text = a_log(result=a_result("terminus-2:openai/gpt-4"))
    assert "benchmarks" not in sections(text, GPT5, "terminus-2:openai/gpt-4")
    assert "benchmarks" in sections(text, "terminus-2:openai/gpt-4", GPT5)
    assert "benchmarks" not in sections(text, "openhands:openai/gpt-4")


def test_a_model_is_the_same_however_either_side_spells_it() -> None:
    kimi = "accounts/fireworks/models/kimi"
    assert "benchmarks" in sections(a_log(result=a_result("terminus-2:@openai/gpt-5")))
    assert "benchmarks" in sections(a_log(result=a_result(f"a:{kimi}")), f"a:fireworks/{kimi}")
    assert "benchmarks" in sections(a_log(result=a_result(f"a:fireworks/{kimi}")), f"a:{kimi}")
    assert "benchmarks" not in sections(a_log(result=a_result("terminus-2:gpt-5")), GPT5, "terminus-2:gpt-5")


def test_flat_speedups_are_the_last_agents_and_count_only_where_the_harness_counts_them() -> None:
    """B11: beside something that is not an object; neither beside an object nor beside nothing."""
    flat = {"m.g": {"agent/nop": 3.0, "oracle/nop": 1.0}}
    for by_agent, expected in ((None, flat), ([1], flat), ({}, None)):
        text = a_log(result=a_result(per_benchmark_speedups_by_agent=by_agent, per_benchmark_speedups=flat))
        assert sections(text).get("benchmarks") == expected
        assert "benchmarks" not in sections(text, "oracle:oracle")


def test_claims_are_kept_only_where_there_are_no_speedups() -> None:
    claims = {
        GPT5: {"agent_advantage": "0.25", "agent_advantage_level1": float("nan"), "total_benchmarks": "x"}
    }
    with_speedups = a_result(agent_advantages_by_agent=claims)
    without = with_speedups | {"per_benchmark_speedups_by_agent": {}}
    assert "claimed" not in sections(a_log(result=with_speedups))
    expected = {"agent_advantage": 0.25, "agent_advantage_level1": "NaN", "total_benchmarks": 0}
    assert sections(a_log(result=without))["claimed"] == expected
    assert sections(a_log(result=without), "nop:nop").get("claimed") is None


def test_the_old_format_is_the_mean_change_turned_round() -> None:
    def percentage(**entries: Any) -> float | None:
        return sections(a_log(result=entries)).get("speedup_percentage")

    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "+", "delta_pct": 4.0}) == 3.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "x", "delta_pct": 90}) == 10.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "-", "delta_pct": -101}) == 10.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "!", "delta_pct": 1}) == 0.0
    assert percentage(a={"change": "-", "delta_pct": None}) == 0.0
    assert percentage(a={"change": "-", "delta_pct": "-10"}) is None
    assert percentage(a=[1]) is None


def test_markers_count_anywhere_in_a_line_and_the_first_of_each_counts() -> None:
    whole = 'x FORMULACODE_TESTS_START{"passed": 1}FORMULACODE_TESTS_END y'
    assert sections(whole)["tests"]["status"] == "ok"
    assert sections("echo FORMULACODE_TESTS_END\n" + whole)["tests"] == {"status": "missing"}
    assert sections(whole.replace("{", "\r{\x85\n").replace("1", "1\u2028"))["tests"]["passed"] == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([GPT5, "error", "agent/nop", "delta_pct", "change", "passed"])
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
KEYS = (
    *("last_agent", "agent_advantage", "agent_advantage_level1", "agent_advantages_by_agent", "error"),
    *("per_benchmark_speedups", "per_benchmark_speedups_by_agent", "num_valid_benchmarks"),
    *("max_coverage_percent", "passed", "failed", "pass-to-fail", "total"),
)
objects = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=8)
pieces = st.one_of(
    st.sampled_from([f"FORMULACODE_{name}_{end}" for name in BLOCKS for end in ("START", "END")]),
    st.builds(a_block, st.sampled_from(BLOCKS), objects | json_values),
    st.text(max_size=20),
)


@examples(300)
@given(st.lists(pieces, max_size=8).map("".join), st.sampled_from([GPT5, "", ":", "terminus-2", "é:@x"]))
def test_no_text_raises_and_whatever_comes_out_is_a_valid_event(text: str, label: str) -> None:
    parsed = parse_log(text)
    assert isinstance(parsed, ParsedLog)
    assert set(sections(text, label)) <= {"tests", "snapshot", "benchmarks", "claimed", "speedup_percentage"}


HOSTILE: dict[str, Callable[[int], str]] = {
    "starts without an end": lambda size: "FORMULACODE_RESULT_START" * (size // 24),
    "halves of markers": lambda size: "FORMULACODE_" * (size // 12),
    "line breaks": lambda size: a_log(result="{" + "\n" * size + "}"),
    "digits": lambda size: a_log(result='{"agent_advantage": 0.' + "1" * size + "}"),
    "open brackets": lambda size: a_log(tests="[" * size),
    "objects in objects": lambda size: a_log(tests='{"a":' * (size // 5)),
    "backslashes": lambda size: a_log(result='"' + "\\" * size),
    "agents without speedups": lambda size: a_log(
        result='{"agent_advantage": null, "per_benchmark_speedups_by_agent": {'
        + ",".join(f'"{number}:m": 1' for number in range(size // 12))
        + "}}"
    ),
    "agents": lambda size: a_log(
        result='{"agent_advantage": 1, "per_benchmark_speedups_by_agent": {'
        + ",".join(f'"{number}:m": {{"f": {{}}}}' for number in range(size // 22))
        + "}}"
    ),
    "surrogates": lambda size: a_log(
        result='{"agent_advantage": 1, "per_benchmark_speedups_by_agent": {"a:b": {"'
        + "\\ud800" * (size // 6)
        + '": 1}}}'
    ),
    "old entries": lambda size: a_log(
        result="{" + ",".join(f'"{number}": {{"delta_pct": 1}}' for number in range(size // 24)) + "}"
    ),
}
SMALL, LARGE = 2**17, 2**20
NOISE_SECONDS = 0.005


def seconds(text: str) -> float:
    """Processor time of the fastest of three parses."""

    def once() -> float:
        start = time.process_time()
        sections_for(parse_log(text), Subject(GPT5))
        return time.process_time() - start

    return min(once() for _ in range(3))


@pytest.mark.parametrize("name", HOSTILE)
def test_eight_times_the_text_takes_nothing_like_64_times_the_time(name: str) -> None:
    small, large = (seconds(HOSTILE[name](size)) for size in (SMALL, LARGE))
    assert large < 32 * max(small, NOISE_SECONDS)
