"""What each command loads: packages that it does not use stay out, and modules are counted."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules

import pytest

from streamer import statistics
from streamer.operate.local.processes import free_port

HEAVY = {
    *("aiokafka", "apprise", "cramjam", "faust", "genai_prices", "matplotlib", "numpy"),
    *("prometheus_client", "pyarrow", "pydantic", "redis", "rich", "rocksdict", "sse_starlette", "starlette"),
    *("textual", "uvicorn", "watchfiles"),
}
"""Packages that take a tenth of a second or bring much; a command may load those that it uses."""

PROGRAM = (
    "import atexit, json, sys; from pathlib import Path; found = Path(sys.argv.pop(1)); "
    "atexit.register(lambda: found.write_text(json.dumps(sorted(sys.modules)))); "
    "from streamer.terminal import main; main()"
)
"""The program itself, which writes down at its end what it has loaded."""

LINE = '{"type": "trial_result", "run_id": "r", "task_id": "t", "agent": "a", "model": "m"}\n'


@dataclass(frozen=True)
class Start:
    """One command.

    Attributes:
        arguments: of the command; `{kafka}` and `{redis}` stand for addresses where no server answers,
            `{taken}` for a port that another program has.
        uses: the heavy packages that it may load.
        most: so many modules at most, a tenth above what was counted.
        code: how it ends.
    """

    arguments: str
    uses: frozenset[str]
    most: int
    code: int = 0


EVENTS = frozenset({"pydantic"})
FOLD = EVENTS | {"numpy", "cramjam"}
KAFKA = EVENTS | {"aiokafka", "cramjam"}
REDIS = EVENTS | {"redis"}

STARTS = [
    Start("--help", frozenset(), 145),
    Start("shuffle tasks.txt --seed nightly", EVENTS, 400),
    Start("fold events.ndjson", FOLD, 545),
    Start("fold events.ndjson --json", FOLD, 540),
    Start("query runs --redis {redis}", REDIS, 505, code=1),
    Start("query run r --redis {redis}", REDIS, 505, code=1),
    Start("subscribe run --bootstrap {kafka}", KAFKA, 500, code=1),
    Start("status --bootstrap {kafka} --redis {redis}", KAFKA | REDIS, 565, code=1),
    Start("up --data . --port {taken}", KAFKA, 525, code=1),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.arguments)
def test_a_command_loads_only_what_it_uses(start: Start, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text(LINE)
    (tmp_path / "tasks.txt").write_text("fix-git\nplay-zork\n")
    kafka, redis = f"127.0.0.1:{free_port()}", f"redis://127.0.0.1:{free_port()}/0"
    found = tmp_path / "modules.json"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        arguments = start.arguments.format(kafka=kafka, redis=redis, taken=taken).split()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(found), *arguments],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == start.code, done.stderr
    modules = json.loads(found.read_text())
    loaded = {name.partition(".")[0] for name in modules} & HEAVY
    assert loaded - start.uses == set()
    assert len(modules) <= start.most, f"{len(modules)} modules"


@pytest.mark.parametrize(
    "module", sorted({info.name for info in iter_modules(statistics.__path__)} - {"distribution"})
)
def test_readers_of_the_base_can_import_the_inference(module: str) -> None:
    """The base has neither numpy nor anything else of the extra `local`."""
    program = f"import json, sys, streamer.statistics.{module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    modules = set(json.loads(done.stdout))
    assert f"streamer.statistics.{module}" in modules
    assert {name.partition(".")[0] for name in modules} & HEAVY <= EVENTS
