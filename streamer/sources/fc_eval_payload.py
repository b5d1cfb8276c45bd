"""The layout of fc-eval's files, and the agent of each result (semantics G1, G2, D4, E11).

<run>/                                   the run, named by its directory (G5)
  fc.lock (old runs: tb.lock)  run_metadata.json  results.json
  <task>/<task>.<attempt>-of-<n>.<run>/results.json, panes/post-test.txt, ...   a trial
  <task>/<task>.<attempt>-of-<n>.<run>.agent-<K>-<label>/...                    one agent of it, K from 1
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import JsonValue

from streamer.schemas.base import MAX_COUNT, MAX_RECORD_BYTES, UNKNOWN
from streamer.schemas.events import ADVANTAGES
from streamer.schemas.wire import shown
from streamer.sources.base import Remark, RunPlan, Unreadable
from streamer.sources.files import (
    ConfiguredAgent,
    FileError,
    Subject,
    is_directory,
    is_file,
    model_of,
    objects,
    own_key,
    part,
    peek,
    present,
    read_bytes,
    spelled_for_files,
    text,
)
from streamer.sources.terminal_bench import (
    FC_EVAL_LOCK,
    LOCK,
    METADATA,
    RESULTS,
    attempt_and_run,
    is_run_file,
    is_run_place,
    result_files,
)

POST_TEST_PANE = Path("panes", "post-test.txt")
PACKAGE = "fc-eval"
MULTI_AGENT = "multi-agent"
METRICS = "parser_extra_metrics"
"""The field that distinguishes fc-eval's trials from Terminal-Bench's (H1)."""

_SUB_TRIAL = re.compile(r"\.agent-([0-9]{1,9})-(.*)\Z", re.DOTALL)


class TrialName(NamedTuple):
    """The parts of a trial's name; `agent_index` counts from 1, and is None for the whole trial."""

    trial: str
    attempt: int
    run: str | None
    agent_index: int | None = None
    label: str = ""


def place(task_id: str, name: str, own_names: Collection[str]) -> TrialName:
    """The parts of a trial's name. Run names are passed in, because they may look like an agent's part.

    >>> place("a.b", "a.b.2-of-5.run1.agent-3-terminus-2", {"run1"})
    TrialName(trial='a.b.2-of-5.run1', attempt=2, run='run1', agent_index=3, label='terminus-2')
    >>> place("t", "t.1-of-1.my.agent-1-run", {"my.agent-1-run"})
    TrialName(trial='t.1-of-1.my.agent-1-run', attempt=1, run='my.agent-1-run', agent_index=None, label='')
    """
    attempt, rest = attempt_and_run(task_id, name)
    for own in sorted(own_names, key=len, reverse=True):
        if rest == own:
            return TrialName(name, attempt, rest)
        match = _SUB_TRIAL.match(rest, len(own)) if rest and rest.startswith(own) else None
        if match:
            break
    else:
        match = _SUB_TRIAL.search(rest or "")
    if rest is None or match is None:
        return TrialName(name, attempt, rest)
    return TrialName(name[: -len(match[0])], attempt, rest[: match.start()] or None, int(match[1]), match[2])


def is_fc_eval(path: Path) -> bool:
    if is_file(path):
        return is_run_file(path) and _entries_are_fc_evals(path)
    if is_file(path / FC_EVAL_LOCK):
        return True
    if not is_run_place(path):
        return False
    if part(peek(path / LOCK), "harness").get("package") == PACKAGE:
        return True
    results = filter(None, map(peek, result_files(path, None, sub_trials=True)))
    return METRICS in next(results, {}) or _entries_are_fc_evals(path / RESULTS)


def _entries_are_fc_evals(run_file: Path) -> bool:
    return any(METRICS in entry for entry in objects(peek(run_file), "results"))


def named_so(agent: ConfiguredAgent, label: str) -> bool:
    return label in (agent.label, spelled_for_files(agent.label))


def configured_agents(run: Path, plan: RunPlan) -> tuple[bool, list[ConfiguredAgent]]:
    """Whether several agents share a trial, and the agents in order (D4); [] if no file says."""
    home = run if is_directory(run) else run.parent
    has_lock = is_directory(run) or run.name == RESULTS
    lock = (peek(home / FC_EVAL_LOCK) or peek(home / LOCK)) if has_lock else {}
    names = (part(lock, "agent").get("name"), peek(home / METADATA).get("agent_name") if has_lock else None)
    multi = part(lock, "run_spec").get("agent_mode") == "multi" or MULTI_AGENT in names
    if not multi:
        return False, [ConfiguredAgent(plan.agent, plan.model)] if plan.agent else []
    configurations = (
        part(lock, "run_spec").get("agents")
        or part(part(lock, "agent"), "extra_kwargs").get("multi_agent_agents")
        or []
    )
    return True, [_agent(one) for one in configurations] if isinstance(configurations, list) else []


def _agent(configuration: Any) -> ConfiguredAgent:
    fields = configuration if isinstance(configuration, dict) else {}
    path = text(fields.get("agent_import_path"))
    label = text(fields.get("agent_name")) or (path.replace(":", ".") if path else None)
    return ConfiguredAgent(label or UNKNOWN, model_of(label or UNKNOWN, text(fields.get("model_name"))))


# -----------------------------------------------------------------------------
# Values from FormulaCode's JSON, made valid for events: counts, numbers, benchmarks as written.
#
# Python's reader accepts more JSON than an event allows: NaN and Infinity, integers of any size, half a
# surrogate pair, thousands of levels. Here each becomes the nearest valid value, or is left out.


_INT64 = 2**63
_KEPT_LEVELS = 3


def count(value: Any) -> int:
    """A count as the harness reads it: through int(), 0 for anything that is not a number (B5).

    It is limited to 2**53, with its sign. Infinity raises OverflowError, as in the harness (B4).

    >>> [count(value) for value in ("2", 0.9, None, float("nan"), "many", -2, True)]
    [2, 0, 0, 0, 0, -2, 1]
    """
    try:
        number = int(value)
    except (TypeError, ValueError):
        return 0
    return max(-MAX_COUNT, min(number, MAX_COUNT))


def number(value: Any) -> float | str:
    """A claimed number through float(), as in the harness (B4); infinity and NaN become text (R14)."""
    try:
        return _travelling(float(value))
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None


def raw_benchmarks(benchmarks: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Benchmarks as written, with non-finite numbers as text. Invalid entries stay and count (A1, A4).

    >>> raw_benchmarks({"f": {"agent/nop": float("inf")}, "g": "x"})
    {'f': {'agent/nop': 'Infinity'}, 'g': 'x'}
    """
    return {_text(name): _json(entry, _KEPT_LEVELS) for name, entry in benchmarks.items()}


def _json(value: Any, levels: int) -> JsonValue:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return value
    if isinstance(value, int | float):
        return _travelling(_float(value))
    if not levels:
        return None
    if isinstance(value, dict):
        return {_text(key): _json(item, levels - 1) for key, item in value.items()}
    return [_json(item, levels - 1) for item in value]


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _travelling(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# -----------------------------------------------------------------------------
# The meaning of the three JSON blocks of a FormulaCode log: TESTS (B5, R5), SNAPSHOT (B6, R6), RESULT (B9).
#
# Each function takes the JSON of its block in any shape, and never raises. If the harness cannot read a block
# (B4), the section fails.


Section = dict[str, Any]

FALLBACK_MARK = "fallback_to_baseline"
"""The harness's mark on numbers that its fallback has overwritten (C1)."""

_BENCHMARK_COUNTS = ("num_valid_benchmarks", "total_benchmarks")
TEST_COUNTS = ("passed", "failed", "error", "skipped", "total")
_SNAPSHOT_COUNTS = ("passed", "failed", "skipped", "total")
_BY_AGENT = "per_benchmark_speedups_by_agent"
_LARGEST_DELTA = 100
"""Percent of change above which the old format treats a benchmark as noise (B9)."""


def read_tests(block: Any) -> Section:
    """The `tests` section of a TESTS block: failed + error > 0 fails; a missing `error` means 0 (R5).

    A block without any count fails as unparsable, as in the harness (B5).

    >>> read_tests({"passed": 9, "failed": 0, "error": 1})
    {'status': 'failed', 'passed': 9, 'failed': 0, 'error': 1}
    """
    if not isinstance(block, dict) or not block.keys() & set(TEST_COUNTS):
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in TEST_COUNTS if name in block}
    except OverflowError:
        return {"status": "unparsable"}
    counts.setdefault("error", 0)
    failed = counts.get("failed", 0) + counts["error"] > 0
    return {"status": "failed" if failed else "ok", **counts}


def read_snapshot(block: Any) -> Section:
    """The `snapshot` section: an `error` key or `pass-to-fail` > 0 fails; `failed` is a count (B6, R6).

    >>> read_snapshot({"pass-to-fail": 0, "passed": 41, "failed": 2})
    {'status': 'passed', 'pass_to_fail': 0.0, 'passed': 41, 'failed': 2}
    """
    if not isinstance(block, dict):
        return {"status": "unparsable"}
    pass_to_fail = block.get("pass-to-fail", 0)
    if not isinstance(pass_to_fail, int | float):
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in _SNAPSHOT_COUNTS if name in block}
        moved = float(0 if math.isnan(pass_to_fail) else pass_to_fail)
    except OverflowError:
        return {"status": "unparsable"}
    if math.isinf(moved):
        return {"status": "failed", **counts}  # (B4)
    failed = "error" in block or moved > 0
    return {"status": "failed" if failed else "passed", "pass_to_fail": moved, **counts}


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """The contents of a RESULT block.

    `benchmarks_by_agent` is None for values of another type, so that the flat speedups count (B11).
    `last_agent` is the log's (B10). `claims` and `speedup_percentage` are claimed for that agent (B9).
    """

    last_agent: str | None = None
    benchmarks_by_agent: dict[str, dict[str, JsonValue]] | None = field(default_factory=dict)
    flat_benchmarks: dict[str, JsonValue] | None = None
    claims: dict[str, JsonValue] = field(default_factory=dict)
    claims_by_agent: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    speedup_percentage: float | None = None


def read_result(block: Any) -> ResultBlock:
    if not isinstance(block, dict) or not block or "error" in block:
        return ResultBlock()
    if "agent_advantage" not in block and _BY_AGENT not in block:
        return ResultBlock(speedup_percentage=_old_percentage(block))
    last_agent, flat = block.get("last_agent"), block.get("per_benchmark_speedups")
    claimed = block.get("agent_advantages_by_agent")
    return ResultBlock(
        last_agent=last_agent if isinstance(last_agent, str) and last_agent else None,
        benchmarks_by_agent=_by_agent(block.get(_BY_AGENT, {})),
        flat_benchmarks=raw_benchmarks(flat) if isinstance(flat, dict) else None,
        claims=_claims(block),
        claims_by_agent={
            label: _claims(claims)
            for label, claims in (claimed.items() if isinstance(claimed, dict) else ())
            if isinstance(claims, dict)
        },
    )


def _by_agent(by_agent: Any) -> dict[str, dict[str, JsonValue]] | None:
    if not isinstance(by_agent, dict):
        return None
    return {
        label: raw_benchmarks(benchmarks)
        for label, benchmarks in by_agent.items()
        if isinstance(benchmarks, dict)
    }


def _claims(block: Mapping[str, Any]) -> dict[str, JsonValue]:
    claims: dict[str, JsonValue] = {}
    if block.get(FALLBACK_MARK) is True:
        return claims
    for name in ADVANTAGES:
        if name in block:
            with suppress(ValueError):
                claims[name] = number(block[name])
    for name in _BENCHMARK_COUNTS:
        if name in block:
            with suppress(OverflowError):
                claims[name] = count(block[name])
    return claims


def _old_percentage(block: Mapping[str, Any]) -> float | None:
    """-mean(delta) of the kept benchmarks; 0.0 without benchmarks, or if one is marked "!" (B9)."""
    kept: list[tuple[Any, float]] = []
    for entry in block.values():
        delta = entry.get("delta_pct") if isinstance(entry, dict) else ""
        if delta is not None and not isinstance(delta, int | float):
            return None
        if delta is not None and abs(delta) <= _LARGEST_DELTA and entry.get("change") != "x":
            kept.append((entry.get("change"), delta))
    if not kept or any(change == "!" for change, _ in kept):
        return 0.0
    return -math.fsum(delta for _, delta in kept) / len(kept)


# -----------------------------------------------------------------------------
# FormulaCode's log text -> the sections of a trial's event (B1-B11, R3, R5-R7).
#
# The text holds up to three blocks of JSON, each between `FORMULACODE_<X>_START` and `_END`. No text makes it
# raise: missing or malformed sections fail. It takes time linear in the length of the text.


@dataclass(frozen=True, slots=True)
class ParsedLog:
    tests: Section
    snapshot: Section
    result: ResultBlock | None


def parse_log(text: str) -> ParsedLog:
    r"""The sections of a log's text.

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
    """The fields of an agent's `trial_result` from a log; `claimed` only without benchmarks (R3)."""
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
    return present(sections)


def benchmarks_of(result: ResultBlock, subject: Subject) -> dict[str, JsonValue] | None:
    """Benchmarks of exactly this agent, or the flat ones if it is the last and no agent has its own (B11)."""
    if result.benchmarks_by_agent is None:
        return result.flat_benchmarks if is_last_agent(result, subject) else None
    key = own_key(result.benchmarks_by_agent, subject, result.last_agent)
    return None if key is None else result.benchmarks_by_agent[key]


def keys_of_others(result: ResultBlock, subject: Subject) -> tuple[str, ...]:
    """The keys of a result with benchmarks, but without this agent's (R7); else empty."""
    if benchmarks_of(result, subject) is not None:
        return ()
    if result.benchmarks_by_agent is not None:
        return tuple(key for key, benchmarks in result.benchmarks_by_agent.items() if benchmarks)
    return (result.last_agent,) if result.flat_benchmarks and result.last_agent else ()


def is_last_agent(result: ResultBlock, subject: Subject) -> bool:
    return result.last_agent is not None and own_key([result.last_agent], subject) is not None


@dataclass(frozen=True, slots=True)
class _NoBlock:
    status: str


def _failed(block: Any) -> Section | None:
    return {"status": block.status} if isinstance(block, _NoBlock) else None


def _block(text: str, name: str) -> Any:
    """JSON between the first START and the first END of a block, with its lines joined (B1, B2)."""
    opening = f"FORMULACODE_{name}_START"
    start, end = text.find(opening), text.find(f"FORMULACODE_{name}_END")
    if start < 0 or end <= start:
        return _NoBlock("missing")
    inner = "".join(text[start + len(opening) : end].strip().splitlines())
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        return _NoBlock("unparsable")


# -----------------------------------------------------------------------------
# The measurements of one fc-eval result: its own numbers, before the harness's fallback.
#
# The harness keeps the JSON of each block as it read it (`tests_dict`, `snapshot_dict`, `improvements_dict`),
# and only that is used here. The other fields are affected by lost counts (B5), clashing names (B7) and the
# fallback (B12, D7, D14). The fallback changes `improvements_dict`, too: it overwrites the failed agent's
# entry and marks each benchmark with `fallback_to_baseline`. Then the pane, or the flat copy beside the
# entry, has the original numbers.


PARSE_ERROR = "parse_error"
"""Failure mode of a trial whose log stopped the harness's parser (B4); ours continues."""

NOT_AMONG = "with speedups in the log but none of their own agent's, so they count without any"

UNREADABLE = "failed to parse JSON"

RATIOS = ("agent/nop", "oracle/nop")
_ROOM_FOR_BENCHMARKS = MAX_RECORD_BYTES - 128 * 1024

_KEYS_SHOWN = 8

BenchmarkFields = dict[str, JsonValue]


@dataclass(slots=True)
class Payload:
    """The measurements of one agent in a result; `problems` lists losses."""

    agent: str
    fields: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    keys_of_others: tuple[str, ...] = ()


def left_open(file: Path, payload: Payload) -> Iterator[Unreadable | Remark]:
    yield from (Unreadable(file, problem) for problem in payload.problems)
    if keys := payload.keys_of_others:
        there = ", ".join(map(shown, keys[:_KEYS_SHOWN])) + (", ..." if len(keys) > _KEYS_SHOWN else "")
        yield Remark(file, NOT_AMONG, f"{shown(payload.agent)} is not among {there}")


def payload_of(result: Mapping[str, Any], directory: Path | None, subject: Subject) -> Payload:
    """The measurements of an agent in the result of a (sub-)trial.

    They are missing if the log was never parsed (a test timeout, G7), even if the pane shows whole blocks,
    because the tests did not end.
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
    has_blocks = {"improvements_dict", "tests_dict", "snapshot_dict"} <= present(metrics).keys()
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
    if isinstance(block, dict) and block.get("error") == UNREADABLE and "exception" in block:
        return {"status": "unparsable"}  # (R5)
    return read(block) if block is not None else in_pane or {"status": "missing"}


def read_kept_snapshot(block: Any) -> Section:
    """The snapshot that the harness kept. A null there was NaN (D17), which passes (B6)."""
    if isinstance(block, dict) and block.get("pass-to-fail", 0) is None:
        block = block | {"pass-to-fail": math.nan}
    return read_snapshot(block)


def trajectory_length(metrics: Mapping[str, Any]) -> int | None:
    """Interactions of the agent, by int() as in the harness (D15), None if that fails; 0 is a value (R1)."""
    try:
        return int(metrics.get("trajectory_length", ""))
    except (TypeError, ValueError, OverflowError):
        return None


def _pane_log(directory: Path | None, problems: list[str]) -> ParsedLog | None:
    pane = directory / POST_TEST_PANE if directory else None
    if pane is None or not is_file(pane):
        return None
    try:
        return parse_log(read_bytes(pane).decode("utf-8", "replace"))
    except FileError as error:
        problems.append(f"{POST_TEST_PANE}: {error}")
        return None


def _is_overwritten(benchmarks: BenchmarkFields | None, metrics: Mapping[str, Any]) -> bool:
    """Whether an agent's benchmarks went through the fallback, which also drops non-objects (C1)."""
    if benchmarks is None:
        return False
    if not benchmarks:
        return metrics.get("pytest_failed") is True or metrics.get("snapshot_failed") is True
    return any(isinstance(entry, dict) and entry.get(FALLBACK_MARK) is True for entry in benchmarks.values())


def _has_null_oracles_alone(benchmarks: BenchmarkFields | None) -> bool:
    """Whether all oracle values are null: missing, or not finite (D17), which still counts (A2, R22)."""
    values = [
        entry["oracle/nop"]
        for entry in (benchmarks or {}).values()
        if isinstance(entry, dict) and "oracle/nop" in entry
    ]
    return bool(values) and all(value is None for value in values)


def _say_the_same(kept: BenchmarkFields | None, logged: BenchmarkFields | None) -> bool:
    """Whether both have the same values of the agent; a value that is not finite became null (D17)."""
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
    if log and log.result and benchmarks_of(log.result, subject) is not None:
        return log.result
    if not benchmarks_of(written, subject):
        return written
    flat = written.flat_benchmarks if is_last_agent(written, subject) else None
    if flat is None:
        problems.append(
            f"the speedups of {subject.key} were replaced by the harness's fallback, and {POST_TEST_PANE} "
            "does not have them, so they are left out"
        )
    return replace(
        written, benchmarks_by_agent={subject.key: flat} if flat is not None else {}, claims_by_agent={}
    )


def slim(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections, with only the ratios of benchmarks that are too large for a record."""
    benchmarks = sections.get("benchmarks")
    if benchmarks and len(orjson.dumps(benchmarks)) > _ROOM_FOR_BENCHMARKS:
        sections["benchmarks"] = {
            name: {key: entry[key] for key in RATIOS if key in entry} if isinstance(entry, dict) else None
            for name, entry in benchmarks.items()
        }
    return sections
