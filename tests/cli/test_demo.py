"""The demo: it ends well, and leaves the right files and nothing else."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Folding, fold_records
from streamer.schemas.wire import digest_of, records_of_lines
from streamer.terminal.demo import RUN
from tests.embedded.stack import descendants, runs
from tests.support.cli import COMMAND, streamer
from tests.support.data import shared_data
from tests.support.worker_process import wait_for

SECONDS = 120
Key = tuple[str, str, str | None, str | None]


def digests_of(summaries: list[dict[str, Any]]) -> dict[Key, str]:
    """Place of each summary -> digest, recomputed from the summary."""
    return {(s["type"], s["run_id"], s.get("tier"), s.get("agent_model")): digest_of(s) for s in summaries}


def folded(file: Path) -> Folding:
    with file.open("rb") as lines:
        return fold_records(records_of_lines(lines))


def check_output(out: Path, done: subprocess.CompletedProcess[bytes]) -> Folding:
    """What holds after every demo: exit code 0, equal digests, plain text."""
    assert done.returncode == 0, done.stdout + done.stderr
    folding = folded(out / "events.ndjson")
    summaries = orjson.loads((out / "summaries.json").read_bytes())
    assert digests_of(summaries) == digests_of([change.summary or {} for change in folding.summaries()])
    assert all(summary["digest"] == digest_of(summary) for summary in summaries)
    for run_id in folding.runs():
        assert f"{run_id}: equal, ".encode() in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    return folding


@pytest.mark.stack
def test_the_demo_leaves_events_and_summaries_that_agree(tmp_path: Path) -> None:
    elsewhere = {
        "STREAMER_BOOTSTRAP": "127.0.0.1:1",
        "STREAMER_REDIS": "redis://127.0.0.1:1",
        "STREAMER_NAMESPACE": "x",
    }
    done = streamer("demo", "--fast", cwd=tmp_path, environment=elsewhere)
    folding = check_output(tmp_path / "demo-out", done)
    assert folding.runs() == [RUN]
    assert b"Rejected, as they do not fit the schema: 3 events" in done.stdout
    assert b"streamer publish demo-out/events.ndjson" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-out"]


@pytest.mark.slow
def test_the_demo_streams_a_directory_of_real_results(tmp_path: Path) -> None:
    data = shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5"
    done = streamer("demo", "--fast", "--data", data, "--out", tmp_path)
    folding = check_output(tmp_path, done)
    assert folding.rejected == 0
    assert b"terminal-bench-core" in done.stdout


@pytest.mark.stack
def test_a_directory_without_results_is_said_at_once(tmp_path: Path) -> None:
    done = streamer("demo", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no run of a known harness found" in done.stderr


@pytest.mark.stack
def test_ctrl_c_on_the_terminal_ends_everything_that_the_demo_started(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    process = subprocess.Popen(
        [*COMMAND, "demo"], stdout=slave, stderr=slave, cwd=tmp_path, env=clean | {"TERM": "xterm"}
    )
    os.close(slave)
    seen = bytearray()

    def shows_a_board() -> bool:
        try:
            seen.extend(os.read(master, 65536))
        except OSError:  # Linux: the other side is closed
            raise AssertionError(f"the demo ended by itself: {bytes(seen)!r}") from None
        return b" are done" in seen and b"leads: pass rate" in seen

    try:
        wait_for(shows_a_board, "the board is shown", SECONDS)
        below = descendants(process.pid)
        assert any("streamer.worker" in command for command in below.values())
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            try:
                seen.extend(os.read(master, 65536))
            except OSError:  # Linux: the other side is closed
                break
        assert process.wait(SECONDS) == 130
        wait_for(lambda: not [pid for pid in below if runs(pid)], f"the end of all of {below}", SECONDS)
        assert b"streamer: interrupted" in seen
    finally:
        process.kill()
        process.wait()
        os.close(master)
