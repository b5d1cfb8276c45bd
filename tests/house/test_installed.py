"""From the wheel, in new virtual environments and away from the checkout: what each extra promises."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from streamer.operate.local.processes import free_port
from streamer.terminal import PACKAGES
from tests.fuzz.live.seeds import a_seed
from tests.operate import killed_archive
from tests.operate.killed_archive import STEPS
from tests.support.installation import Installation, bare_environment, build_wheel, install
from tests.support.worker_process import wait_for

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]

MOST_PACKAGES_OF_THE_BASE = 19
MOST_MEGABYTES_OF_THE_BASE = 28
START_SECONDS = 60

TRIAL = {"type": "trial_result", "run_id": "nightly", "agent": "a", "model": "m"}
EVENTS: list[dict[str, Any]] = [
    {"type": "run_started", "run_id": "nightly", "tasks": 2, "attempts": 1},
    *(TRIAL | {"task_id": task, "resolved": resolved} for task, resolved in (("one", True), ("two", False))),
]

HARNESS = """
from schemas import OURS
from streamer.client import StateReader, TrialPublisher, finished

assert OURS
with TrialPublisher() as publisher:
    publisher.publish({"type": "run_started", "run_id": "from-base", "tasks": 1, "attempts": 1})
    publisher.trial(run_id="from-base", task_id="one", agent="a", model="m", resolved=True)
with StateReader() as reader:
    print(reader.wait_for("from-base", finished, timeout_seconds=30).resolved)
"""
"""A harness with a package `schemas` of its own, which an installed one would hide."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "installed"
    folder.mkdir(exist_ok=True)
    return folder


def installed(shared: Path, extra: str | None) -> Installation:
    """The environment with that extra; the first test that asks for it makes it."""
    with FileLock(shared / "lock"):
        if not (shared / "wheel").exists():
            (shared / "wheel").mkdir()
            build_wheel(shared / "wheel")
        [wheel] = (shared / "wheel").glob("*.whl")
        there = Installation(shared / (extra or "base"))
        return there if there.program("streamer").exists() else install(there.folder, wheel, extra)


@pytest.fixture(scope="module")
def base(shared: Path) -> Installation:
    return installed(shared, None)


@pytest.fixture(scope="module")
def local(shared: Path) -> Installation:
    return installed(shared, "local")


@contextmanager
def running(there: Installation, home: Path, *command: str) -> Iterator[Path]:
    """A command that stays, until the block ends, by Ctrl-C; gives the file of its output."""
    output, program = home / f"{command[0]}.txt", str(there.program("streamer"))
    with output.open("wb") as out:
        bare = bare_environment(home)
        process = subprocess.Popen([program, *command], cwd=home, env=bare, stdout=out, stderr=out)
    try:
        yield output
        assert process.poll() is None, output.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(START_SECONDS) in (0, 130), output.read_text()
    finally:
        process.kill()
        process.wait()


@contextmanager
def a_stack(there: Installation, home: Path) -> Iterator[None]:
    with running(there, home, "up", "--ephemeral", "--no-web") as output:
        wait_for(lambda: "streamer is up" in output.read_text(), "the stack", START_SECONDS)
        yield


def with_events(home: Path, events: Iterable[object] = EVENTS) -> None:
    (home / "events.ndjson").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def test_the_base_is_small_and_has_nothing_of_the_extras(base: Installation) -> None:
    assert len(base.packages) <= MOST_PACKAGES_OF_THE_BASE, sorted(base.packages)
    assert base.bytes_installed(bytecode=False) < MOST_MEGABYTES_OF_THE_BASE * 1_000_000
    there = {name.lower().replace("-", "_") for name in base.packages}
    assert there.isdisjoint(set().union(*PACKAGES.values()) | {"faust_streaming"})


def test_the_base_names_what_to_install(base: Installation, tmp_path: Path) -> None:
    command, bare = [str(base.program("trialstream")), "fold"], bare_environment(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "streamer: streamer fold needs an extra: pip install 'trialstream[local]'\n"


def test_fold_and_report_need_no_server(local: Installation, tmp_path: Path) -> None:
    with_events(tmp_path)
    folded = local.run("streamer", "fold", "events.ndjson", "--json", cwd=tmp_path)
    kinds = [json.loads(line)["type"] for line in folded.stdout.splitlines()]
    assert sorted(kinds) == ["agent_model_summary", "run_summary"]
    for form in ("md", "html", "csv", "json"):
        options = ("nightly", "--from", "events.ndjson", "--out", f"nightly.{form}")
        local.run("streamer", "report", *options, cwd=tmp_path)
        assert (tmp_path / f"nightly.{form}").stat().st_size > 100


def test_a_harness_with_the_base_and_its_own_schemas_meets_a_stack_of_local(
    base: Installation, local: Installation, tmp_path: Path
) -> None:
    harness = tmp_path / "harness"
    (harness / "schemas").mkdir(parents=True)
    (harness / "schemas" / "__init__.py").write_text("OURS = True\n")
    (harness / "run.py").write_text(HARNESS)
    with_events(tmp_path)
    port = free_port()
    with a_stack(local, tmp_path):
        environment = {"HOME": str(tmp_path)}
        assert base.run("python", "run.py", cwd=harness, environment=environment).stdout == "1\n"
        base.run("streamer", "publish", "events.ndjson", cwd=tmp_path)
        wait_for(lambda: "nightly" in base.run("streamer", "query", "runs", cwd=tmp_path).stdout, "the run")
        base.run("streamer", "status", cwd=tmp_path)
        assert "a:m" in base.run("streamer", "query", "trials", "nightly", cwd=tmp_path).stdout
        local.run("streamer", "query", "tiers", "nightly", "--by", "subtest", cwd=tmp_path)
        local.run("streamer", "report", "nightly", "--out", "nightly.md", cwd=tmp_path)
        with running(local, tmp_path, "serve", "--port", str(port)) as page:
            wait_for(lambda: f":{port}/" in page.read_text(), "the page", START_SECONDS)
            for path, part in (("", b"<script"), ("api/runs", b"nightly")):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
                    assert part in answer.read()


@pytest.mark.in_turn(3)
def test_a_killed_archive_is_ended_by_the_next_try(local: Installation, tmp_path: Path) -> None:
    """At some steps, which another commit changes; tests/operate/test_archive.py has each."""
    steps = STEPS[a_seed() % 4 :: 4]
    shutil.copyfile(killed_archive.__file__, tmp_path / "killed.py")
    runs = [f"run-{number}" for number, _ in enumerate(steps)]
    ended = [*EVENTS, {"type": "run_finished", "run_id": "nightly"}]
    with_events(tmp_path, (event | {"run_id": run} for run in runs for event in ended))
    with a_stack(local, tmp_path):
        local.run("streamer", "publish", "events.ndjson", cwd=tmp_path)
        for run, step in zip(runs, steps, strict=True):
            local.run("streamer", "verify", run, "--wait", "30", cwd=tmp_path)
            local.run("streamer", "bundle", run, "before.tar", cwd=tmp_path)
            command = [str(local.program("python")), "killed.py", "archive", run]
            here = bare_environment(tmp_path) | {"KILLED_AT": step}
            killed = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, timeout=60)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            local.run("streamer", "archive", run, cwd=tmp_path)
            assert (tmp_path / f"{run}.tar").read_bytes() == (tmp_path / "before.tar").read_bytes()
            log = local.run("streamer", "events", run, cwd=tmp_path).stdout
            assert log.count("run_deleted") == 1
        assert "run-" not in local.run("streamer", "query", "runs", cwd=tmp_path).stdout
    with a_stack(local, tmp_path):
        for run in runs:
            local.run("streamer", "restore", f"{run}.tar", cwd=tmp_path)
            assert "a:m" in local.run("streamer", "query", "trials", run, cwd=tmp_path).stdout


NOTEBOOK = """
import json
from pathlib import Path
from typing import Any
from streamer.client import frames

trials = frames.trials("nightly").arrow
assert trials["task_id"].to_pylist() == frames.trials(Path("events.ndjson")).arrow["task_id"].to_pylist()
agents = frames.agents("nightly").arrow.to_pylist()
print(json.dumps([trials.num_rows, [(one["agent_model"], one["accuracy"]) for one in agents]]))
"""

TOOLS = """
import asyncio, sys
from mcp import StdioServerParameters
from mcp.client.client import Client

async def ask():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env={"HOME": sys.argv[2], "PATH": ""})
    async with Client(server) as client:
        result = await client.call_tool("agents", {"run": "nightly"})
        assert not result.is_error, result.content
        print(result.structured_content["items"][0]["agent_model"])

asyncio.run(ask())
"""


@pytest.mark.in_turn(3)
def test_what_needs_more_extras_works_from_the_wheel(shared: Path, tmp_path: Path) -> None:
    there = installed(shared, "local,mcp,report")
    plan = EVENTS[0] | {"tasks": ["one", "two", "three"]}
    with_events(tmp_path, [plan, *EVENTS[1:]])
    with a_stack(there, tmp_path):
        there.run("streamer", "publish", "events.ndjson", cwd=tmp_path)
        asking = ("streamer", "query", "unfinished", "nightly", "--for", "json")
        agents = ("streamer", "query", "agents", "nightly")
        wait_for(lambda: "a:m" in there.run(*agents, cwd=tmp_path).stdout, "it")
        assert '"three"' in there.run(*asking, cwd=tmp_path).stdout
        said = there.run("streamer", "export", "results", cwd=tmp_path).stdout
        assert "1 run written" in said
        assert list((tmp_path / "results" / "current" / "trials").rglob("rows.parquet"))
        for form in ("junit", "every-eval-ever"):
            said = there.run("streamer", "export", form, "--format", form, cwd=tmp_path).stdout
            assert not said.startswith("0 files"), said
        printed = there.run("python", "-c", NOTEBOOK, cwd=tmp_path).stdout
        assert json.loads(printed) == [2, [["a:m", 0.5]]]
        program = there.program("streamer")
        assert there.run("python", "-c", TOOLS, program, tmp_path, cwd=tmp_path).stdout == "a:m\n"


def test_live_shows_a_board_with_local_alone(local: Installation, tmp_path: Path) -> None:
    local.run("streamer", "simulate", "--out", "nightly", "--trials", "6", cwd=tmp_path)
    with running(local, tmp_path, "live", "--ephemeral", "nightly") as output:
        wait_for(lambda: "nightly: 6 of" in output.read_text(), "the board", START_SECONDS)
