"""A finished run goes into a file and out of the stack, whatever kills the command, and back elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import orjson
import pytest
from filelock import FileLock, Timeout

from streamer.client.folded import RunLog, fold_run
from streamer.client.queries import UnknownRun
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.operate import archive, verify
from streamer.operate.archive import Archive, ArchivePlan, CannotBeMoved, NotDone
from streamer.operate.bundle import MANIFEST, RECORDS, Contents, NotABundle, is_event
from streamer.operate.health import wait_until_deleted
from streamer.operate.verify import Standing
from streamer.schemas.base import SEMANTICS_VERSION, canonical_json
from streamer.schemas.summaries import RunSummary
from streamer.schemas.wire import LogRecord, Position, Record, may_name, time_of
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.outbox import NotDelivered, Outgoing, ThreadedPublisher
from streamer.terminal.archive import _archive as archived
from streamer.terminal.archive import _archive_plan as plan_of
from streamer.terminal.archive import _lines_of as lines_of
from tests.operate.killed_archive import STEPS
from tests.operate.test_bundle import bundled, changed, members_of, packed
from tests.operate.verifying import a_run, client, publish, verdict_of
from tests.support.cli import COMMAND, streamer
from tests.support.events import Event, a_trial
from tests.support.layers import EMBEDDED_ALONE, ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.support.worker_process import wait_for
from tests.terminal.calling import call, settled, the_run
from tests.views.test_ledger import BASE, entered

PRICES = PriceTable.default()


def a_finished_run(run_id: str, **plan: Any) -> list[Event]:
    named = {"type": "run_started", "run_id": run_id, "revision": 1, "labels": {"team": "x"}, **plan}
    return [*a_run(run_id), named, {"type": "run_finished", "run_id": run_id, "status": "completed"}]


def files_in(folder: Path) -> list[str]:
    """What stands there, without the empty locks that stay."""
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(".lock"))


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


@pytest.fixture(params=EMBEDDED_ALONE, scope="module")
def engine(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param, bootstrap_of(request, request.param)


@pytest.fixture
def elsewhere(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    """A second stack with a worker."""
    with online(tmp_path_factory.mktemp("elsewhere"), engine[1], engine[0], worker=True) as result:
        yield result


# -----------------------------------------------------------------------------
# Two commands, foreign files, late and unreadable events: step by step, over a log in memory.


class Log:
    """The event topic, and a Redis that always has what follows from it."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def put(self, *events: Event | bytes) -> None:
        for event in events:
            value = event if isinstance(event, bytes) else canonical_json(event)
            place = len(self.records)
            self.records.append(Record(value, place, 0, 1_700_000_000_000 + place, None, "trial-events"))

    def of(self, settings: Settings, run_id: str) -> Any:
        records = [one for one in self.records if may_name(run_id, one.value)]
        return SimpleNamespace(begins_at=0, records=lambda: iter(records))

    def runs(self) -> list[RunSummary]:
        folding = fold_records(iter(self.records), prices=PRICES)
        changes = [one for run in folding.runs() for one in folding.pipeline.run(run).summaries()]
        return [
            RunSummary.model_validate(one.summary) for one in changes if one.kind == "run" and one.summary
        ]

    def run(self, run_id: str) -> RunSummary:
        found = [one for one in self.runs() if one.run_id == run_id]
        if not found:
            raise UnknownRun(run_id, [])
        return found[0]

    def workers(self) -> list[Any]:
        return []

    def standing(self, run_id: str) -> Standing | None:
        return Standing.of(iter(self.records), run_id, PRICES)

    def types(self) -> list[str]:
        return [orjson.loads(one.value or b"")["type"] for one in self.records]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    for module in (archive, archive.bundle, verify):
        monkeypatch.setattr(module, "RunLog", log.of)
    monkeypatch.setattr(archive, "StateReader", lambda *_: nullcontext(log))
    monkeypatch.setattr(archive.Archive, "_compare", lambda *_: None)
    monkeypatch.setattr(archive.Archive, "_send", lambda _, events: log.put(*events))
    return log


NAMED = {"name": "nightly", "baseline": "base", "metric": "pass_rate"}


def a_short_run(run_id: str, status: str | None = "completed", **plan: Any) -> list[Event]:
    """Two tasks, both passed; without a status nothing says that it has ended."""
    started = {"type": "run_started", "run_id": run_id, "tasks": ["x", "y"], "attempts": 1, "revision": 1}
    ended = {"type": "run_finished", "run_id": run_id, "status": status}
    return [started | plan, *(a_short_trial(run_id, task) for task in "xy"), *([ended] if status else [])]


def a_short_trial(run_id: str, task: str, **named: Any) -> Event:
    at = {"run_id": run_id, "task_id": task, "attempt": 1, "agent": "a", "model": "m"}
    return {"type": "trial_result", **at, "resolved": True, "revision": 1, **named}


def the_archive(run_id: str, out: Path, lines: bool = False, **named: Any) -> Archive:
    def kept(_: Any, revision: int) -> list[Event]:
        at = {"run_id": run_id, "revision": revision}
        ledger = NAMED | {"lines": {"a:m": [1.0, None, 1, 1, 0, 0]}}
        ended = {"type": "run_finished", **at, "status": "archived", "scores_pending": False}
        return [{"type": "run_started", **at, "ledger": ledger}, ended] if lines else []

    return Archive(Settings(), run_id, out, PRICES, kept, 0.0, **named)


def events_in(file: Path) -> list[Event]:
    with file.open("rb") as stream:
        return [orjson.loads(one.value or b"") for one in Contents(stream).records()]


def refusal(archive: Archive, digest: str | None = None) -> str:
    with pytest.raises(CannotBeMoved) as refused:
        archive.make(digest)
    return str(refused.value)


def two_of(run_id: str, folder: Path) -> tuple[Archive, Archive]:
    """Two commands for one run, each with a file of its own."""
    a, b = (the_archive(run_id, folder / name, lines=True) for name in ("a.tar", "b.tar"))
    return a, b


def broken_off(one: Archive, log: Any) -> list[bytes]:
    """The events of an archive whose command was killed when it had sent the first of them."""
    events = one._prepared(log)
    one._note(events)
    one._send(events[:1])
    return events


def failing(error: Exception) -> Callable[..., None]:
    def fails(*_: Any) -> None:
        raise error

    return fails


NO_ROOM = OSError(28, "No space left on device")
NO_BROKER = NotDelivered(3, 1, "broker:9092", OSError("gone"))
SEND = Archive._send


@pytest.mark.parametrize("other", ["archive", "delete"])
def test_a_deletion_by_another_command_takes_no_line_from_the_ledger(
    log: Log, other: str, tmp_path: Path
) -> None:
    """A deletes, then B deletes up to a later revision, before either has sent its lines."""
    log.put(*a_short_run("c", ledger=NAMED))
    a, b = two_of("c", tmp_path)
    of_a, of_b = a._prepared(log), b._prepared(log)
    for one, events in ((a, of_a), (b, of_b)):
        one._note(events)
        one._send(events[:1] if one is a or other == "archive" else events)
    a._end(of_a)
    b._end(of_b)
    run = log.run("c")
    assert (run.status, run.trials, run.ledger and run.ledger.name) == ("archived", 0, "nightly")
    assert events_in(a.out) == events_in(b.out) == a_short_run("c", ledger=NAMED)
    assert files_in(tmp_path) == ["a.tar", "b.tar"]
    assert (a.make(), b.make(), log.types().count("run_deleted")) == (False, False, 2)


def test_a_command_that_finds_its_run_archived_by_another_leaves_no_journal(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("c", ledger=NAMED))
    a, b = two_of("c", tmp_path)
    a._note(a._prepared(log))
    assert b.make()
    assert not a.make()
    assert files_in(tmp_path) == ["a.tar", "b.tar"]


def test_the_lines_are_sent_before_anything_can_fail(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log.put(*a_short_run("c", ledger=NAMED))
    one = the_archive("c", tmp_path / "c.tar", lines=True)
    with monkeypatch.context() as patched:
        patched.setattr(Archive, "_complete", failing(NO_ROOM))
        with pytest.raises(OSError, match="No space"):
            one.make()
    assert log.run("c").status == "archived"
    assert one.make()
    assert (log.types().count("run_deleted"), files_in(tmp_path)) == (1, ["c.tar"])


def test_one_command_at_a_time_has_a_file(log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    monkeypatch.setattr(archive, "FileLock", partial(FileLock, blocking=False))
    with FileLock(tmp_path / ".r.tar.lock"), pytest.raises(Timeout):
        the_archive("r", tmp_path / "r.tar").make()
    assert (files_in(tmp_path), log.types().count("run_deleted")) == ([], 0)
    assert the_archive("r", tmp_path / "r.tar").make()


def test_a_broker_that_takes_only_a_part_of_an_archive_is_told_with_what_to_do(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log.put(*a_short_run("r"))
    one = the_archive("r", tmp_path / "r.tar")
    one._prepared(log)
    log.records.clear()
    monkeypatch.setattr(archive, "ThreadedPublisher", failing(NO_BROKER))
    with one.out.open("rb") as file, pytest.raises(NotDone, match="Run the same command again"):
        archive.restore(Settings(), file, "r.tar", PRICES, wait_seconds=0.0)


JUDGED = a_short_run("r", judged=True)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (a_short_run("r", None, judged=True), "waits for a judge's scores"),
        (JUDGED, "waits for a judge's scores"),
        (
            [*JUDGED, *(a_short_trial("r", task, resolved=None, score=0.5, revision=2) for task in "xy")],
            "waits for a judge's scores",
        ),
        (a_short_run("r", "Interrupted"), "was interrupted"),
        (a_short_run("r", "error"), "was interrupted"),
        (
            [
                *a_short_run("r", None, infrastructure_failures=["lost"])[:2],
                a_short_trial("r", "y", resolved=None, failure_mode="lost"),
            ],
            "trials that may run again",
        ),
        (a_short_run("r", None)[:2], "is unfinished|is stalled|is running"),
        (a_short_run("r", None), None),
        (a_short_run("r")[::3], None),
        ([*JUDGED, JUDGED[-1] | {"revision": 9, "scores_pending": False}], None),
    ],
)
def test_what_is_finished_follows_r19_and_waits_for_judges_as_r13_says(
    log: Log, events: list[Event], why: str | None, tmp_path: Path
) -> None:
    log.put(*events)
    one = the_archive("r", tmp_path / "r.tar")
    if why is None:
        assert one.make()
    else:
        said = refusal(one)
        assert re.search(why, said)
        assert "only finished runs can be archived" in said
        assert files_in(tmp_path) == []


def test_rejected_records_keep_a_run_until_somebody_says_that_they_need_not(log: Log, tmp_path: Path) -> None:
    log.put(
        *a_short_run("r"), a_short_trial("r", "z", cost_usd="bad"), b'{"run_id":"r","type":"of_tomorrow"}'
    )
    log.put(b'{"run_id":"s","type":"of_tomorrow","named":"r"}', b'r"')
    said = refusal(the_archive("r", tmp_path / "r.tar"))
    assert "2 records cannot be read" in said
    assert "`streamer rejections list --run r`" in said
    assert files_in(tmp_path) == []
    assert the_archive("r", tmp_path / "r.tar", without_rejected=True).make()
    assert events_in(tmp_path / "r.tar") == a_short_run("r")


def test_a_file_of_another_run_that_was_broken_off_is_not_taken(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("nightly"), *a_short_run("nightly-1"))
    out = tmp_path / "a.tar"
    first = the_archive("nightly-1", out)
    broken_off(first, log)
    out.rename(tmp_path / "moved.tar")
    said = refusal(the_archive("nightly", out))
    assert f"Finish that first: `streamer archive nightly-1 {out}`" in said
    assert log.run("nightly").trials == 2
    assert first.make()
    assert out.read_bytes() == (tmp_path / "moved.tar").read_bytes()


def test_a_late_event_that_the_deletion_covers_is_not_passed_over(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    one = the_archive("r", tmp_path / "r.tar")
    assert one.make()
    log.put(*a_short_run("r"))
    assert not one.make()
    log.put(a_short_trial("r", "z", revision=0))
    assert "1 event arrived since" in refusal(one)


def test_an_event_between_the_deletions_of_two_commands_is_not_passed_over(log: Log, tmp_path: Path) -> None:
    """The file ends at the first deletion, and the second one covers more."""
    log.put(*a_short_run("r"))
    a, b = two_of("r", tmp_path)
    of_a, of_b = a._prepared(log), b._prepared(log)
    a._note(of_a)
    a._send(of_a)
    a._end(of_a)
    between = (orjson.loads(of_a[0])["revision"] + orjson.loads(of_b[0])["revision"]) // 2
    log.put(a_short_trial("r", "z", revision=between))
    b._note(of_b)
    b._send(of_b)
    with pytest.raises(CannotBeMoved, match="1 event arrived since"):
        b._end(of_b)
    assert files_in(tmp_path) == ["a.tar", "b.tar"]
    for one in (a, b):
        assert "1 event arrived since" in refusal(one)


def test_a_revision_far_ahead_keeps_the_run(log: Log, tmp_path: Path) -> None:
    """Up to it all that ever comes would be ignored, and the lines behind 2**63 - 1 would be no events."""
    log.put(*a_short_run("r"), a_short_trial("r", "x", revision=2**63 - 1))
    assert "its event at offset 4 has a revision a day ahead" in refusal(the_archive("r", tmp_path / "r"))
    assert files_in(tmp_path) == []


def test_lines_that_would_be_rejected_keep_the_run(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    one = replace(
        the_archive("r", tmp_path / "r.tar"), lines=lambda *_: [{"type": "run_started", "run_id": ""}]
    )
    assert "its lines would be rejected" in refusal(one)
    assert (files_in(tmp_path), "run_deleted" in log.types()) == ([], False)


def test_what_comes_while_the_file_is_written_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """R32: a late score changes the agent's numbers, and the run's own digest stays."""
    scored = {**a_short_trial("r", "x"), "type": "trial_scored", "score": 0.9, "revision": 5}
    del scored["resolved"]
    log.put(*a_short_run("r"), *(a_short_trial("r", task, score=0.4, revision=2) for task in "xy"))
    planned = log.standing("r")
    before, one = log.run("r").digest, the_archive("r", tmp_path / "r.tar")
    written = Archive._written

    def late(self: Archive, *given: Any) -> Any:
        log.put(scored)
        return written(self, *given)

    monkeypatch.setattr(Archive, "_written", late)
    assert planned is not None
    assert "has changed since the plan was made" in refusal(one, planned.digest)
    assert (files_in(tmp_path), log.run("r").digest) == ([], before)


def test_a_run_that_begins_again_beside_the_deletion_is_told_apart_and_needs_a_file_of_its_own(
    log: Log, tmp_path: Path
) -> None:
    log.put(*a_short_run("r"))
    one = the_archive("r", tmp_path / "r.tar")
    [deletion, *_] = broken_off(one, log)
    later = orjson.loads(deletion)["revision"] + 1
    log.put(a_short_trial("r", "x", revision=later))
    assert "has started again with later events" in refusal(one)
    log.put({"type": "run_finished", "run_id": "r", "revision": later})
    assert "has events other than r's" in refusal(one)
    assert (files_in(tmp_path), events_in(one.out)) == (["r.tar"], a_short_run("r"))
    assert log.types().count("run_deleted") == 1
    assert the_archive("r", tmp_path / "second.tar").make()
    assert log.types().count("run_deleted") == 2


def test_what_came_between_comparison_and_deletion_is_in_the_file(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    one = the_archive("r", tmp_path / "r.tar")
    events = one._prepared(log)
    one._note(events)
    late = a_short_trial("r", "z")
    log.put(late, events[0])
    assert one.make()
    assert events_in(one.out) == [*a_short_run("r"), late]


def test_files_of_others_are_not_overwritten(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    out = tmp_path / "out.tar"
    out.write_bytes(b"mine")
    assert "exists and has events other than r's" in refusal(the_archive("r", out))
    assert "There is no directory" in refusal(the_archive("r", tmp_path / "no" / "out.tar"))
    assert (out.read_bytes(), "run_deleted" in log.types()) == (b"mine", False)


def test_links_are_refused_and_files_of_other_archives_stay(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    others = [tmp_path / ".r.tar.tar.0123abcd.partial", tmp_path / ".r.tar.note.partial"]
    for file in (*others, tmp_path / ".r.tar.0123abcd.partial"):
        file.touch()
    for link in ("r.tar", ".r.tar.deletion"):
        (tmp_path / link).symlink_to(tmp_path / "elsewhere")
        assert "is a symbolic link" in refusal(the_archive("r", tmp_path / "r.tar"))
        (tmp_path / link).unlink()
    assert the_archive("r", tmp_path / "r.tar").make()
    assert files_in(tmp_path) == sorted(["r.tar", *(file.name for file in others)])


def test_a_status_archived_of_the_harness_is_a_status_like_others(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r", "archived"), {"type": "run_finished", "run_id": "empty", "status": "archived"})
    plan = a_plan_of(log, tmp_path)
    assert ([run for run, *_ in plan.runs], plan.kept) == (["r"], (("empty", "has no trials"),))
    assert the_archive("r", tmp_path / "r.tar").make()
    assert "empty has no trials, and" in refusal(the_archive("empty", tmp_path / "e.tar"))


def a_plan_of(log: Log, folder: Path) -> ArchivePlan:
    return ArchivePlan.of(log.runs(), folder, before=None, labels={}, baselines=(), standing=log.standing)


def test_a_plan_says_what_stays_and_what_was_broken_off(log: Log, tmp_path: Path) -> None:
    log.put(
        *a_short_run("p1"), *a_short_run("p2"), *a_short_run("j", judged=True), *a_short_run("i", "error")
    )
    plan = a_plan_of(log, tmp_path)
    assert [run for run, *_ in plan.runs] == ["p1", "p2"]
    assert plan.kept == (
        ("i", "was interrupted (error), and its trials may run again"),
        ("j", "waits for a judge's scores"),
    )
    first = the_archive("p1", tmp_path / "p1.tar")
    broken_off(first, log)
    assert plan.broken_off() == []
    later = a_plan_of(log, tmp_path)
    assert ([run for run, *_ in later.runs], later.broken_off()) == (["p2"], [("p1", first.out)])
    assert first.make()
    assert a_plan_of(log, tmp_path).broken_off() == []


def test_a_plan_that_was_edited_is_no_plan(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("p1"), *a_short_run("p2"))
    plan = a_plan_of(log, tmp_path)
    plan.confirm()
    assert ArchivePlan.confirmed(tmp_path, plan.hash) == plan
    plan.file.write_bytes(plan.content.replace(b'"p1"', b'"p3"'))
    assert ArchivePlan.confirmed(tmp_path, plan.hash) is None


def test_lines_are_asked_for_only_while_redis_has_the_run_and_its_baseline_has_finished(log: Log) -> None:
    log.put(*a_short_run("base", None)[:2], *a_short_run("c", ledger=NAMED))
    lines = lines_of(Settings(), "c", PRICES)
    with pytest.raises(CannotBeMoved, match="base, the baseline of its ledger, has not finished"):
        lines(log, 1)
    with pytest.raises(CannotBeMoved, match="it is no longer in Redis"):
        lines_of(Settings(), "gone", PRICES)(log, 1)


@pytest.mark.parametrize(
    ("archived", "status", "is_done"),
    [(False, None, True), (True, None, False), (True, "archived", True), (True, "completed", False)],
)
def test_a_deletion_is_looked_for_once_without_any_wait(
    archived: bool, status: str | None, is_done: bool
) -> None:
    reader: Any = Log()
    if status:
        reader.put({"type": "run_finished", "run_id": "r", "status": status})
    assert wait_until_deleted(reader, "r", archived=archived, seconds=0.0) is is_done


@pytest.mark.parametrize(
    ("part", "error", "said"),
    [
        ("write_synced", NO_ROOM, "No space left on device. Run the command again with the same OUT"),
        ("ThreadedPublisher", NO_BROKER, "its deletion. Run `streamer archive r {out}` again"),
    ],
)
def test_an_error_of_disk_or_broker_ends_one_run_and_not_the_policy(
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    part: str,
    error: Exception,
    said: str,
) -> None:
    log.put(*a_short_run("r"))
    monkeypatch.setattr(archive, part, failing(error))
    monkeypatch.setattr(Archive, "_send", SEND)
    out = tmp_path / "r.tar"
    assert not archived(the_archive("r", out), None)
    assert said.format(out=out) in capsys.readouterr().err


def test_an_age_in_the_future_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--older-than -3d is in the future"):
        plan_of(Settings(), tmp_path, "-3d", (), None)


def test_without_sources_or_with_unreadable_records_it_is_no_bundle(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r"))
    assert the_archive("r", tmp_path / "r.tar").make()
    bundle = (tmp_path / "r.tar").read_bytes()
    harmed = changed(bundle, MANIFEST, lambda content: content.replace(b'"sources"', b'"sauces"'))
    with pytest.raises(NotABundle, match=r"manifest\.json .*sources"):
        Contents(BytesIO(harmed))
    other = changed(bundle, MANIFEST, lambda content: content.replace(b'cs_version":', b'cs_version":10'))
    for line in (b"[]\n", b'{"\xff":0}\n'):
        harmed = packed(members_of(other) | {RECORDS: line})
        with pytest.raises(NotABundle, match=r"records\.ndjson cannot be read: "):
            archive.restore(Settings(), BytesIO(harmed), "r.tar", PRICES, wait_seconds=0.0)


# -----------------------------------------------------------------------------
# There and back: a run moves from one stack to another.


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
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
    assert files_in(tmp_path) == ["archive.tar", "bundle.tar"]
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
    assert files_in(out.parent) == sorted({out.name, "bundle.tar"})
    settled(stack, run_id)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.in_turn(3)
def test_an_archive_that_was_killed_is_made_by_the_next_try(stack: Online, step: str, tmp_path: Path) -> None:
    run_id = f"killed at {step}"
    published(stack, a_finished_run(run_id), run_id)
    bundle, out = bundle_of(stack, run_id, tmp_path), tmp_path / "out.tar"
    killed(stack, step, "archive", run_id, out)
    done = call(stack, "archive", run_id, out)
    assert done.returncode == 0, done.stderr
    assert_archived_once(stack, run_id, out, bundle)
    assert the_run(stack, run_id) == {}
    again = call(stack, "archive", run_id, out)
    assert (again.returncode, b"was archived before in" in again.stderr) == (0, True)
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
    assert files_in(tmp_path) == []
    bundle, out = bundle_of(stack, "c", tmp_path), tmp_path / "c.tar"
    killed(stack, "_send:after:1", "archive", "c", out)
    done = call(stack, "archive", "c", out)
    assert done.returncode == 0, done.stderr
    assert_archived_once(stack, "c", out, bundle)
    assert orjson.loads(call(stack, "ledger", "nightly", "--json").stdout) == before
    assert (the_run(stack, "c")["trials"], the_run(stack, "c")["status"]) == (0, "archived")
    assert call(stack, "archive", "c", out).returncode == 0
    assert len(deletions(stack, "c")) == 1


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


def test_a_run_that_redis_tells_otherwise_stays(stack: Online, tmp_path: Path) -> None:
    published(stack, a_finished_run("other"), "other")
    key = Keys(stack.settings.namespace).of_run("other", "run")
    store = client(stack)
    before = str(store.get(key))
    summary = orjson.loads(before)
    store.set(key, orjson.dumps(summary | {"resolved": summary["resolved"] + 1}))
    done = call(stack, "archive", "other", tmp_path / "out.tar", "--wait", 1)
    assert (done.returncode, b"other stays: Redis and the log differ in run" in done.stderr) == (1, True)
    assert (files_in(tmp_path), deletions(stack, "other")) == ([], [])
    store.set(key, before)


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
    assert (live.returncode, b"twice exists here: the log has 1 event that" in live.stderr) == (1, True)
    assert len(log_of(elsewhere, "twice")) == before


def test_a_restore_that_was_broken_off_is_ended_by_the_next(
    stack: Online, elsewhere: Online, tmp_path: Path
) -> None:
    """Half of the events are there, with their times, as a kill leaves them."""
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("half"), "half")
    before = log_of(stack, "half")
    assert call(stack, "archive", "half", out).returncode == 0
    with ThreadedPublisher(elsewhere.settings) as publisher:
        for record in before[: len(before) // 2]:
            publisher.send(Outgoing(record.key, record.value or b"", record.timestamp))
    assert call(elsewhere, "restore", out).returncode == 0
    assert len(log_of(elsewhere, "half")) == len(before)


def test_a_bundle_of_files_or_a_damaged_one_is_not_restored(tmp_path: Path) -> None:
    content = bytearray(bundled(a_short_run("file")))
    for says in (b"b.tar has events from files", b"/b.tar: Damaged: events.ndjson"):
        (tmp_path / "b.tar").write_bytes(content)
        done = streamer("restore", tmp_path / "b.tar")
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
        content[600] ^= 1


def test_an_archive_of_other_semantics_is_restored_and_its_numbers_are_not_compared(
    stack: Online, tmp_path: Path
) -> None:
    file = tmp_path / "old.tar"
    published(stack, a_finished_run("old"), "old")
    bundle = bundle_of(stack, "old", tmp_path)
    ours = b'"semantics_version":%d' % SEMANTICS_VERSION
    file.write_bytes(changed(bundle, MANIFEST, lambda content: content.replace(ours, ours + b"9")))
    done = call(stack, "restore", file)
    assert (done.returncode, b"of another version of the semantics" in done.stderr) == (0, True), done.stderr


# -----------------------------------------------------------------------------
# A policy: shown first, and done by its hash.


def test_a_policy_does_what_it_showed_and_nothing_else(stack: Online, tmp_path: Path) -> None:
    """It is killed in its first run; meanwhile the second one changes."""
    runs = {name: a_finished_run(name, labels={"policy": "yes"}) for name in ("p1", "p2", "p3", "goes")}
    runs["goes"] = [event for event in runs["goes"] if event["type"] != "run_finished"]
    runs["goes"][-1]["tasks"] = 400
    runs["unlabelled"] = a_finished_run("unlabelled")
    published(stack, [event for run in runs.values() for event in run], *runs)
    folder = tmp_path / "archives"
    policy = ("archive", "--label", "policy=yes", "--older-than", "0d", folder)
    shown = call(stack, *policy)
    assert shown.returncode == 0, shown.stderr
    *lines, last = shown.stdout.decode().splitlines()
    planned = [f"{name}: archive in {folder / name}.tar, then delete" for name in ("p1", "p2", "p3")]
    assert lines == [*planned, "goes: stays (running)"]
    assert last.startswith("3 runs to archive. Nothing is done yet: --yes ")
    plan_hash = last.split()[-3]
    assert (folder.exists(), [deletions(stack, name) for name in runs]) == (False, [[]] * 5)
    assert call(stack, *policy[:3], "--older-than", "90d", folder).stdout.startswith(b"0 runs to archive")
    other = call(stack, *policy, "--yes", "0" * 16)
    assert (other.returncode, plan_hash.encode() in other.stderr) == (2, True)

    killed(stack, "_complete:after:1", *policy, "--yes", plan_hash)
    wait_for(lambda: the_run(stack, "p1") == {}, "the deletion of p1", 60)
    published(stack, [a_trial(run_id="p2", task_id="t0", attempt=3, agent="late")], "p2")
    shown = call(stack, *policy)
    assert (shown.returncode, shown.stdout.startswith(b"p2: archive in")) == (1, True)
    interrupted = f"the archive of p1 was interrupted: run `streamer archive p1 {folder / 'p1.tar'}`"
    assert interrupted in shown.stderr.decode()
    done = call(stack, *policy, "--yes", plan_hash)
    assert (done.returncode, b"p2 has changed since the plan was made" in done.stderr) == (1, True)
    assert [len(deletions(stack, name)) for name in runs] == [1, 0, 1, 0, 0]
    assert files_in(folder) == ["p1.tar", "p3.tar", f"plan-{plan_hash}.json"]
    plan_hash = call(stack, *policy).stdout.split()[-3].decode()
    assert call(stack, *policy, "--yes", plan_hash).returncode == 0
    assert [len(deletions(stack, name)) for name in runs] == [1, 1, 1, 0, 0]
