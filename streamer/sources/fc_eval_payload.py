"""The measurements of one fc-eval result: its own numbers, before the harness put them through a fallback.

The harness keeps the JSON of each block as it read it (`tests_dict`, `snapshot_dict`, `improvements_dict`),
and only that is used here. The fields beside it have been through counts that get lost (B5), names that clash
(B7) and the fallback (B12, D7, D14). The fallback reaches into `improvements_dict` too: it writes over the
failed agent's entry and marks each benchmark with `fallback_to_baseline`. Then the pane has the numbers as
written, or the flat copy beside the entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import JsonValue

from streamer.schemas.decode import shown
from streamer.schemas.limits import MAX_RECORD_BYTES
from streamer.sources.agent_keys import Subject
from streamer.sources.base import Remark, Unreadable
from streamer.sources.fc_eval_layout import METRICS, POST_TEST_PANE
from streamer.sources.files import FileError, is_file, known, part, read_bytes
from streamer.sources.formulacode_blocks import (
    FALLBACK_MARK,
    ResultBlock,
    Section,
    read_result,
    read_snapshot,
    read_tests,
)
from streamer.sources.formulacode_log import (
    ParsedLog,
    benchmarks_of,
    is_last_agent,
    keys_of_others,
    parse_log,
    sections_for,
)

PARSE_ERROR = "parse_error"
"""Failure mode of a trial whose log the harness stumbled over (B4); ours does not."""

NOT_AMONG = "with speedups in the log but none of their own agent's, so they count without any"

UNREADABLE = "failed to parse JSON"
"""What the harness keeps as the `error` of a block that is no JSON, beside the `exception`."""

RATIOS = ("agent/nop", "oracle/nop")
_ROOM_FOR_BENCHMARKS = MAX_RECORD_BYTES - 128 * 1024

_KEYS_SHOWN = 8

BenchmarkFields = dict[str, JsonValue]


@dataclass(slots=True)
class Payload:
    """The measurements of one agent in a result.

    Attributes:
        agent: the agent's key.
        fields: tests, snapshot, benchmarks, claimed and speedup_percentage, as far as they are known.
        problems: what is lost, a sentence each.
        keys_of_others: keys of the log where it has benchmarks, but none of this agent's (R7).
    """

    agent: str
    fields: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    keys_of_others: tuple[str, ...] = ()


def left_open(file: Path, payload: Payload) -> Iterator[Unreadable | Remark]:
    """The lost parts of an agent's payload, or parts that stand in the log under other agents' keys."""
    yield from (Unreadable(file, problem) for problem in payload.problems)
    if keys := payload.keys_of_others:
        there = ", ".join(map(shown, keys[:_KEYS_SHOWN])) + (", ..." if len(keys) > _KEYS_SHOWN else "")
        yield Remark(file, NOT_AMONG, f"{shown(payload.agent)} is not among {there}")


def payload_of(result: Mapping[str, Any], directory: Path | None, subject: Subject) -> Payload:
    """The measurements of its agent in the result of a (sub-)trial.

    A trial whose log was never parsed (a test timeout, G7) has none of them, even if its pane shows
    whole blocks: the tests did not come to an end.

    Args:
        result: the trial as in its results.json.
        directory: of the trial; None if it has none.
        subject: the agent.
    """
    payload = Payload(subject.key)
    metrics = part(result, METRICS)
    if "tests" not in metrics and "improvements_dict" not in metrics:
        log = _pane_log(directory, payload.problems) if result.get("failure_mode") == PARSE_ERROR else None
        return _filled(payload, log, subject) if log else payload
    improvements = metrics.get("improvements_dict")
    written = read_result(improvements) if improvements is not None else None
    kept = None if written is None else benchmarks_of(written, subject)
    overwritten = _is_overwritten(kept, metrics)
    nulled = _has_null_oracles_alone(kept)
    has_blocks = {"improvements_dict", "tests_dict", "snapshot_dict"} <= known(metrics).keys()
    whole = has_blocks and not overwritten and not nulled
    log = None if whole else _pane_log(directory, payload.problems)
    in_pane = log.result if log else None
    if written is None or (nulled and in_pane and _say_the_same(kept, benchmarks_of(in_pane, subject))):
        written = in_pane
    elif overwritten:
        written = _as_before_the_fallback(written, log, subject, payload.problems)
    tests = _section(metrics.get("tests_dict"), read_tests, log.tests if log else None)
    snapshot = _section(metrics.get("snapshot_dict"), read_kept_snapshot, log.snapshot if log else None)
    return _filled(payload, ParsedLog(tests, snapshot, written), subject)


def _filled(payload: Payload, log: ParsedLog, subject: Subject) -> Payload:
    if log.result is not None:
        payload.keys_of_others = keys_of_others(log.result, subject)
    payload.fields = slim(sections_for(log, subject))
    return payload


def _section(block: Any, read: Callable[[Any], Section], in_pane: Section | None) -> Section:
    """A section from the block as the harness kept it, else from the pane, else missing."""
    if isinstance(block, dict) and block.get("error") == UNREADABLE and "exception" in block:
        return {"status": "unparsable"}  # (R5)
    return read(block) if block is not None else in_pane or {"status": "missing"}


def read_kept_snapshot(block: Any) -> Section:
    """The snapshot that the harness kept. A null there was NaN (D17), which passes (B6)."""
    if isinstance(block, dict) and block.get("pass-to-fail", 0) is None:
        block = block | {"pass-to-fail": math.nan}
    return read_snapshot(block)


def trajectory_length(metrics: Mapping[str, Any]) -> int | None:
    """Interactions of the agent, through int() as in the harness (D15); None for what is no number.

    A 0 that the harness wrote is a value (R1), though it writes one too when it finds no log.
    """
    try:
        return int(metrics.get("trajectory_length", ""))
    except (TypeError, ValueError, OverflowError):
        return None


def _pane_log(directory: Path | None, problems: list[str]) -> ParsedLog | None:
    """The log as the terminal showed it after the tests; None if there is none to read."""
    pane = directory / POST_TEST_PANE if directory else None
    if pane is None or not is_file(pane):
        return None
    try:
        return parse_log(read_bytes(pane).decode("utf-8", "replace"))
    except FileError as error:
        problems.append(f"{POST_TEST_PANE}: {error}")
        return None


def _is_overwritten(benchmarks: BenchmarkFields | None, metrics: Mapping[str, Any]) -> bool:
    """Whether an agent's benchmarks went through the fallback, which also drops what is no object (C1)."""
    if benchmarks is None:
        return False
    if not benchmarks:
        return metrics.get("pytest_failed") is True or metrics.get("snapshot_failed") is True
    return any(isinstance(entry, dict) and entry.get(FALLBACK_MARK) is True for entry in benchmarks.values())


def _has_null_oracles_alone(benchmarks: BenchmarkFields | None) -> bool:
    """Whether all oracle values are null: they were missing, or not finite (D17) and count (A2, R22)."""
    values = [
        entry["oracle/nop"]
        for entry in (benchmarks or {}).values()
        if isinstance(entry, dict) and "oracle/nop" in entry
    ]
    return bool(values) and all(value is None for value in values)


def _say_the_same(kept: BenchmarkFields | None, logged: BenchmarkFields | None) -> bool:
    """Whether both have the same values of the agent; one that is not finite was kept as null (D17)."""
    return _own_values(kept) == _own_values(logged)


def _own_values(benchmarks: BenchmarkFields | None) -> dict[str, Any]:
    values = {
        name: entry.get("agent/nop") if isinstance(entry, dict) else entry
        for name, entry in (benchmarks or {}).items()
    }
    return {name: None if isinstance(value, str) else value for name, value in values.items()}


def _as_before_the_fallback(
    written: ResultBlock, log: ParsedLog | None, subject: Subject, problems: list[str]
) -> ResultBlock:
    """The result with the agent's benchmarks as the log has them, or without any."""
    if log and log.result and benchmarks_of(log.result, subject) is not None:
        return log.result
    if not benchmarks_of(written, subject):
        return written
    flat = written.flat_benchmarks if is_last_agent(written, subject) else None
    if flat is None:
        problems.append(
            f"the speedups of {subject.key} stand in it only as the harness's fallback left them, and "
            f"{POST_TEST_PANE} does not have them; they are left out"
        )
    return replace(
        written, benchmarks_by_agent={subject.key: flat} if flat is not None else {}, claims_by_agent={}
    )


def slim(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections; of benchmarks that would not fit a record, the ratios alone."""
    benchmarks = sections.get("benchmarks")
    if benchmarks and len(orjson.dumps(benchmarks)) > _ROOM_FOR_BENCHMARKS:
        sections["benchmarks"] = {
            name: {key: entry[key] for key in RATIOS if key in entry} if isinstance(entry, dict) else None
            for name, entry in benchmarks.items()
        }
    return sections
