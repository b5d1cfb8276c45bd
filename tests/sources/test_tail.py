"""The ledger makes the log say what a directory says. Its journal survives; settling waits for files."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport, Unreadable
from streamer.sources.files import VANISHED
from streamer.sources.tail import (
    AlreadyFollowed,
    EventFields,
    Followed,
    Ledger,
    LedgerFile,
    directory_result,
    follow,
    followed,
    ledger_path,
    scan,
)
from tests.sources.builders import LOCK, a_result, a_run, a_trial_file, write_json
from tests.support import tailing
from tests.support.events import a_plan, a_start, a_trial
from tests.support.examples import examples
from tests.support.worker_process import wait_for

FILES = st.dictionaries(
    st.sampled_from(["f1", "f2", "f3"]),
    st.tuples(st.sampled_from(["t1", "t2"]), st.integers(0, 3), st.integers(0, 3)),
)
"""File -> (task, time of writing, cost): two files may hold one slot, and times say nothing."""


def results_of(files: dict[str, tuple[str, int, int]]) -> list[tuple[str, EventFields]]:
    return [
        (path, a_trial(task_id=task, revision=revision, cost_usd=float(cost)))
        for path, (task, revision, cost) in sorted(files.items())
    ]


def reconciled(ledger: Ledger, results: Iterable[tuple[str, EventFields]]) -> list[EventFields]:
    """What is to be published so that these results, and no others, stand."""
    groups: dict[object, list[object]] = {}
    for path, event in results:
        new = directory_result(event, path)
        groups.setdefault(new.key, []).append(new)
    events = [event for group in groups.values() for event in ledger.resolve(group)]  # type: ignore[arg-type]
    missing = [key for key, _ in ledger.filled() if key not in groups]
    return [*ledger.retracted(), *events, *(ledger.retract(key) for key in missing)]


def reopened(ledger: Ledger) -> Ledger:
    """As the journal has it after the end of the process."""
    again = Ledger()
    for line in ledger.dump():
        again.restore(line)
    return again


@examples(150)
@given(st.lists(st.tuples(FILES, st.booleans(), st.integers(0, 9)), max_size=6), FILES)
def test_whatever_a_directory_said_before_and_however_often_its_tail_was_killed_the_last_word_counts(
    history: list[tuple[dict[str, tuple[str, int, int]], bool, int]], last: dict[str, tuple[str, int, int]]
) -> None:
    """A kill loses any part of what was noted and not yet published; the next start makes up for it."""
    plan = a_plan(tasks=2)
    log: list[EventFields] = [plan]
    ledger = Ledger()
    for files, killed, arrived in history:
        events = reconciled(ledger, results_of(files))
        log += events[:arrived] if killed else events
        if killed:
            ledger = reopened(ledger)
    log += reconciled(ledger, results_of(last))
    wanted_digests = tailing.digests_of([plan, *(event for _, event in results_of(last))])
    assert tailing.digests_of(log) == wanted_digests


def test_resolved_results_are_published_once() -> None:
    ledger = Ledger()
    results = results_of({"f1": ("t1", 1, 1), "f2": ("t1", 2, 2)})
    assert len(reconciled(ledger, results)) == 2
    assert reconciled(ledger, results) == []
    again = reopened(ledger)
    assert reconciled(again, results) == [results[1][1]]


START = a_start(task_id="t1", revision=5)


def test_a_start_is_published_once_and_a_restart_knows_it() -> None:
    ledger, first = Ledger(), directory_result(START, "t1")
    assert list(ledger.start(first)) == [START]
    assert list(ledger.start(directory_result(START | {"revision": 9}, "t1"))) == []
    assert list(reopened(ledger).start(first)) == []
    ((key, path),) = reopened(ledger).begun()
    assert (key[1].task_id, path) == ("t1", "t1")


def test_a_start_lies_above_a_withdrawal_and_counts_for_nothing_where_a_result_stands() -> None:
    ledger, first = Ledger(), directory_result(START, "t1")
    assert len(list(ledger.start(first))) == 1
    assert ledger.retract(first.key)["revision"] == 5
    assert list(reopened(ledger).retracted()) != []
    again = reopened(ledger)
    assert [event["revision"] for event in again.start(first)] == [6]
    assert list(reopened(again).start(first)) == []
    filled = Ledger()
    assert len(reconciled(filled, results_of({"f1": ("t1", 1, 1)}))) == 1
    assert [*filled.start(directory_result(START | {"revision": 9}, "t1")), *filled.begun()] == []


def test_a_plan_is_published_when_it_says_something_else() -> None:
    ledger = Ledger()
    plans = [a_plan(tasks=tasks, revision=revision) for tasks, revision in ((2, 5), (2, 7), (3, 5), (3, 4))]
    published = [event for plan in plans for event in ledger.plan(plan)]
    assert [(event["tasks"], event["revision"]) for event in published] == [(2, 5), (3, 6)]
    assert list(reopened(ledger).plan(a_plan(tasks=3, revision=9))) == [a_plan(tasks=3, revision=6)]


def test_a_journal_remembers_and_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    results = results_of({"f1": ("t1", 1, 1), "f2": ("t2", 2, 2)})
    with LedgerFile(path, tmp_path) as journal:
        ledger = journal.load()
        events = reconciled(ledger, results)
        journal.append(ledger.lines)
    with path.open("ab") as file:
        file.write(b'{"key": ["run-1", "", "t1", 1, "terminus"')
    for _ in range(2):
        with LedgerFile(path, tmp_path) as journal:
            ledger = journal.load()
            assert len(list(ledger.filled())) == 2
            assert reconciled(ledger, results) == events


def test_a_directory_has_one_follower(tmp_path: Path) -> None:
    path, home = tmp_path / "journal.ndjson", tmp_path
    with (
        LedgerFile(path, home),
        pytest.raises(AlreadyFollowed, match="Stop it first"),
        LedgerFile(path, home),
    ):
        pass
    with LedgerFile(path, home) as journal:
        assert journal.problem is None


def test_a_journal_that_cannot_be_kept_is_a_problem_and_not_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with LedgerFile(tmp_path / "file" / "journal.ndjson", tmp_path) as journal:
        ledger = journal.load()
        reconciled(ledger, results_of({"f1": ("t1", 1, 1)}))
        journal.append(ledger.lines)
        assert "cannot keep" in (journal.problem or "")


def test_what_was_followed_is_kept_with_its_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for pool in (None, "pool"):
        with LedgerFile(ledger_path(settings, Path("runs"), pool), Path("runs"), pool) as ledger:
            ledger.load()
    monkeypatch.chdir("/")
    assert set(followed(settings)) == {Followed(tmp_path / "runs", pool) for pool in (None, "pool")}


@pytest.mark.parametrize(
    "first",
    [
        *("", "[]\n", "\x00\n"),
        *('{"followed": "runs"}\n', '{"followed": "runs", "run_id": null}\n', '{"followed": "/runs"}\n'),
        *('{"followed": 1, "run_id": null}\n', '{"followed": "/runs", "run_id": 1}\n'),
    ],
)
def test_a_ledger_without_a_directory_and_a_pool_of_today_names_nothing(tmp_path: Path, first: str) -> None:
    """Older versions wrote the directory as the user did, relative to wherever that was, and no pool."""
    settings = Settings(data_dir=tmp_path / "data")
    write_json(ledger_path(settings, tmp_path, "pool"), first)
    assert followed(settings) == []


def test_a_ledger_of_an_older_version_names_its_directory_once_it_is_followed_again(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    path = write_json(ledger_path(settings, tmp_path, "pool"), f'{{"followed": "{tmp_path}"}}\n')
    with LedgerFile(path, tmp_path, "pool") as ledger:
        ledger.load()
    assert followed(settings) == [Followed(tmp_path, "pool")]


Event = tailing.Event
RESULT: Event = {"judge_passed": True, "judge_score": 0.9, "exit_code": 0, "cost_usd": 0.25}
TIMING: Event = {"agent_duration_seconds": 60.0, "measured_at": "2026-01-02T10:00:00+00:00"}


class Meanwhile:
    """Does something once, after a reading whose report complains of a path, or before any reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._before: list[Callable[[], object]] = []
        self._after: list[tuple[Path | None, Callable[[], object]]] = []
        for name in ("read_whole", "read_part"):
            monkeypatch.setattr(follow, name, self._around(getattr(follow, name)))

    def before_reading(self, action: Callable[[], object]) -> None:
        self._before.append(action)

    def after_reading(self, action: Callable[[], object], of: Path | None = None) -> None:
        """`of`: the first one that complains of the path."""
        self._after.append((of, action))

    @property
    def is_done(self) -> bool:
        return not self._before and not self._after

    def _around(self, read: Callable[..., scan.Scan]) -> Callable[..., scan.Scan]:
        def reading_of(*arguments: Any) -> scan.Scan:
            while self._before:
                self._before.pop()()
            reading = read(*arguments)
            told = {path for path, _ in reading.report.unreadable}
            for entry in [entry for entry in self._after if entry[0] is None or entry[0] in told]:
                self._after.remove(entry)
                entry[1]()
            return reading

        return reading_of


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


def an_experiment(path: Path) -> Path:
    write_json(path / "config" / "experiment.json", {"experiment_id": "test", "models": ["sonnet"]})
    write_json(path / "completed" / "T0" / "00" / "run_01" / "run_result.json", RESULT)
    return path


def read_often(run: Path, meanwhile: Meanwhile, **more: Any) -> tailing.Followed:
    """Read a directory until all is done that happens meanwhile, and more."""
    following = tailing.Followed(run, **more)
    for _ in range(4):
        following.follower.read_whole()
    assert meanwhile.is_done
    return following


def move_when_complete(run: Path, name: str, content: Event) -> Callable[[], object]:
    """As ProjectScylla does: a file is completed, then the directory of its run moved to completed/."""
    home = run / "in_progress" / "T0" / "00" / "run_02"

    def complete_and_move() -> None:
        write_json(home / name, content)
        home.rename(run / "completed" / "T0" / "00" / "run_02")

    return complete_and_move


def test_a_file_that_was_half_and_then_moved_is_no_complaint(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = an_experiment(tmp_path / "run").resolve()
    half = write_json(run / "in_progress/T0/00/run_02/run_result.json", json.dumps(RESULT)[:30])
    meanwhile.after_reading(move_when_complete(run, "run_result.json", RESULT), of=half)
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []
    assert [event["attempt"] for event in following.trials] == [1, 2]
    assert following.follower.status.unreadable == {}


def test_a_file_below_a_renamed_directory_is_no_complaint(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    broken = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", "{")
    meanwhile.after_reading(lambda: (run / "oom").rename(tmp_path / "elsewhere"), of=broken)
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []


def test_a_file_that_was_completed_after_it_was_read_is_no_complaint(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    whole = json.dumps(a_result())
    path = run / "oom" / "oom.1-of-1.run1" / "results.json"
    write_json(path, whole[:-1].ljust(len(whole)), mtime_ns=1_000)
    meanwhile.after_reading(lambda: write_json(path, whole, mtime_ns=1_000), of=path)
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []
    assert len(following.trials) == 2


def test_a_value_left_out_of_a_file_that_has_gone_is_not_said(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    path = a_trial_file(run, a_result(total_input_tokens=-5))
    meanwhile.after_reading(lambda: a_trial_file(run, a_result()))
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []
    a_trial_file(run, a_result(total_input_tokens=-5))

    def said() -> list[str]:
        following.follower.read_whole()
        return following.said

    wait_for(said, "the value that stays as it is")
    assert str(path) in following.said[0]
    assert "left out" in following.said[0]


def test_a_lock_that_is_completed_after_a_reading_is_waited_for(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = a_run(tmp_path / "run1", [a_result()]).resolve()
    lock = write_json(run / "tb.lock", json.dumps(LOCK)[:20])
    meanwhile.after_reading(lambda: write_json(lock, LOCK), of=lock)
    following = read_often(run, meanwhile)
    assert [event["agent"] for event in following.trials] == ["terminus"]
    assert following.said == []


def test_a_trial_is_not_published_without_its_other_file(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = an_experiment(tmp_path / "run").resolve()
    home = run / "completed" / "T0" / "00" / "run_02"
    timing = home / "agent" / "timing.json"
    meanwhile.after_reading(lambda: write_json(timing, TIMING), of=timing)
    with tailing.followed(run) as following:
        wait_for(lambda: following.trials, "the first trial")
        write_json(timing, "{")
        write_json(home / "run_result.json", RESULT)
        wait_for(lambda: len(following.trials) == 2 and meanwhile.is_done, "the second one")
        following.wait_until_converted()
    assert [event.get("finished_at") for event in following.trials[1:]] == [TIMING["measured_at"]]


def test_a_trial_that_left_is_published_from_where_it_went(tmp_path: Path, meanwhile: Meanwhile) -> None:
    """Its result was read, and its times were no longer there."""
    run = an_experiment(tmp_path / "run").resolve()
    write_json(run / "in_progress/T0/00/run_02/run_result.json", RESULT)
    meanwhile.after_reading(move_when_complete(run, "agent/timing.json", TIMING))
    following = read_often(run, meanwhile)
    assert [event.get("finished_at") for event in following.trials[1:]] == [TIMING["measured_at"]]


def test_a_result_that_was_away_for_one_reading_stays(tmp_path: Path, meanwhile: Meanwhile) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK).resolve()
    following = tailing.Followed(run)
    following.follower.read_whole()
    meanwhile.before_reading(lambda: (run / "oom").rename(tmp_path / "aside"))
    meanwhile.after_reading(lambda: (tmp_path / "aside").rename(run / "oom"))
    for _ in range(4):
        following.follower.read_whole()
    assert meanwhile.is_done
    assert [event["type"] for event in following.events] == ["run_started", "trial_result", "trial_result"]
    assert following.follower.status.withdrawn == 0


def test_reading_it_once_waits_for_all_that_is_to_be_said_and_withdrawn(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b", total_input_tokens=-5)]).resolve()
    before = tailing.Followed(run)
    before.follower.read_whole()
    write_json(run / "tb.lock", LOCK)
    broken = write_json(run / "c" / "c.1-of-1.run1" / "results.json", "[1")
    again = tailing.Followed(run, before.ledger)
    again.follower.run_once(threading.Event(), lambda: None)
    assert [str(broken) in line for line in sorted(again.said)] == [False, True]
    assert again.follower.status.withdrawn == 2
    assert list(again.follower.status.unreadable) == [broken]


class Looks:
    """Readings of one broken file under a clock of our own."""

    def __init__(self, path: Path, reason: str = "not valid JSON") -> None:
        self.now = 1000.0
        self.said: list[str] = []
        self.path = path
        self.settling = scan.FileStability(
            scan.STILL_SECONDS, clock=lambda: self.now, wall=lambda: self._written + 0.1
        )
        self.complaints = scan.Diagnostics(self.settling, self.said.append)
        self._report = ConvertReport(unreadable=[Unreadable(path, reason)])

    @property
    def _written(self) -> float:
        return os.stat(self.path).st_ctime if self.path.exists() else 0.0

    def look(self, seconds: float = 1.0, meanwhile: Callable[[], object] = lambda: None) -> list[str]:
        """A reading that takes so long and complains of the file; something happens before it ends."""
        begun = self.settling.begin()
        self.now += seconds
        meanwhile()
        self.complaints.hear(self._report, begun)
        return self.said


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(write_json(tmp_path / "results.json", "{"))


def test_a_complaint_is_said_when_the_file_has_been_still_for_long_and_once(looks: Looks) -> None:
    for _ in range(5):
        assert looks.look() == []
        assert looks.complaints.waiting == {looks.path}
    assert looks.look() == looks.look() == [f"{looks.path}: not valid JSON"]
    assert looks.complaints.waiting == set()
    assert looks.complaints.unreadable == {looks.path: "not valid JSON"}


def test_a_file_that_changes_all_the_time_is_never_complained_of(looks: Looks) -> None:
    for number in range(20):
        looks.look(4.0, lambda: write_json(looks.path, "{" * (number + 2)))  # noqa: B023
    assert looks.said == []


def test_a_file_that_is_replaced_by_another_of_the_same_kind_starts_anew(tmp_path: Path) -> None:
    """Written elsewhere long ago with the same size and time, then moved over it."""
    looks = Looks(write_json(tmp_path / "results.json", "{", mtime_ns=1_000))
    other = write_json(tmp_path / "other", "[", mtime_ns=1_000)
    for _ in range(5):
        looks.look()
    looks.look(meanwhile=lambda: other.rename(looks.path))
    assert looks.said == []
    assert looks.look(4.0) == []
    assert looks.look(2.0) != []


def test_a_file_that_came_back_after_a_reading_missed_it_is_never_complained_of(tmp_path: Path) -> None:
    """A directory above it was away for a moment, which leaves no trace in the file."""
    looks = Looks(write_json(tmp_path / "results.json", "{}"), VANISHED)
    for _ in range(9):
        assert looks.look(3.0) == []


def test_a_file_that_left_at_the_last_moment_is_not_complained_of(looks: Looks) -> None:
    for _ in range(5):
        looks.look()
    assert looks.look(meanwhile=looks.path.unlink) == []
    assert looks.look() == []


def test_a_file_is_unstable_until_it_parses_or_stays_still(tmp_path: Path) -> None:
    path = write_json(tmp_path / "results.json", '{"a": ')
    now, written = 100.0, os.stat(path).st_ctime
    settling = scan.FileStability(5.0, clock=lambda: now, wall=lambda: written + 1.0)
    for text, at, begun, verdict in (
        (None, 100.0, 99.0, scan.Stability.CHANGED),
        (None, 104.0, 103.0, scan.Stability.WRITING),
        ('{"a": 1, ', 104.0, 103.0, scan.Stability.CHANGED),
        (None, 108.0, 107.0, scan.Stability.WRITING),
        (None, 109.0, 107.0, scan.Stability.STANDS),
        ('{"a": 1}', 109.0, 108.0, scan.Stability.CHANGED),
        (None, 110.0, 109.5, scan.Stability.FRESH),
    ):
        now = at
        if text is not None:
            path.write_text(text)
        assert settling.judge([path], begun)[path] is verdict
    path.unlink()
    assert settling.judge([path], 109.9)[path] is scan.Stability.MISSING


def test_a_file_that_was_broken_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    path, missing = write_json(tmp_path / "results.json", "{"), tmp_path / "gone"
    later = os.stat(path).st_ctime + 60.0
    settling = scan.FileStability(5.0, clock=lambda: 0.0, wall=lambda: later)
    expected = {path: scan.Stability.FRESH, missing: scan.Stability.MISSING}
    assert settling.judge([path, missing], begun=0.0) == expected
    assert scan.unstable_paths(expected) == {missing}


def test_changes_that_no_system_tells_of_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, stop_event: threading.Event, **options: object) -> Iterator[set[Path]]:
        if not options["ignore_permission_denied"]:  # with it, watchfiles ignores every refusal
            raise OSError(28, "OS file watch limit reached")
        while not stop_event.wait(scan.TICK_SECONDS):
            yield set()

    monkeypatch.setattr("streamer.sources.tail.scan.watch", refuse)
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    with tailing.followed(run) as following:
        wait_for(lambda: following.trials, "what is there")
        a_trial_file(run, a_result("b"))
        wait_for(lambda: len(following.trials) == 2, "another result")
    assert ["watch limit" in line for line in following.said] == [True]


OPTIONS = ConvertOptions()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def an_index(root: Path) -> scan.RunIndex:
    """What a reading of the whole found."""
    index = scan.RunIndex(root, OPTIONS)
    index.replace(scan.read_whole(root, OPTIONS).runs, 0.0)
    return index


def test_a_path_belongs_to_the_innermost_run_around_it(root: Path) -> None:
    run = a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    result = index.at(run)
    assert result is not None
    assert index.around(run / "a" / "anything") is result
    assert index.around(root) is None
    assert not index.is_new(result)


def test_a_new_run_is_found_by_a_place_in_it_and_is_new_until_the_whole_has_it(root: Path) -> None:
    a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    run = a_run(root / "run2", [a_result("a", run="run2", id="another")])
    [result] = index.look_for([run / "a"])
    assert (result.path, index.is_new(result)) == (run, True)
    assert index.look_for([run / "a"]) == []
    index.replace(scan.read_whole(root, OPTIONS).runs, float("inf"))
    assert not any(index.is_new(run) for run in index)
    assert len(list(index)) == 2


def test_a_reading_that_began_before_a_run_came_does_not_forget_it(root: Path) -> None:
    index = an_index(root)
    run = a_run(root / "run1", [a_result("a")])
    [result] = index.look_for([run])
    index.replace([], 0.0)
    assert index.at(run) is result
    index.replace([], float("inf"))
    assert index.at(run) is None
