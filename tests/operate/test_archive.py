"""A finished run goes into a file and out of the stack, whatever kills the command, and back elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client.folded import RunLog, fold_run
from streamer.folding.prices import PriceTable
from streamer.operate.bundle import MANIFEST, Contents, is_event
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.wire import LogRecord, Position, time_of
from streamer.storage.entries import Keys
from tests.operate.killed_archive import STEPS
from tests.operate.test_bundle import changed
from tests.operate.verifying import a_run, client, publish, verdict_of
from tests.support.cli import COMMAND
from tests.support.events import Event, a_trial
from tests.support.online import Online, online
from tests.support.worker_process import wait_for
from tests.terminal.calling import call, settled, the_run
from tests.views.test_ledger import BASE, entered

PRICES = PriceTable.default()


def a_finished_run(run_id: str, **plan: Any) -> list[Event]:
    named = {"type": "run_started", "run_id": run_id, "revision": 1, "labels": {"team": "x"}, **plan}
    return [*a_run(run_id), named, {"type": "run_finished", "run_id": run_id, "status": "completed"}]


def log_of(stack: Online, run_id: str) -> list[LogRecord]:
    return [one for one in RunLog(stack.settings, run_id).records() if is_event(one, run_id)]


def deletions(stack: Online, run_id: str) -> list[Event]:
    events = [orjson.loads(one.value or b"") for one in log_of(stack, run_id)]
    return [event for event in events if event["type"] == "run_deleted"]


def published(stack: Online, events: list[Event], *run_ids: str) -> None:
    publish(stack.settings, events)
    for run_id in run_ids:
        settled(stack, run_id)


def bundle_of(stack: Online, run_id: str, tmp_path: Path) -> bytes:
    """What the archive has to be: the bundle of the run before it was archived."""
    file = tmp_path / "bundle.tar"
    assert call(stack, "bundle", run_id, file).returncode == 0
    return file.read_bytes()


def digests_of(stack: Online, run_id: str, as_of: Position | None = None) -> list[str | None]:
    run = fold_run(stack.settings, run_id, PRICES, as_of).run
    return [change.digest for change in run.summaries()]


@pytest.fixture
def elsewhere(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    """A second stack with a worker."""
    with online(tmp_path_factory.mktemp("elsewhere"), engine[1], engine[0], worker=True) as result:
        yield result


# -----------------------------------------------------------------------------
# There and back: a run moves from one stack to another.


def test_a_run_moves_to_another_stack_with_its_bytes_times_and_revisions(
    stack: Online, elsewhere: Online, tmp_path: Path
) -> None:
    events = a_finished_run("moved/1")
    published(stack, events[:31], "moved/1")
    published(stack, events[31:], "moved/1")
    before, digests = log_of(stack, "moved/1"), digests_of(stack, "moved/1")
    moment = time_of(before[30])
    then = digests_of(stack, "moved/1", Position(at=moment))
    bundle = bundle_of(stack, "moved/1", tmp_path)
    out = tmp_path / "archive.tar"
    done = call(stack, "archive", "moved/1", out)
    assert (done.returncode, done.stderr.decode()) == (0, f"moved/1: archived in {out}\n")
    assert out.read_bytes() == bundle
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    [deletion] = deletions(stack, "moved/1")
    assert deletion["revision"] > 10**18
    assert the_run(stack, "moved/1") == {}

    done = call(elsewhere, "restore", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode() == (
        f"moved/1: restored, {len(before)} events; Redis says the same as archive.tar\n"
    )
    after = log_of(elsewhere, "moved/1")
    assert [(one.value, one.timestamp, one.key) for one in after] == [
        (one.value, one.timestamp, one.key) for one in before
    ]
    assert verdict_of(elsewhere.settings, "moved/1").outcome == "equal"
    assert digests_of(elsewhere, "moved/1") == digests
    assert digests_of(elsewhere, "moved/1", Position(at=moment)) == then != digests
    again = call(elsewhere, "restore", out)
    assert (again.returncode, len(log_of(elsewhere, "moved/1"))) == (0, len(before))


def test_who_still_knows_the_run_does_not_bring_it_back(stack: Online, tmp_path: Path) -> None:
    events = a_finished_run("known")
    published(stack, events, "known")
    assert call(stack, "archive", "known", tmp_path / "known.tar").returncode == 0
    publish(stack.settings, events)
    settled(stack, "known")
    assert the_run(stack, "known") == {}
    again = call(stack, "archive", "known", tmp_path / "known.tar")
    assert (again.returncode, b"was archived before" in again.stderr) == (0, True)
    assert len(deletions(stack, "known")) == 1


def test_a_tail_that_still_has_the_files_does_not_bring_it_back(stack: Online, tmp_path: Path) -> None:
    """The one that runs on, one that starts again, and one without a journal of what it has sent."""
    job = tmp_path / "tailed"
    assert call(stack, "simulate", "--out", job, "--trials", 6).returncode == 0
    environment = os.environ | stack.environment | {"HOME": str(tmp_path / "home")}
    running = subprocess.Popen([*COMMAND, "tail", str(job)], env=environment, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: the_run(stack, "tailed").get("state") == "complete", "the run", 60)
        settled(stack, "tailed")
        archived = call(stack, "archive", "tailed", tmp_path / "tailed.tar")
        assert archived.returncode == 0, archived.stderr
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    for home in ("home", "another"):
        again = [*COMMAND, "tail", "--once", str(job)]
        env = environment | {"HOME": str(tmp_path / home)}
        done = subprocess.run(again, env=env, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
    settled(stack, "tailed")
    [deletion] = deletions(stack, "tailed")
    events = [orjson.loads(one.value or b"") for one in log_of(stack, "tailed")]
    assert events[-1]["type"] != "run_deleted"
    assert max(event["revision"] for event in events) == deletion["revision"]
    assert the_run(stack, "tailed") == {}


# -----------------------------------------------------------------------------
# Killed at each step, and run again: the same file and one deletion.


def killed(stack: Online, step: str, *arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.operate.killed_archive", *map(str, arguments)],
        env=os.environ | stack.environment | {"KILLED_AT": step},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def assert_archived_once(stack: Online, run_id: str, out: Path, bundle: bytes) -> None:
    assert out.read_bytes() == bundle
    assert len(deletions(stack, run_id)) == 1
    assert sorted(file.name for file in out.parent.iterdir()) == sorted({out.name, "bundle.tar"})
    settled(stack, run_id)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_an_archive_that_was_killed_is_made_by_the_next_try(stack: Online, step: str, tmp_path: Path) -> None:
    run_id = f"killed at {step}"
    published(stack, a_finished_run(run_id), run_id)
    bundle, out = bundle_of(stack, run_id, tmp_path), tmp_path / "out.tar"
    killed(stack, step, "archive", run_id, out)
    done = call(stack, "archive", run_id, out)
    assert done.returncode == 0, done.stderr
    assert_archived_once(stack, run_id, out, bundle)
    assert the_run(stack, run_id) == {}
    assert call(stack, "archive", run_id, out).returncode == 0
    assert_archived_once(stack, run_id, out, bundle)


@pytest.mark.timeout(300)
def test_a_run_keeps_its_lines_in_its_ledger_though_it_was_killed_before_they_were_sent(
    stack: Online, tmp_path: Path
) -> None:
    """Inference 8a: `c` passes 14 of 20 tasks, its baseline `base` 4; the verdict outlives the run."""
    ended = [{"type": "run_finished", "run_id": run} for run in ("base", "c")]
    published(stack, [*BASE, *entered("c", 4, range(14)), *ended], "base", "c")
    before = orjson.loads(call(stack, "ledger", "nightly", "--json").stdout)
    refused = call(stack, "archive", "base", tmp_path / "base.tar")
    assert (refused.returncode, b"base is the baseline of ledger nightly" in refused.stderr) == (1, True)
    assert deletions(stack, "base") == []
    assert list(tmp_path.iterdir()) == []
    bundle, out = bundle_of(stack, "c", tmp_path), tmp_path / "c.tar"
    killed(stack, "_send:after:1", "archive", "c", out)
    done = call(stack, "archive", "c", out)
    assert done.returncode == 0, done.stderr
    assert_archived_once(stack, "c", out, bundle)
    assert orjson.loads(call(stack, "ledger", "nightly", "--json").stdout) == before
    assert (the_run(stack, "c")["trials"], the_run(stack, "c")["status"]) == (0, "archived")
    assert call(stack, "archive", "c", out).returncode == 0
    assert len(deletions(stack, "c")) == 1


def test_what_came_between_comparison_and_deletion_is_in_the_file(stack: Online, tmp_path: Path) -> None:
    run_id, out = "late", tmp_path / "late.tar"
    published(stack, a_finished_run(run_id), run_id)
    killed(stack, "_note:after:1", "archive", run_id, out)
    [note] = tmp_path.glob(".late.tar.deletion")
    late = a_trial(run_id=run_id, task_id="t3", attempt=9)
    publish(stack.settings, [late, orjson.loads(note.read_bytes())])
    done = call(stack, "archive", run_id, out)
    assert done.returncode == 0, done.stderr
    with out.open("rb") as file:
        last = [orjson.loads(record.value or b"") for record in Contents(file).records()][-1]
    assert last == late
    assert call(stack, "check", out).returncode == 0


def test_a_redis_that_has_lost_the_run_makes_no_archive_done(stack: Online, tmp_path: Path) -> None:
    run_id, out = "lost in redis", tmp_path / "out.tar"
    published(stack, a_finished_run(run_id), run_id)
    killed(stack, "_place:after:1", "archive", run_id, out)
    client(stack).flushall()
    done = call(stack, "archive", run_id, out)
    assert len(deletions(stack, run_id)) == (done.returncode == 0), done.stderr
    if done.returncode:
        wait_for(lambda: the_run(stack, run_id), "the run in Redis again", 60)
    settled(stack, run_id)
    assert call(stack, "archive", run_id, out).returncode == 0
    assert len(deletions(stack, run_id)) == 1


# -----------------------------------------------------------------------------
# What stays, and what is refused.


def test_a_run_that_goes_on_stays(stack: Online, tmp_path: Path) -> None:
    published(stack, a_finished_run("goes on", tasks=400)[:-1], "goes on")
    done = call(stack, "archive", "goes on", tmp_path / "out.tar")
    assert (done.returncode, b"only finished runs are archived" in done.stderr) == (1, True)
    assert (list(tmp_path.iterdir()), deletions(stack, "goes on")) == ([], [])


def test_a_run_that_redis_tells_otherwise_stays(stack: Online, tmp_path: Path) -> None:
    published(stack, a_finished_run("other"), "other")
    key = Keys(stack.settings.namespace).of_run("other", "run")
    store = client(stack)
    before = str(store.get(key))
    summary = orjson.loads(before)
    store.set(key, orjson.dumps(summary | {"resolved": summary["resolved"] + 1}))
    done = call(stack, "archive", "other", tmp_path / "out.tar", "--wait", 1)
    assert (done.returncode, b"other stays: Redis and the log differ in run" in done.stderr) == (1, True)
    assert (list(tmp_path.iterdir()), deletions(stack, "other")) == ([], [])
    store.set(key, before)


def test_another_file_is_not_overwritten(stack: Online, tmp_path: Path) -> None:
    published(stack, a_finished_run("named"), "named")
    out = tmp_path / "out.tar"
    out.write_bytes(b"mine")
    done = call(stack, "archive", "named", out)
    assert (done.returncode, b"is there, and has other events than named" in done.stderr) == (1, True)
    assert (out.read_bytes(), deletions(stack, "named")) == (b"mine", [])
    done = call(stack, "archive", "named", tmp_path / "no" / "out.tar")
    assert (done.returncode, b"There is no directory" in done.stderr) == (1, True)


def test_a_run_that_began_again_needs_a_file_of_its_own(stack: Online, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("again"), "again")
    assert call(stack, "archive", "again", out).returncode == 0
    first, revision = out.read_bytes(), time.time_ns()
    later = a_trial(run_id="again", revision=revision)
    published(stack, [later, {"type": "run_finished", "run_id": "again", "revision": revision}], "again")
    refused = call(stack, "archive", "again", out)
    assert (refused.returncode, b"has other events than again" in refused.stderr) == (1, True)
    assert (out.read_bytes(), len(deletions(stack, "again"))) == (first, 1)
    assert call(stack, "archive", "again", tmp_path / "second.tar").returncode == 0
    assert len(deletions(stack, "again")) == 2


def test_a_stack_that_has_the_run_or_deleted_it_takes_no_archive_of_it(
    stack: Online, elsewhere: Online, tmp_path: Path
) -> None:
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("twice"), "twice")
    assert call(stack, "archive", "twice", out).returncode == 0
    deleted = call(stack, "restore", out)
    assert (deleted.returncode, b"twice was deleted here up to revision" in deleted.stderr) == (1, True)
    published(elsewhere, [a_trial(run_id="twice")], "twice")
    before = len(log_of(elsewhere, "twice"))
    live = call(elsewhere, "restore", out)
    assert (live.returncode, b"twice is here: the log has 1 event of it that" in live.stderr) == (1, True)
    assert len(log_of(elsewhere, "twice")) == before


def test_a_restore_that_was_broken_off_is_ended_by_the_next(
    stack: Online, elsewhere: Online, tmp_path: Path
) -> None:
    """Half of the events are there, with their times, as a kill leaves them."""
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("half"), "half")
    before = log_of(stack, "half")
    assert call(stack, "archive", "half", out).returncode == 0
    environment = os.environ | elsewhere.environment | {"KILLED_AT": "differences_from:before:1"}
    command = [sys.executable, "-m", "tests.operate.killed_archive", "restore", str(out)]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=120).returncode < 0
    assert call(elsewhere, "restore", out).returncode == 0
    assert len(log_of(elsewhere, "half")) == len(before)


def test_events_of_files_have_no_place_in_a_log(stack: Online, tmp_path: Path) -> None:
    lines = b"".join(orjson.dumps(event) + b"\n" for event in a_finished_run("file"))
    (tmp_path / "events.ndjson").write_bytes(lines)
    assert call(stack, "bundle", tmp_path / "events.ndjson", tmp_path / "b.tar").returncode == 0
    done = call(stack, "restore", tmp_path / "b.tar")
    assert (done.returncode, b"b.tar has events of files" in done.stderr) == (1, True)
    damaged = bytearray((tmp_path / "b.tar").read_bytes())
    damaged[600] ^= 1
    (tmp_path / "b.tar").write_bytes(damaged)
    done = call(stack, "restore", tmp_path / "b.tar")
    assert (done.returncode, b"Damaged: events.ndjson" in done.stderr) == (1, True)


def test_an_archive_of_other_semantics_is_restored_and_its_numbers_are_not_compared(
    stack: Online, tmp_path: Path
) -> None:
    file = tmp_path / "old.tar"
    published(stack, a_finished_run("old"), "old")
    bundle = bundle_of(stack, "old", tmp_path)
    ours = b'"semantics_version":%d' % SEMANTICS_VERSION
    file.write_bytes(changed(bundle, MANIFEST, lambda content: content.replace(ours, ours + b"9")))
    assert call(stack, "check", file).returncode == 3
    done = call(stack, "restore", file)
    assert (done.returncode, b"of another version of the semantics" in done.stderr) == (0, True), done.stderr


# -----------------------------------------------------------------------------
# A policy: shown first, and done by its hash.


def test_a_policy_does_what_it_showed_and_nothing_else(stack: Online, tmp_path: Path) -> None:
    runs = {name: a_finished_run(name, labels={"policy": "yes"}) for name in ("p1", "p2", "goes")}
    runs["goes"] = [event for event in runs["goes"] if event["type"] != "run_finished"]
    runs["goes"][-1]["tasks"] = 400
    runs["other"] = a_finished_run("unlabelled")
    published(stack, [event for run in runs.values() for event in run], "p1", "p2", "goes", "unlabelled")
    folder = tmp_path / "archives"
    policy = ("archive", "--label", "policy=yes", "--older-than", "0d", folder)
    shown = call(stack, *policy)
    assert shown.returncode == 0, shown.stderr
    *lines, last = shown.stdout.decode().splitlines()
    assert lines == [
        f"p1: archive in {folder / 'p1.tar'}, then delete",
        f"p2: archive in {folder / 'p2.tar'}, then delete",
        "goes: stays (running)",
    ]
    assert last.startswith("2 runs to archive. Nothing is done yet: --yes ")
    plan_hash = last.split()[-3]
    assert (folder.exists(), deletions(stack, "p1"), deletions(stack, "p2")) == (False, [], [])
    assert call(stack, *policy[:3], "--older-than", "90d", folder).stdout.startswith(b"0 runs to archive")

    other = call(stack, *policy, "--yes", "0" * 16)
    assert (other.returncode, plan_hash.encode() in other.stderr) == (2, True)
    killed(stack, "_end:after:1", *policy, "--yes", plan_hash)
    assert [len(deletions(stack, name)) for name in ("p1", "p2")] == [1, 0]
    done = call(stack, *policy, "--yes", plan_hash)
    assert done.returncode == 0, done.stderr
    assert b"p1: was archived before in" in done.stderr
    assert [len(deletions(stack, name)) for name in ("p1", "p2", "goes", "unlabelled")] == [1, 1, 0, 0]
    assert sorted(file.name for file in folder.iterdir()) == ["p1.tar", "p2.tar", f"plan-{plan_hash}.json"]


def test_a_run_that_changed_since_the_plan_stays(stack: Online, tmp_path: Path) -> None:
    published(stack, a_finished_run("moves", labels={"policy": "late"}), "moves")
    policy = ("archive", "--label", "policy=late", tmp_path)
    plan_hash = call(stack, *policy).stdout.split()[-3].decode()
    killed(stack, "_finished_run:before:1", *policy, "--yes", plan_hash)
    published(stack, [a_trial(run_id="moves", task_id="t0", attempt=3, agent="late")], "moves")
    done = call(stack, *policy, "--yes", plan_hash)
    assert (done.returncode, b"moves has changed since the plan was made" in done.stderr) == (1, True)
    assert deletions(stack, "moves") == []
