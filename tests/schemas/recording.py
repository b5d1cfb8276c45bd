"""Writes a recording: bytes of every event and message as this version has them, and what they come to.

    python -m tests.schemas.recording NAME

makes tests/schemas/recorded/NAME/, which must not exist yet. See test_wire.py for when that is right.
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamer.folding.fold import Folding, Pipeline, fold_records
from streamer.schemas.base import SEMANTICS_VERSION, canonical_json, sha256_hex
from streamer.schemas.events import known_content
from streamer.schemas.wire import Reason, Record, decode, records_of_lines
from tests.schemas.examples import FULL_PLAN, FULL_SCORE, FULL_START, FULL_TRIAL, GOOD_EVENTS, published

RECORDED = Path(__file__).parent / "recorded"
EVENTS, DIGESTS = "events.ndjson", "digests.json"
SUMMARIES, MESSAGES = "summaries.ndjson.gz", "messages.ndjson"

Event = dict[str, Any]

TIMES = (
    "2026-01-31T09:30:00Z",
    "2026-01-31t11:30:00.125+02:00",
    "2026-01-31 09:30:00-00:00",
    "2024-02-29T23:59:59.999999z",
)
ODD_LINES = (
    b'{ "type" : "trial_result",\t"run_id": "bytes", "task_id": "white space" }',
    b'{"type":"trial_result","run_id":"bytes","task_id":"\\u0061\\ud83d\\ude00 \xc3\xa9"}',
    b'{"type":"trial_result","run_id":"bytes","task_id":"twice","resolved":false,"resolved":true}',
    b'{"type":"trial_result","run_id":"bytes","task_id":"numbers","cost_usd":1e-3,"score":1,"duration_seconds":1E+2}',
    b'{"type":"trial_result","run_id":"bytes","task_id":"deep","tomorrow":[[[{"a":[1,2.5,null,true]}]]]}',
    b'{"type":"run_started","run_id":"bytes","tasks":0,"labels":{},"tiers":[]}',
)


def event_content(event: Event) -> dict[str, Any]:
    """The content of an event as JSON has it: times as text."""
    content: dict[str, Any] = json.loads(canonical_json(known_content(event.__dict__)))
    return content


def lines() -> list[bytes]:
    """Events of every type: with each field alone, with all, with none; and runs as harnesses publish."""
    events = [*_fields_alone(), *_examples(), *_a_tiered_run(), *_formulacode(), *_corrections()]
    return [*(json.dumps(event, ensure_ascii=False).encode() for event in events), *ODD_LINES]


def fold(recorded: list[bytes]) -> Folding:
    """What the lines come to."""
    return fold_records(records_of_lines(recorded))


def meaning(line: bytes) -> str:
    """Digest of what one event says: its known fields that are not at their default."""
    event = decode(line)
    assert not isinstance(event, Reason), f"{event.message} {line!r}"
    return sha256_hex(canonical_json(event_content(event) | {"schema_version": event.schema_version}))


def digests(recorded: list[bytes]) -> dict[str, Any]:
    """Digests of what each line says, and the version of the semantics that the summaries follow."""
    return {"semantics_version": SEMANTICS_VERSION, "events": [meaning(line) for line in recorded]}


def summaries(recorded: list[bytes]) -> list[bytes]:
    """Every summary and every scored trial that the lines come to."""
    pipeline = Pipeline()
    pipeline.fold(Record(line, number) for number, line in enumerate(recorded))
    result = []
    for run_id in sorted(run_id for run_id in pipeline.runs() if pipeline.run(run_id).state.exists):
        cut = pipeline.run(run_id).take_changes()
        result += [change.value for change in (*cut.summaries, *cut.scored) if change.value is not None]
    return sorted(result)


def _fields_alone() -> Iterator[Event]:
    """Each optional field by itself, and null where that may stand."""
    slot = {"type": "trial_result", "run_id": "alone"}
    for name in sorted(FULL_TRIAL.keys() - slot.keys() - {"task_id"}):
        yield slot | {"task_id": f"with {name}", name: FULL_TRIAL[name]}
    nullable = FULL_TRIAL.keys() - slot.keys() - {"task_id", "schema_version", "shard", "attempt", "revision"}
    for name in sorted(nullable):
        yield slot | {"task_id": f"null {name}", name: None}
    for name in sorted(FULL_PLAN.keys() - {"type", "run_id"}):
        yield {"type": "run_started", "run_id": f"plan with {name}", name: FULL_PLAN[name]}
    start = {"type": "trial_started", "run_id": "alone"}
    for name in sorted(FULL_START.keys() - start.keys() - {"task_id"}):
        yield start | {"task_id": f"started with {name}", name: FULL_START[name]}
    yield FULL_START | {"run_id": "alone"}
    for name in sorted(FULL_SCORE.keys() - {"type", "run_id", "task_id"}):
        late = {"type": "trial_scored", "run_id": "alone", "task_id": f"scored with {name}"}
        yield slot | {"task_id": late["task_id"]}
        yield late | {name: FULL_SCORE[name]}
    for number, time in enumerate(TIMES):
        yield slot | {"task_id": f"time {number}", "finished_at": time}
    yield {"type": "run_finished", "run_id": "alone"}
    end = {"type": "run_finished", "run_id": "alone", "finished_at": TIMES[1], "revision": 5}
    yield end | {"status": "done", "more": 1}


def _examples() -> Iterator[Event]:
    for number, event in enumerate(GOOD_EVENTS.values()):
        yield event | {"run_id": f"example {number}"}


def _a_tiered_run() -> Iterator[Event]:
    """As ProjectScylla: tiers, subtests, judges, costs; some without a verdict, one agent without a name."""
    run = {"run_id": "tiered"}
    yield (
        FULL_PLAN | run | {"tasks": ["t1", "t2", "t3"], "agent_models": ["claude-code:sonnet", "codex:gpt-5"]}
    )
    places = itertools.product(
        ("t1", "t2"), (1, 2), ("claude-code", "codex", None), ("T0", "T1"), ("00", "01")
    )
    for number, (task, attempt, agent, tier, subtest) in enumerate(places):
        model = "anthropic/claude-sonnet-4-20250514" if agent == "claude-code" else "gpt-5"
        yield (
            run
            | {"type": "trial_result", "task_id": task, "attempt": attempt, "agent": agent, "model": model}
            | {"tier": tier, "subtest": subtest, "resolved": (True, False, None)[number % 3]}
            | {"failure_mode": ("unset", "agent_timeout")[number % 2], "score": number % 11 / 10}
            | {"input_tokens": 1_000 * number, "output_tokens": 10 * number, "cache_read_tokens": number}
            | {"duration_seconds": 0.1 * number, "finished_at": f"2026-01-31T09:30:{number:02}Z"}
            | {"trajectory_length": number}
            | ({"cost_usd": number / 7} if number % 4 else {})
        )
    yield run | {"type": "run_finished", "finished_at": TIMES[0], "status": "finished"}


def _formulacode() -> Iterator[Event]:
    """Trial groups with oracle and nop, speedups as ratios and as seconds, logs without speedups."""
    run = {"type": "trial_result", "run_id": "formulacode", "task_id": "repo-1"}
    seconds = {"agent_s": [0.5, 0.25, 1.0], "nop_s": 1.5, "oracle_s": [0.125, 0.25]}
    ratios, none = {"agent/nop": 0.75, "oracle/nop": 0.5}, {"agent/nop": "NaN", "oracle/nop": "Infinity"}
    suite = {"a.time_x": ratios, "b.time_y": seconds, "c": none}
    tests = {"status": "ok", "passed": 9, "failed": 1, "error": 0, "skipped": 2, "total": 12}
    snapshot = {"status": "passed", "passed": 3, "failed": 0, "skipped": 0, "total": 3, "pass_to_fail": 0.0}
    for index, agent in enumerate(("nop", "oracle", "terminus", "openhands"), 1):
        who = {"agent": agent, "model": "gpt-5" if index > 2 else None, "agent_index": index}
        yield run | who | {"tests": tests, "snapshot": snapshot, "benchmarks": suite}
    alone = run | {"task_id": "repo-2", "agent": "terminus", "model": "gpt-5"}
    yield alone | {"benchmarks": {f"bench {number}": ratios for number in range(40)}, "tests": tests}
    yield alone | {"attempt": 2, "claimed": {"agent_advantage": -0.25, "per_level_agg_ratio": {"1": 1.5}}}
    yield alone | {"attempt": 3, "speedup_percentage": 12.5, "tests": {"status": "missing"}}


def _corrections() -> Iterator[Event]:
    """Revisions, a retraction, a deletion, and shards that share a slot's name."""
    slot = {"type": "trial_result", "run_id": "corrected", "task_id": "t"}
    yield slot | {"revision": 5, "resolved": False}
    yield slot | {"revision": 7, "resolved": True}
    yield slot | {"revision": 6, "resolved": False, "finished_at": TIMES[0]}
    yield slot | {"shard": "a/b", "resolved": True}
    yield slot | {"shard": "gone", "revision": 3, "resolved": True}
    yield {"type": "trial_retracted", "run_id": "corrected", "task_id": "t", "shard": "gone", "revision": 3}
    place = {"task_id": "u", "attempt": 2, "agent": "a", "model": "m", "tier": "T1", "subtest": "01"}
    yield {"type": "trial_result", "run_id": "corrected", "revision": 4, "resolved": True} | place
    yield {"type": "trial_retracted", "run_id": "corrected", "revision": 4, "reason": "why"} | place
    yield {"type": "trial_retracted", "run_id": "corrected", "task_id": "never filled", "revision": 1}
    yield {"type": "trial_result", "run_id": "deleted", "task_id": "t", "revision": 1}
    yield {"type": "run_deleted", "run_id": "deleted", "revision": 2}
    yield {"type": "trial_result", "run_id": "deleted", "task_id": "later", "revision": 3, "resolved": True}


def write(directory: Path) -> None:
    """Make a recording.

    Raises:
        FileExistsError: there is one of that name: recordings are added, never changed.
    """
    directory.mkdir(parents=True)
    recorded = lines()
    (directory / EVENTS).write_bytes(b"".join(line + b"\n" for line in recorded))
    (directory / MESSAGES).write_bytes(b"".join(canonical_json(message) + b"\n" for message in published()))
    with gzip.GzipFile(directory / SUMMARIES, "wb", mtime=0) as packed:
        packed.write(b"".join(summary + b"\n" for summary in summaries(recorded)))
    text = json.dumps(digests(recorded), indent=1, sort_keys=True, ensure_ascii=False)
    (directory / DIGESTS).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(RECORDED / sys.argv[1])
