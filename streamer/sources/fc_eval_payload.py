"""What one result of fc-eval measured: its own numbers, before the harness put them through a fallback.

The harness keeps the JSON of each block as it read it (`tests_dict`, `snapshot_dict`,
`improvements_dict`), and only that is used here: the fields beside it have been through counts that
get lost (B5), names that clash (B7) and the fallback (B12, D7, D14). The fallback reaches into
`improvements_dict` too: it writes over the failed agent's entry and marks each benchmark with
`fallback_to_baseline`. Then the pane has the numbers as written, or the flat copy beside the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import JsonValue

from schemas.limits import MAX_RECORD_BYTES
from streamer.sources.fc_eval_layout import METRICS, POST_TEST_PANE
from streamer.sources.files import FileError, is_file, known, part, read_bytes
from streamer.sources.formulacode_blocks import Result, Section, read_result, read_snapshot, read_tests
from streamer.sources.formulacode_log import (
    ParsedLog,
    agent_sections,
    benchmarks_of,
    parse_log,
    same_agent,
    sections_for,
)

PARSE_ERROR = "parse_error"
"""Failure mode of a trial whose log the harness stumbled over (B4); ours does not."""

FALLBACK_MARK = "fallback_to_baseline"
_RATIOS = ("agent/nop", "oracle/nop")
_ROOM_FOR_BENCHMARKS = MAX_RECORD_BYTES - 128 * 1024

Benchmarks = dict[str, JsonValue]


def sections_of(
    result: Mapping[str, Any], directory: Path | None, label: str, problems: list[str]
) -> dict[str, Any]:
    """The fields tests, snapshot, benchmarks, claimed and speedup_percentage of a (sub-)trial.

    A trial whose log was never parsed (a test timeout, G7) has none of them, even if its pane shows
    whole blocks: the tests did not come to an end.

    Args:
        result: the trial as in its results.json.
        directory: of the trial; None if it has none.
        label: the agent's key (D4).
        problems: told what is lost.
    """
    metrics = part(result, METRICS)
    if "tests" not in metrics and "improvements_dict" not in metrics:
        log = _pane_log(directory, problems) if result.get("failure_mode") == PARSE_ERROR else None
        return _slim(sections_for(log, label)) if log else {}
    improvements = metrics.get("improvements_dict")
    written = read_result(improvements, []) if improvements is not None else None
    overwritten = written is not None and _is_overwritten(benchmarks_of(written, label), metrics)
    whole = (
        written is not None and not overwritten and {"tests_dict", "snapshot_dict"} <= known(metrics).keys()
    )
    log = None if whole else _pane_log(directory, problems)
    if written is None:
        written = log.result if log else None
    elif overwritten:
        written = _as_before_the_fallback(written, log, label, problems)
    sections = {
        "tests": _section(metrics.get("tests_dict"), read_tests, log.tests if log else None),
        "snapshot": _section(metrics.get("snapshot_dict"), read_snapshot, log.snapshot if log else None),
    }
    return _slim(known(sections | (agent_sections(written, label) if written else {})))


def _section(block: Any, read: Callable[[Any, list[str]], Section], in_pane: Section | None) -> Section:
    """A section from the block as the harness kept it, else from the pane, else missing."""
    return read(block, []) if block is not None else in_pane or {"status": "missing"}


def reported_cost(result: Mapping[str, Any]) -> Any:
    """The reported cost; 0.0 beside tokens is what the harness writes when it does not know (R2)."""
    cost = result.get("total_cost")
    tokens = (result.get("total_input_tokens"), result.get("total_output_tokens"))
    return None if cost == 0 and any(isinstance(count, int) and count > 0 for count in tokens) else cost


def trajectory_length(result: Mapping[str, Any]) -> int | None:
    """Interactions of the agent, through int() as in the harness (D15); None for what is no number.

    A 0 that the harness wrote is a value (R1), though it writes one too when it finds no log.
    """
    try:
        return int(part(result, METRICS).get("trajectory_length", ""))
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


def _is_overwritten(benchmarks: Benchmarks | None, metrics: Mapping[str, Any]) -> bool:
    """Whether an agent's benchmarks went through the fallback, which also drops what is no object (C1)."""
    if benchmarks is None:
        return False
    if not benchmarks:
        return metrics.get("pytest_failed") is True or metrics.get("snapshot_failed") is True
    return any(isinstance(entry, dict) and entry.get(FALLBACK_MARK) is True for entry in benchmarks.values())


def _as_before_the_fallback(
    written: Result, log: ParsedLog | None, label: str, problems: list[str]
) -> Result:
    """The result with the agent's benchmarks as the log has them, or without any."""
    if log and log.result and benchmarks_of(log.result, label) is not None:
        return log.result
    if not benchmarks_of(written, label):
        return written
    flat = written.flat_benchmarks if same_agent(written.last_agent, label) else None
    if flat is None:
        problems.append(
            f"the speedups of {label} stand in it only as the harness's fallback left them, and "
            f"{POST_TEST_PANE} does not have them; they are left out"
        )
    return replace(written, benchmarks_by_agent={label: flat} if flat is not None else {}, claims_by_agent={})


def _slim(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections; of benchmarks that would not fit a record, the ratios alone."""
    benchmarks = sections.get("benchmarks")
    if benchmarks and len(orjson.dumps(benchmarks)) > _ROOM_FOR_BENCHMARKS:
        sections["benchmarks"] = {
            name: {key: entry[key] for key in _RATIOS if key in entry} if isinstance(entry, dict) else None
            for name, entry in benchmarks.items()
        }
    return sections
