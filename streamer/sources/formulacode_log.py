"""FormulaCode's log text -> the sections of a trial's event (B1-B11, R3, R5-R7).

The text holds up to three blocks of JSON, each between `FORMULACODE_<X>_START` and `_END`. Whatever it
holds, nothing raises: what is missing or malformed fails and is named in the reasons. The time it
takes is linear in the length of the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from streamer.score.model_names import model_for_reporting
from streamer.sources.files import known
from streamer.sources.formulacode_blocks import (
    Result,
    Section,
    read_result,
    read_snapshot,
    read_tests,
)


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """What a log says.

    Attributes:
        tests: the `tests` field of the event.
        snapshot: its `snapshot` field.
        result: speedups and claims, by agent; None if there is no readable RESULT block.
        reasons: what is missing or malformed, a phrase each.
    """

    tests: Section
    snapshot: Section
    result: Result | None
    reasons: tuple[str, ...]

    @property
    def pytest_failed(self) -> bool:
        """Whether the test suite failed, without regard to the oracle (B7)."""
        return bool(self.tests["status"] != "ok")

    @property
    def snapshot_failed(self) -> bool:
        """Whether the snapshot comparison failed (B7)."""
        return bool(self.snapshot["status"] != "passed")


def parse_log(text: str) -> ParsedLog:
    r"""Sections of a log text.

    >>> log = parse_log('FORMULACODE_TESTS_START\n{"passed": 1, "failed": 0}\nFORMULACODE_TESTS_END')
    >>> log.tests
    {'status': 'ok', 'passed': 1, 'failed': 0, 'error': 0}
    >>> log.snapshot
    {'status': 'missing'}
    """
    reasons: list[str] = []
    result_block = _block(text, "RESULT", reasons)
    tests_block = _block(text, "TESTS", reasons)
    snapshot_block = _block(text, "SNAPSHOT", reasons)
    return ParsedLog(
        tests=_failed(tests_block) or read_tests(tests_block, reasons),
        snapshot=_failed(snapshot_block) or read_snapshot(snapshot_block, reasons),
        result=None if isinstance(result_block, _NoBlock) else read_result(result_block, reasons),
        reasons=tuple(reasons),
    )


def sections_for(parsed: ParsedLog, agent_label: str) -> dict[str, Any]:
    """The fields of a `trial_result` that the log gives for one agent: what it does not say is left out.

    `benchmarks` are those under exactly the agent's key, models normalised for reporting on both
    sides (R7, E10), never another agent's. `claimed` is there only beside no benchmarks (R3).

    Args:
        parsed: the log.
        agent_label: `agent:model` as the harness writes it (D4).
    """
    fields = {"tests": parsed.tests, "snapshot": parsed.snapshot}
    return known(fields | (agent_sections(parsed.result, agent_label) if parsed.result else {}))


def agent_sections(result: Result, agent_label: str) -> dict[str, Any]:
    """The part of :func:`sections_for` that comes from RESULT; None for what it does not say."""
    benchmarks = benchmarks_of(result, agent_label)
    claims = _of_agent(result.claims_by_agent, agent_label)
    if claims is None and same_agent(result.last_agent, agent_label):
        claims = result.claims
    return {
        "benchmarks": benchmarks,
        "claimed": None if benchmarks else claims or None,
        "speedup_percentage": result.speedup_percentage,
    }


def benchmarks_of(result: Result, agent_label: str) -> dict[str, JsonValue] | None:
    """Benchmarks of exactly this agent; the flat ones if there are none by agent and it is the last (B11)."""
    if result.benchmarks_by_agent is not None:
        return _of_agent(result.benchmarks_by_agent, agent_label)
    return result.flat_benchmarks if same_agent(result.last_agent, agent_label) else None


def label_for_reporting(label: str) -> str:
    """The label with its model normalised for reporting (E10).

    >>> label_for_reporting("terminus-2:@openai/gpt-5")
    'terminus-2:openai/gpt-5'
    """
    agent, colon, model = label.partition(":")
    return agent + colon + model_for_reporting(model)


def same_agent(label: str | None, other: str) -> bool:
    """Whether two keys are one agent's (R7, E10)."""
    return label is not None and label_for_reporting(label) == label_for_reporting(other)


def _of_agent(by_agent: Mapping[str, dict[str, JsonValue]], agent_label: str) -> dict[str, JsonValue] | None:
    """What stands under the agent's key; under the key as spelt if two spellings are the same agent."""
    if agent_label in by_agent:
        return by_agent[agent_label]
    return next((found for label, found in by_agent.items() if same_agent(label, agent_label)), None)


@dataclass(frozen=True, slots=True)
class _NoBlock:
    status: str


def _failed(block: Any) -> Section | None:
    return {"status": block.status} if isinstance(block, _NoBlock) else None


def _block(text: str, name: str, reasons: list[str]) -> Any:
    """JSON between the first START and the first END of a block, lines joined without a break (B1, B2)."""
    opening = f"FORMULACODE_{name}_START"
    start, end = text.find(opening), text.find(f"FORMULACODE_{name}_END")
    if start < 0 or end <= start:
        reasons.append(f"{name}: no {opening} with its _END after it")
        return _NoBlock("missing")
    inner = "".join(text[start + len(opening) : end].strip().splitlines())
    try:
        return json.loads(inner)
    except (ValueError, RecursionError) as error:
        reasons.append(f"{name}: not JSON: {error}")
        return _NoBlock("unparsable")
