"""FormulaCode's log text -> the sections of a trial's event (B1-B11, R3, R5-R7).

The text holds up to three blocks of JSON, each between `FORMULACODE_<X>_START` and `_END`. Whatever it
holds, nothing raises: what is missing or malformed fails. The time it takes is linear in the length of the
text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from streamer.sources.agent_keys import Subject, own_key
from streamer.sources.files import known
from streamer.sources.formulacode_blocks import (
    ResultBlock,
    Section,
    read_result,
    read_snapshot,
    read_tests,
)


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """The contents of a log.

    Attributes:
        tests: the `tests` field of the event.
        snapshot: its `snapshot` field.
        result: speedups and claims, by agent; None if there is no readable RESULT block.
    """

    tests: Section
    snapshot: Section
    result: ResultBlock | None


def parse_log(text: str) -> ParsedLog:
    r"""Sections of a log text.

    >>> log = parse_log('FORMULACODE_TESTS_START\n{"passed": 1, "failed": 0}\nFORMULACODE_TESTS_END')
    >>> log.tests
    {'status': 'ok', 'passed': 1, 'failed': 0, 'error': 0}
    >>> log.snapshot
    {'status': 'missing'}
    """
    tests, snapshot, result = (_block(text, name) for name in ("TESTS", "SNAPSHOT", "RESULT"))
    return ParsedLog(
        tests=_failed(tests) or read_tests(tests),
        snapshot=_failed(snapshot) or read_snapshot(snapshot),
        result=None if isinstance(result, _NoBlock) else read_result(result),
    )


def sections_for(log: ParsedLog, subject: Subject) -> dict[str, Any]:
    """The fields of a `trial_result` that a log gives for one agent: what it does not say is left out.

    `benchmarks` are those under the agent's own key (R7), never another agent's. `claimed` is there only
    beside no benchmarks (R3).
    """
    sections: dict[str, Any] = {"tests": log.tests, "snapshot": log.snapshot}
    if (result := log.result) is not None:
        benchmarks = benchmarks_of(result, subject)
        key = own_key(result.claims_by_agent, subject, result.last_agent)
        claims = result.claims_by_agent[key] if key is not None else None
        if claims is None and is_last_agent(result, subject):
            claims = result.claims
        sections |= {
            "benchmarks": benchmarks,
            "claimed": None if benchmarks else claims or None,
            "speedup_percentage": result.speedup_percentage,
        }
    return known(sections)


def benchmarks_of(result: ResultBlock, subject: Subject) -> dict[str, JsonValue] | None:
    """Benchmarks of exactly this agent; the flat ones if there are none by agent and it is the last (B11)."""
    if result.benchmarks_by_agent is None:
        return result.flat_benchmarks if is_last_agent(result, subject) else None
    key = own_key(result.benchmarks_by_agent, subject, result.last_agent)
    return None if key is None else result.benchmarks_by_agent[key]


def keys_of_others(result: ResultBlock, subject: Subject) -> tuple[str, ...]:
    """The keys of a result that has benchmarks, but none of this agent's (R7); empty otherwise."""
    if benchmarks_of(result, subject) is not None:
        return ()
    if result.benchmarks_by_agent is not None:
        return tuple(key for key, benchmarks in result.benchmarks_by_agent.items() if benchmarks)
    return (result.last_agent,) if result.flat_benchmarks and result.last_agent else ()


def is_last_agent(result: ResultBlock, subject: Subject) -> bool:
    """Whether the result's last agent is this one (R7)."""
    return result.last_agent is not None and own_key([result.last_agent], subject) is not None


@dataclass(frozen=True, slots=True)
class _NoBlock:
    status: str


def _failed(block: Any) -> Section | None:
    return {"status": block.status} if isinstance(block, _NoBlock) else None


def _block(text: str, name: str) -> Any:
    """JSON between the first START and the first END of a block, lines joined without a break (B1, B2)."""
    opening = f"FORMULACODE_{name}_START"
    start, end = text.find(opening), text.find(f"FORMULACODE_{name}_END")
    if start < 0 or end <= start:
        return _NoBlock("missing")
    inner = "".join(text[start + len(opening) : end].strip().splitlines())
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        return _NoBlock("unparsable")
