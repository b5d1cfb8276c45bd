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
from tests.operate.test_bundle import bundled, members_of, packed, replaced
from tests.operate.verifying import a_run, client, publish, verdict_of
from tests.support.cli import COMMAND, streamer
from tests.support.events import Event, a_late_score, a_plan, a_trial, an_end
from tests.support.layers import EMBEDDED_ALONE, ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.support.worker_process import wait_for
from tests.terminal.calling import call, settled, the_run
from tests.views.test_ledger import BASE, entered

PRICES = PriceTable.default()


def a_finished_run(run_id: str, **plan: Any) -> list[Event]:
    named = a_plan(run_id=run_id, revision=1, **{"labels": {"team": "x"}} | plan)
    return [*a_run(run_id), named, an_end(run_id=run_id, status="completed")]


def files_in(folder: Path) -> list[str]:
    """What stands there, without the empty locks that stay."""
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(".lock"))


def log_of(stack: Online, run_id: str) -> list[LogRecord]:
    return [one for one in RunLog(stack.settings, run_id).records() if is_event(one, run_id)]


def events_of(stack: Online, run_id: str) -> list[Event]:
    return [orjson.loads(one.value or b"") for one in log_of(stack, run_id)]


def deletions(stack: Online, run_id: str) -> list[Event]:
    return [event for event in events_of(stack, run_id) if event["type"] == "run_deleted"]


def published(stack: Online, events: list[Event], *run_ids: str) -> None:
    publish(stack.settings, events)
    for run_id in run_ids:
        settled(stack, run_id)


def bundle_of(stack: Online, run_id: str, tmp_path: Path) -> bytes:
    """What the archive has to be: the bundle of the run before it was archived."""
    succeeded(stack, "bundle", run_id, tmp_path / "bundle.tar")
    return (tmp_path / "bundle.tar").read_bytes()


def succeeded(stack: Online, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    done = call(stack, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def refused(stack: Online, says: str, *arguments: object) -> None:
    done = call(stack, *arguments)
    assert (done.returncode, says in done.stderr.decode()) == (1, True), done.stderr


def digests_of(stack: Online, run_id: str, as_of: Position | None = None) -> list[str | None]:
    run = fold_run(stack.settings, run_id, PRICES, as_of).run
    return [change.digest for change in run.summaries()]


@pytest.fixture(params=EMBEDDED_ALONE, scope="module")
def engine(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param, bootstrap_of(request, request.param)


@pytest.fixture
def elsewhere(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
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
            value, place = event if isinstance(event, bytes) else canonical_json(event), len(self.records)
            self.records.append(Record(value, place, 0, 1_700_000_000_000 + place, None, "trial-events"))

    def of(self, settings: Settings, run_id: str) -> Any:
        records = [one for one in self.records if may_name(run_id, one.value)]
        return SimpleNamespace(begins_at=0, records=lambda: iter(records))

    def runs(self) -> list[RunSummary]:
        runs = fold_records(iter(self.records), prices=PRICES).summaries()
        return [RunSummary.model_validate(one.summary) for one in runs if one.kind == "run" and one.summary]

    def run(self, run_id: str) -> RunSummary:
        for one in self.runs():
            if one.run_id == run_id:
                return one
        raise UnknownRun(run_id, [])

    def workers(self) -> list[Any]:
        return []

    def standing(self, run_id: str) -> Standing | None:
        return Standing.of(iter(self.records), run_id, PRICES)

    def deletions(self) -> int:
        return sum(orjson.loads(one.value or b"")["type"] == "run_deleted" for one in self.records)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    for module in (archive, archive.bundle, verify):
        monkeypatch.setattr(module, "RunLog", log.of)
    monkeypatch.setattr(archive, "StateReader", lambda *_: nullcontext(log))
    monkeypatch.setattr(archive.Archive, "_compare", lambda *_: None)
    monkeypatch.setattr(archive.Archive, "_send", lambda _, events: log.put(*events))
    return log


@pytest.fixture
def one(log: Log, tmp_path: Path) -> Archive:
    log.put(*a_short_run("r"))
    return the_archive("r", tmp_path / "r.tar")


@pytest.fixture
def two(log: Log, tmp_path: Path) -> list[Archive]:
    log.put(*a_short_run("c", ledger=NAMED))
    return [the_archive("c", tmp_path / name, lines=True) for name in ("a.tar", "b.tar")]


NAMED = {"name": "nightly", "baseline": "base", "metric": "pass_rate"}


def a_short_run(run_id: str, status: str | None = "completed", **plan: Any) -> list[Event]:
    """Two tasks, both passed; without a status nothing says that it has ended."""
    started = a_plan(run_id=run_id, tasks=["x", "y"], attempts=1, revision=1, **plan)
    ended = [an_end(run_id=run_id, status=status)] if status else []
    return [started, *(a_short_trial(run_id, task) for task in "xy"), *ended]


def a_short_trial(run_id: str, task: str, **named: Any) -> Event:
    return a_trial(run_id=run_id, task_id=task, attempt=1, **{"revision": 1} | named)


def the_archive(run_id: str, out: Path, lines: bool = False, **named: Any) -> Archive:
    def kept(_: Any, revision: int) -> list[Event]:
        at = {"run_id": run_id, "revision": revision}
        ledger = NAMED | {"lines": {"a:m": [1.0, None, 1, 1, 0, 0]}}
        return [a_plan(**at, ledger=ledger), an_end(**at, status="archived", scores_pending=False)]

    return Archive(Settings(), run_id, out, PRICES, kept if lines else lambda *_: [], 0.0, **named)


def events_in(file: Path) -> list[Event]:
    with file.open("rb") as stream:
        return [orjson.loads(one.value or b"") for one in Contents(stream).records()]


def refusal(archive: Archive, digest: str | None = None) -> str:
    with pytest.raises(CannotBeMoved) as refused:
        archive.make(digest)
    return str(refused.value)


def broken_off(one: Archive, log: Any, sent: int = 1) -> list[bytes]:
    """The events of an archive whose command was killed when it had sent so many of them."""
    events = one._prepared(log)
    one._note(events)
    one._send(events[:sent])
    return events


def ended(one: Archive, events: list[bytes]) -> None:
    one._note(events)
    one._send(events)
    one._end(events)


def failing(error: Exception) -> Callable[..., None]:
    def fails(*_: Any) -> None:
        raise error

    return fails


NO_ROOM = OSError(28, "No space left on device")
NO_BROKER = NotDelivered(3, 1, "broker:9092", OSError("gone"))
SEND = Archive._send


@pytest.mark.parametrize("other", ["archive", "delete"])
def test_another_s_deletion_takes_no_line_from_the_ledger(log: Log, two: list[Archive], other: str) -> None:
    """A deletes, then B deletes up to a later revision, before either has sent its lines."""
    a, b = two
    of_a, of_b = a._prepared(log), b._prepared(log)
    for one, events in ((a, of_a), (b, of_b)):
        one._note(events)
        one._send(events[:1] if one is a or other == "archive" else events)
    a._end(of_a)
    b._end(of_b)
    run = log.run("c")
    assert (run.status, run.trials, run.ledger and run.ledger.name) == ("archived", 0, "nightly")
    assert events_in(a.out) == events_in(b.out) == a_short_run("c", ledger=NAMED)
    assert files_in(a.out.parent) == ["a.tar", "b.tar"]
    assert (a.make(), b.make(), log.deletions()) == (False, False, 2)


def test_a_command_whose_run_another_archived_leaves_no_journal(log: Log, two: list[Archive]) -> None:
    a, b = two
    a._note(a._prepared(log))
    assert (b.make(), a.make()) == (True, False)
    assert files_in(a.out.parent) == ["a.tar", "b.tar"]


def test_lines_are_sent_before_any_failure(
    log: Log, two: list[Archive], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Archive, "_complete", failing(NO_ROOM))
        with pytest.raises(OSError, match="No space"):
            two[0].make()
    assert log.run("c").status == "archived"
    assert two[0].make()
    assert (log.deletions(), files_in(two[0].out.parent)) == (1, ["a.tar"])


def test_one_command_at_a_time_has_a_file(log: Log, one: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FileLock", partial(FileLock, blocking=False))
    with FileLock(one.out.with_name(".r.tar.lock")), pytest.raises(Timeout):
        one.make()
    assert (files_in(one.out.parent), log.deletions()) == ([], 0)
    assert one.make()


def test_a_broker_that_takes_a_part_is_told(log: Log, one: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    one._prepared(log)
    log.records.clear()
    monkeypatch.setattr(archive, "ThreadedPublisher", failing(NO_BROKER))
    with one.out.open("rb") as file, pytest.raises(NotDone, match="Run the same command again"):
        archive.restore(Settings(), file, "r.tar", PRICES, wait_seconds=0.0)


JUDGED = a_short_run("r", judged=True)
SCORED = [a_short_trial("r", task, resolved=None, score=0.5, revision=2) for task in "xy"]
LOST = a_short_trial("r", "y", resolved=None, failure_mode="lost")
UNFINISHED = ".*, and only finished runs can be archived"
WAITS, INTERRUPTED = f"waits for a judge's scores{UNFINISHED}", f"was interrupted{UNFINISHED}"


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (a_short_run("r", None, judged=True), WAITS),
        (JUDGED, WAITS),
        ([*JUDGED, *SCORED], WAITS),
        (a_short_run("r", "Interrupted"), INTERRUPTED),
        (a_short_run("r", "error"), INTERRUPTED),
        (
            [*a_short_run("r", None, infrastructure_failures=["lost"])[:2], LOST],
            f"trials that may run again{UNFINISHED}",
        ),
        (a_short_run("r", None)[:2], f"(is unfinished|is stalled|is running){UNFINISHED}"),
        (a_short_run("r", None), None),
        (a_short_run("r")[::3], None),
        ([*JUDGED, JUDGED[-1] | {"revision": 9, "scores_pending": False}], None),
        # Up to it all that ever comes would be ignored, and the lines behind 2**63 - 1 would be no events.
        (
            [*a_short_run("r"), a_short_trial("r", "x", revision=2**63 - 1)],
            "its event at offset 4 has a revision a day ahead",
        ),
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
        assert re.search(why, refusal(one))
        assert (files_in(tmp_path), log.deletions()) == ([], 0)


def test_rejected_records_keep_a_run_until_somebody_says_that_they_need_not(log: Log, one: Archive) -> None:
    log.put(a_short_trial("r", "z", cost_usd="bad"), b'{"run_id":"r","type":"of_tomorrow"}')
    log.put(b'{"run_id":"s","type":"of_tomorrow","named":"r"}', b'r"')
    assert re.search("2 records cannot be read.*`streamer rejections list --run r`", refusal(one))
    assert files_in(one.out.parent) == []
    assert replace(one, without_rejected=True).make()
    assert events_in(one.out) == a_short_run("r")


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


def test_a_late_event_that_the_deletion_covers_is_not_passed_over(log: Log, one: Archive) -> None:
    assert one.make()
    log.put(*a_short_run("r"))
    assert not one.make()
    log.put(a_short_trial("r", "z", revision=0))
    assert "1 event arrived since" in refusal(one)


def test_an_event_between_two_deletions_is_not_passed_over(log: Log, two: list[Archive]) -> None:
    """The file ends at the first deletion, and the second one covers more."""
    a, b = two
    of_a, of_b = a._prepared(log), b._prepared(log)
    ended(a, of_a)
    between = sum(orjson.loads(events[0])["revision"] for events in (of_a, of_b)) // 2
    log.put(a_short_trial("c", "z", revision=between))
    with pytest.raises(CannotBeMoved, match="1 event arrived since"):
        ended(b, of_b)
    assert files_in(a.out.parent) == ["a.tar", "b.tar"]
    assert all("1 event arrived since" in refusal(one) for one in (a, b))


def test_lines_that_would_be_rejected_keep_the_run(log: Log, one: Archive) -> None:
    assert "its lines would be rejected" in refusal(replace(one, lines=lambda *_: [a_plan(run_id="")]))
    assert (files_in(one.out.parent), log.deletions()) == ([], 0)


def test_what_comes_during_writing_counts(log: Log, one: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """R32: a late score changes the agent's numbers, and the run's own digest stays."""
    log.put(*(a_short_trial("r", task, score=0.4, revision=2) for task in "xy"))
    planned, before, written = log.standing("r"), log.run("r").digest, Archive._written

    def late(self: Archive, *given: Any) -> Any:
        log.put(a_late_score(run_id="r", task_id="x", attempt=1, score=0.9, revision=5))
        return written(self, *given)

    monkeypatch.setattr(Archive, "_written", late)
    assert planned is not None
    assert "has changed since the plan was made" in refusal(one, planned.digest)
    assert (files_in(one.out.parent), log.run("r").digest) == ([], before)


def test_a_run_that_begins_again_beside_the_deletion_needs_a_file_of_its_own(log: Log, one: Archive) -> None:
    later = orjson.loads(broken_off(one, log)[0])["revision"] + 1
    log.put(a_short_trial("r", "x", revision=later))
    assert "has started again with later events" in refusal(one)
    log.put(an_end(run_id="r", revision=later))
    assert "exists and is not an archive of r's present events" in refusal(one)
    assert (files_in(one.out.parent), events_in(one.out)) == (["r.tar"], a_short_run("r"))
    assert log.deletions() == 1
    assert replace(one, out=one.out.with_name("second.tar")).make()
    assert log.deletions() == 2


def test_what_came_between_comparison_and_deletion_is_in_the_file(log: Log, one: Archive) -> None:
    late = a_short_trial("r", "z")
    deletion = broken_off(one, log, sent=0)[0]
    log.put(late, deletion)
    assert one.make()
    assert events_in(one.out) == [*a_short_run("r"), late]


def test_files_of_others_are_not_overwritten(log: Log, one: Archive, tmp_path: Path) -> None:
    one.out.write_bytes(b"mine")
    assert "exists and is not an archive of r's present events" in refusal(one)
    assert "There is no directory" in refusal(replace(one, out=tmp_path / "no" / "out.tar"))
    assert (one.out.read_bytes(), log.deletions()) == (b"mine", 0)


def test_links_are_refused_and_files_of_other_archives_stay(one: Archive, tmp_path: Path) -> None:
    others = [tmp_path / ".r.tar.note.partial", tmp_path / ".r.tar.tar.0123abcd.partial"]
    for file in (*others, tmp_path / ".r.tar.0123abcd.partial"):
        file.touch()
    for link in (one.out, tmp_path / ".r.tar.deletion"):
        link.symlink_to(tmp_path / "elsewhere")
        assert "is a symbolic link" in refusal(one)
        link.unlink()
    assert one.make()
    assert files_in(tmp_path) == [*(file.name for file in others), "r.tar"]


def test_a_status_archived_of_the_harness_is_a_status_like_others(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("r", "archived"), an_end(run_id="empty", status="archived"))
    plan = a_plan_of(log, tmp_path)
    assert ([run for run, *_ in plan.runs], plan.kept) == (["r"], (("empty", "has no trials"),))
    assert the_archive("r", tmp_path / "r.tar").make()
    assert "empty has no trials, and" in refusal(the_archive("empty", tmp_path / "e.tar"))


def a_plan_of(log: Log, folder: Path) -> ArchivePlan:
    return ArchivePlan.of(log.runs(), folder, before=None, labels={}, baselines=(), standing=log.standing)


def test_a_plan_says_what_stays_and_what_was_broken_off(log: Log, tmp_path: Path) -> None:
    log.put(*a_short_run("p1"), *a_short_run("p2"))
    log.put(*a_short_run("j", judged=True), *a_short_run("i", "error"))
    plan = a_plan_of(log, tmp_path)
    assert [run for run, *_ in plan.runs] == ["p1", "p2"]
    interrupted = "was interrupted (error), and its trials may run again"
    assert plan.kept == (("i", interrupted), ("j", "waits for a judge's scores"))
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
    unfinished = "base, the baseline of its ledger, has not finished"
    for run, why in (("c", unfinished), ("gone", "it is no longer in Redis")):
        with pytest.raises(CannotBeMoved, match=why):
            lines_of(Settings(), run, PRICES)(log, 1)


@pytest.mark.parametrize(
    ("archived", "status", "is_done"),
    [(False, None, True), (True, None, False), (True, "archived", True), (True, "completed", False)],
)
def test_a_deletion_is_looked_for_once(archived: bool, status: str | None, is_done: bool) -> None:
    reader: Any = Log()
    if status:
        reader.put(an_end(run_id="r", status=status))
    assert wait_until_deleted(reader, "r", archived=archived, seconds=0.0) is is_done


@pytest.mark.parametrize(
    ("part", "error", "said"),
    [
        ("write_synced", NO_ROOM, "No space left on device. Run the command again with the same OUT"),
        ("ThreadedPublisher", NO_BROKER, "its deletion. Run `streamer archive r {out}` again"),
    ],
)
def test_an_error_of_disk_or_broker_ends_one_run_and_not_the_policy(
    one: Archive,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: str,
    error: Exception,
    said: str,
) -> None:
    monkeypatch.setattr(archive, part, failing(error))
    monkeypatch.setattr(Archive, "_send", SEND)
    assert not archived(one, None)
    assert said.format(out=one.out) in capsys.readouterr().err


def test_an_age_in_the_future_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--older-than -3d is in the future"):
        plan_of(Settings(), tmp_path, "-3d", (), None)


def test_without_sources_or_with_unreadable_records_it_is_no_bundle(one: Archive) -> None:
    assert one.make()
    bundle = one.out.read_bytes()
    with pytest.raises(NotABundle, match=r"manifest\.json .*sources"):
        Contents(BytesIO(replaced(bundle, MANIFEST, b'"sources"', b'"sauces"')))
    other = members_of(replaced(bundle, MANIFEST, b'cs_version":', b'cs_version":10'))
    for line in (b"[]\n", b'{"\xff":0}\n'):
        harmed = BytesIO(packed(other | {RECORDS: line}))
        with pytest.raises(NotABundle, match=r"records\.ndjson cannot be read: "):
            archive.restore(Settings(), harmed, "r.tar", PRICES, wait_seconds=0.0)


# -----------------------------------------------------------------------------
# There and back: a run moves from one stack to another.


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_a_run_moves_with_bytes_times_and_revisions(stack: Online, elsewhere: Online, tmp_path: Path) -> None:
    events = a_finished_run("moved/1")
    published(stack, events[:31], "moved/1")
    published(stack, events[31:], "moved/1")
    before, digests = log_of(stack, "moved/1"), digests_of(stack, "moved/1")
    moment = time_of(before[30])
    then = digests_of(stack, "moved/1", Position(at=moment))
    bundle = bundle_of(stack, "moved/1", tmp_path)
    out = tmp_path / "archive.tar"
    done = succeeded(stack, "archive", "moved/1", out)
    assert done.stderr.decode() == f"moved/1: archived in {out}\n"
    assert out.read_bytes() == bundle
    assert files_in(tmp_path) == ["archive.tar", "bundle.tar"]
    [deletion] = deletions(stack, "moved/1")
    assert deletion["revision"] > 10**18
    assert the_run(stack, "moved/1") == {}

    done = succeeded(elsewhere, "restore", out)
    said = f"moved/1: restored, {len(before)} events; Redis says the same as archive.tar\n"
    assert done.stderr.decode() == said
    sent = [(one.value, one.timestamp, one.key) for one in before]
    assert [(one.value, one.timestamp, one.key) for one in log_of(elsewhere, "moved/1")] == sent
    assert verdict_of(elsewhere.settings, "moved/1").outcome == "equal"
    assert digests_of(elsewhere, "moved/1") == digests
    assert digests_of(elsewhere, "moved/1", Position(at=moment)) == then != digests
    succeeded(elsewhere, "restore", out)
    assert len(log_of(elsewhere, "moved/1")) == len(before)


def test_a_tail_that_still_has_the_files_does_not_bring_it_back(stack: Online, tmp_path: Path) -> None:
    """The one that runs on, one that starts again, and one without a journal of what it has sent."""
    job = tmp_path / "tailed"
    succeeded(stack, "simulate", "--out", job, "--trials", 6)
    environment = os.environ | stack.environment | {"HOME": str(tmp_path / "home")}
    running = subprocess.Popen([*COMMAND, "tail", str(job)], env=environment, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: the_run(stack, "tailed").get("state") == "complete", "the run", 60)
        settled(stack, "tailed")
        succeeded(stack, "archive", "tailed", tmp_path / "tailed.tar")
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    for home in ("home", "another"):
        env = environment | {"HOME": str(tmp_path / home)}
        subprocess.run([*COMMAND, "tail", "--once", str(job)], env=env, check=True, timeout=120)
    settled(stack, "tailed")
    [deletion] = deletions(stack, "tailed")
    events = events_of(stack, "tailed")
    assert events[-1]["type"] != "run_deleted"
    assert max(event["revision"] for event in events) == deletion["revision"]
    assert the_run(stack, "tailed") == {}


# -----------------------------------------------------------------------------
# Killed at each step, and run again: the same file and one deletion.


def killed(stack: Online, step: str, *arguments: object) -> None:
    command = [sys.executable, "-m", "tests.operate.killed_archive", *map(str, arguments)]
    environment = os.environ | stack.environment | {"KILLED_AT": step}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
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
    succeeded(stack, "archive", run_id, out)
    assert_archived_once(stack, run_id, out, bundle)
    assert the_run(stack, run_id) == {}
    assert b"was archived before in" in succeeded(stack, "archive", run_id, out).stderr
    assert_archived_once(stack, run_id, out, bundle)


@pytest.mark.timeout(300)
def test_a_run_killed_before_its_lines_were_sent_keeps_them(stack: Online, tmp_path: Path) -> None:
    """Inference 8a: `c` passes 14 of 20 tasks, its baseline `base` 4; the verdict outlives the run."""
    ends = [an_end(run_id=run) for run in ("base", "c")]
    published(stack, [*BASE, *entered("c", 4, range(14)), *ends], "base", "c")
    before = orjson.loads(call(stack, "ledger", "nightly", "--json").stdout)
    refused(stack, "base is the baseline of ledger nightly", "archive", "base", tmp_path / "base.tar")
    assert deletions(stack, "base") == []
    assert files_in(tmp_path) == []
    bundle, out = bundle_of(stack, "c", tmp_path), tmp_path / "c.tar"
    killed(stack, "_send:after:1", "archive", "c", out)
    succeeded(stack, "archive", "c", out)
    assert_archived_once(stack, "c", out, bundle)
    assert orjson.loads(call(stack, "ledger", "nightly", "--json").stdout) == before
    assert (the_run(stack, "c")["trials"], the_run(stack, "c")["status"]) == (0, "archived")
    succeeded(stack, "archive", "c", out)
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
    succeeded(stack, "archive", run_id, out)
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
    said = "other stays: Redis and the log differ in run"
    refused(stack, said, "archive", "other", tmp_path / "out.tar", "--wait", 1)
    assert (files_in(tmp_path), deletions(stack, "other")) == ([], [])
    store.set(key, before)


def test_a_stack_that_has_or_had_it_restores_none(stack: Online, elsewhere: Online, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("twice"), "twice")
    succeeded(stack, "archive", "twice", out)
    refused(stack, "twice was deleted here up to revision", "restore", out)
    published(elsewhere, [a_trial(run_id="twice")], "twice")
    before = len(log_of(elsewhere, "twice"))
    refused(elsewhere, "twice exists here: the log has 1 event that", "restore", out)
    assert len(log_of(elsewhere, "twice")) == before


def test_the_next_restore_ends_a_broken_one(stack: Online, elsewhere: Online, tmp_path: Path) -> None:
    """Half of the events are there, with their times, as a kill leaves them."""
    out = tmp_path / "out.tar"
    published(stack, a_finished_run("half"), "half")
    before = log_of(stack, "half")
    succeeded(stack, "archive", "half", out)
    with ThreadedPublisher(elsewhere.settings) as publisher:
        for record in before[: len(before) // 2]:
            publisher.send(Outgoing(record.key, record.value or b"", record.timestamp))
    succeeded(elsewhere, "restore", out)
    assert len(log_of(elsewhere, "half")) == len(before)


def test_a_bundle_of_files_or_a_damaged_one_is_not_restored(tmp_path: Path) -> None:
    content = bytearray(bundled(a_short_run("file")))
    for says in (b"b.tar has events from files", b"/b.tar: Damaged: events.ndjson"):
        (tmp_path / "b.tar").write_bytes(content)
        done = streamer("restore", tmp_path / "b.tar")
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
        content[600] ^= 1


def test_the_numbers_of_an_archive_of_other_semantics_are_not_compared(stack: Online, tmp_path: Path) -> None:
    file, ours = tmp_path / "old.tar", b'"semantics_version":%d' % SEMANTICS_VERSION
    published(stack, a_finished_run("old"), "old")
    file.write_bytes(replaced(bundle_of(stack, "old", tmp_path), MANIFEST, ours, ours + b"9"))
    assert b"of another version of the semantics" in succeeded(stack, "restore", file).stderr


def test_a_policy_does_what_it_showed_and_nothing_else(stack: Online, tmp_path: Path) -> None:
    """It is killed in its first run; meanwhile the second one changes."""
    runs = {name: a_finished_run(name, labels={"policy": "yes"}) for name in ("p1", "p2", "p3", "goes")}
    runs["goes"] = [event for event in runs["goes"] if event["type"] != "run_finished"]
    runs["goes"][-1]["tasks"] = 400
    runs["unlabelled"] = a_finished_run("unlabelled")
    published(stack, [event for run in runs.values() for event in run], *runs)
    folder = tmp_path / "archives"
    policy = ("archive", "--label", "policy=yes", "--older-than", "0d", folder)
    shown = succeeded(stack, *policy)
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
    refused(stack, "p2 has changed since the plan was made", *policy, "--yes", plan_hash)
    assert [len(deletions(stack, name)) for name in runs] == [1, 0, 1, 0, 0]
    assert files_in(folder) == ["p1.tar", "p3.tar", f"plan-{plan_hash}.json"]
    plan_hash = call(stack, *policy).stdout.split()[-3].decode()
    succeeded(stack, *policy, "--yes", plan_hash)
    assert [len(deletions(stack, name)) for name in runs] == [1, 1, 1, 0, 0]
