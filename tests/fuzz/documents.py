"""Documents to break: recorded and simulated ones, and real ones where the folder of real data is."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path

from streamer.schemas.base import canonical_json
from streamer.schemas.wire import Reason, decode
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from tests.conformance.fc_runs import unpacked
from tests.schemas.recording import EVENTS, RECORDED
from tests.sources.harbor import unpack_jobs
from tests.support.data import shared_data
from tests.support.formulacode_cases import cases
from tests.support.layouts import simulate_run
from tests.support.simulated import simulate

START = datetime(2026, 1, 2, tzinfo=UTC)
TRIALS = 3
"""Of a simulated run, and the most entries that are kept of a real directory."""

LARGEST_BYTES = 64 * 1024
REAL_EVENTS = 400


@cache
def events() -> list[bytes]:
    """Lines of NDJSON: every type of event, and those of simulated and real harnesses; few that are none."""
    result = [
        line for path in sorted(RECORDED.glob(f"*/{EVENTS}")) for line in path.read_bytes().splitlines()
    ]
    result += simulate(seed=3, start=START)
    good = [line for line in result + _real_events() if not isinstance(decode(line), Reason)]
    return good + [line for line in result if isinstance(decode(line), Reason)]


def _real_events() -> list[bytes]:
    options = ConvertOptions()
    data = shared_data()
    paths = [data / "scylla" / "dryrun", *sorted((data / "terminal_bench" / "runs").glob("*"))[:2]]
    converted = convert(paths, options, ConvertReport())
    return [canonical_json(event) for event in islice(converted, REAL_EVENTS)]


def run_directories(layout: str, folder: Path) -> list[Path]:
    simulated = folder / f"simulated-{layout}"
    simulate_run(layout, simulated, TRIALS, seed=5, start=START)
    return [simulated, *(_small(path, folder / f"real-{path.name}") for path in _real(layout, folder))]


def _real(layout: str, folder: Path) -> list[Path]:
    if layout == "harbor":
        return [unpack_jobs(folder / "unpacked-jobs") / "kinds"]
    if layout == "terminal-bench":
        return sorted((shared_data() / "terminal_bench" / "runs").iterdir())[:2]
    if layout == "scylla":
        return [shared_data() / "scylla" / "dryrun"]
    return sorted(path.parent for path in unpacked(folder / "unpacked-fc-eval").rglob("fc.lock"))[:3]


def _small(source: Path, target: Path) -> Path:
    """A copy with few entries in each directory and without large files."""
    target.mkdir(parents=True)
    for entry in [path for path in sorted(source.iterdir()) if path.is_dir()][:TRIALS]:
        _small(entry, target / entry.name)
    for entry in source.iterdir():
        if entry.is_file() and entry.stat().st_size <= LARGEST_BYTES:
            shutil.copy2(entry, target / entry.name)
    return target


@cache
def agent_logs() -> list[bytes]:
    step = {"prompt": "p", "completion_tokens": 7, "response": {"usage": {}}}
    steps = [{"step": number, "prompt_tokens": 100 * number} | step for number in range(6)]
    made = [_json(steps), _json([]), _json(steps[::-1]), _json({"steps": steps})]
    return [*_real_files("agent-logs/*.json", 40), *made]


@cache
def casts() -> list[bytes]:
    lines = [_json({"version": 2, "width": 80, "height": 24})]
    lines += [_json([number / 10, "o", f"line {number}\r\n"]) for number in range(20)]
    return [*_real_files("sessions/*.cast", 20), b"\n".join(lines), b"\n".join(lines[:1])]


@cache
def formulacode_logs() -> list[bytes]:
    result = {
        "last_agent": "a:m",
        "agent_advantage": 0.25,
        "per_benchmark_speedups": {"b": {"agent/nop": 0.5}},
    }
    blocks = {
        b"TESTS": {"passed": 3, "failed": 0, "error": 0, "skipped": 1, "total": 4},
        b"SNAPSHOT": {"passed": 1, "failed": 0, "total": 1},
        b"RESULT": result,
    }
    form = b"noise\nFORMULACODE_%s_START\n%s\nFORMULACODE_%s_END\n"
    text = b"".join(form % (name, _json(block), name) for name, block in blocks.items())
    real = (case.input["text"].encode("utf-8", "replace") for case in cases("parse"))
    return [text, *(log for log in real if len(log) <= LARGEST_BYTES)]


def _real_files(pattern: str, most: int) -> list[bytes]:
    result = (
        path for path in sorted(shared_data().rglob(pattern)) if 0 < path.stat().st_size <= LARGEST_BYTES
    )
    return [path.read_bytes() for path in islice(result, most)]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
