"""The ledger makes the log say what a directory says; the journal survives; settling waits for files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.settings import Settings
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
)
from streamer.sources.tail.scan import Scan
from tests.sources.builders import LOCK, a_result, a_run, a_trial_file, write_json
from tests.support.events import a_plan, a_trial
from tests.support.examples import examples
from tests.support.tailing import Followed as Followed_of_races
from tests.support.tailing import digests_of
from tests.support.tailing import followed as followed_of_races
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
    wanted_digests = digests_of([plan, *(event for _, event in results_of(last))])
    assert digests_of(log) == wanted_digests


def test_resolved_results_are_published_once() -> None:
    ledger = Ledger()
    results = results_of({"f1": ("t1", 1, 1), "f2": ("t1", 2, 2)})
    assert len(reconciled(ledger, results)) == 2
    assert reconciled(ledger, results) == []
    again = reopened(ledger)
    assert reconciled(again, results) == [results[1][1]]


def a_start(**fields: Any) -> EventFields:
    event = {"type": "trial_started", "run_id": "run-1", "task_id": "t1", "agent": "terminus", "model": "m"}
    return event | {"revision": 5} | fields


def test_a_start_is_published_once_and_a_restart_knows_it() -> None:
    ledger = Ledger()
    assert list(ledger.start(directory_result(a_start(), "t1"))) == [a_start()]
    assert list(ledger.start(directory_result(a_start(revision=9), "t1"))) == []
    assert list(reopened(ledger).start(directory_result(a_start(), "t1"))) == []
    ((key, path),) = reopened(ledger).begun()
    assert (key[1].task_id, path) == ("t1", "t1")


def test_a_start_counts_for_nothing_where_a_result_stands() -> None:
    ledger = Ledger()
    (event,) = reconciled(ledger, results_of({"f1": ("t1", 1, 1)}))
    start = {name: event[name] for name in ("run_id", "task_id", "agent", "model")}
    assert list(ledger.start(directory_result({"type": "trial_started", "revision": 9, **start}, "t1"))) == []
    assert list(ledger.begun()) == []


def test_a_start_after_a_withdrawal_lies_above_it() -> None:
    ledger = Ledger()
    first = directory_result(a_start(), "t1")
    assert len(list(ledger.start(first))) == 1
    assert ledger.retract(first.key)["revision"] == 5
    assert list(reopened(ledger).retracted()) != []
    again = reopened(ledger)
    assert [event["revision"] for event in again.start(first)] == [6]
    assert list(reopened(again).start(first)) == []


def test_a_plan_is_published_when_it_says_something_else() -> None:
    ledger = Ledger()
    published = [
        event
        for plan in (
            a_plan(tasks=2, revision=5),
            a_plan(tasks=2, revision=7),
            a_plan(tasks=3, revision=5),
            a_plan(tasks=3, revision=4),
        )
        for event in ledger.plan(plan)
    ]
    assert [(event["tasks"], event["revision"]) for event in published] == [(2, 5), (3, 6)]
    assert list(reopened(ledger).plan(a_plan(tasks=3, revision=9))) == [a_plan(tasks=3, revision=6)]


# -----------------------------------------------------------------------------
# The ledger on disk: what is cut off counts for nothing, and a directory has one follower.


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
    path = tmp_path / "journal.ndjson"
    with (
        LedgerFile(path, tmp_path),
        pytest.raises(AlreadyFollowed, match="stop it first"),
        LedgerFile(path, tmp_path),
    ):
        pass
    with LedgerFile(path, tmp_path) as journal:
        assert journal.problem is None


def test_a_journal_that_cannot_be_kept_is_a_problem_and_not_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with LedgerFile(tmp_path / "file" / "journal.ndjson", tmp_path) as journal:
        ledger = journal.load()
        reconciled(ledger, results_of({"f1": ("t1", 1, 1)}))
        journal.append(ledger.lines)
        assert "cannot keep" in (journal.problem or "")


def test_what_was_followed_is_remembered_with_its_pool_wherever_one_looks_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for pool in (None, "pool"):
        with LedgerFile(ledger_path(settings, Path("runs"), pool), Path("runs"), pool) as ledger:
            ledger.load()
    monkeypatch.chdir("/")
    expected = {Followed(tmp_path / "runs", None), Followed(tmp_path / "runs", "pool")}
    assert set(followed(settings)) == expected


@pytest.mark.parametrize(
    "first",
    [
        *("", "[]\n", '{"followed": 1, "run_id": null}\n', "\x00\n"),
        '{"followed": "runs"}\n',
        '{"followed": "runs", "run_id": null}\n',
        '{"followed": "/runs"}\n',
        '{"followed": "/runs", "run_id": 1}\n',
    ],
)
def test_a_ledger_that_names_no_directory_and_pool_as_one_of_today_does_names_nothing(
    tmp_path: Path, first: str
) -> None:
    """Older versions wrote the directory as the user did, relative to wherever that was, and no pool."""
    settings = Settings(data_dir=tmp_path / "data")
    path = ledger_path(settings, Path("runs"), None)
    path.parent.mkdir(parents=True)
    path.write_text(first)
    assert followed(settings) == []


def test_a_ledger_of_an_older_version_names_its_directory_once_it_is_followed_again(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    path = ledger_path(settings, tmp_path, "pool")
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"followed": "{tmp_path}"}}\n')
    with LedgerFile(path, tmp_path, "pool") as ledger:
        ledger.load()
    assert followed(settings) == [Followed(tmp_path, "pool")]


# -----------------------------------------------------------------------------
# A directory that changes while it is read: what was read of it is not taken for what is there.


RESULT = {"judge_passed": True, "judge_score": 0.9, "exit_code": 0, "cost_usd": 0.25}
TIMING = {"agent_duration_seconds": 60.0, "measured_at": "2026-01-02T10:00:00+00:00"}

Reader = Callable[..., Scan]


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

    def _around(self, read: Reader) -> Reader:
        def reading_of(*arguments: Any) -> Scan:
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
    write_json(
        path / "config" / "experiment.json", {"experiment_id": "test", "models": ["claude-sonnet-4-5"]}
    )
    write_json(path / "completed" / "T0" / "00" / "run_01" / "run_result.json", RESULT)
    return path


def read_often(run: Path, meanwhile: Meanwhile, **more: Any) -> Followed_of_races:
    """Read a directory until all is done that happens meanwhile, and more."""
    following = Followed_of_races(run, **more)
    for _ in range(4):
        following.follower.read_whole()
    assert meanwhile.is_done
    return following


def test_a_file_that_was_read_by_half_and_then_moved_is_never_complained_of(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    """As ProjectScylla does: the result is completed, then its directory moved to completed/."""
    run = an_experiment(tmp_path / "run").resolve()
    home = run / "in_progress" / "T0" / "00" / "run_02"
    result = write_json(home / "run_result.json", json.dumps(RESULT)[:30])

    def complete_and_move() -> None:
        write_json(result, RESULT)
        home.rename(run / "completed" / "T0" / "00" / "run_02")

    meanwhile.after_reading(complete_and_move, of=result)
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []
    assert [event["attempt"] for event in following.trials] == [1, 2]
    assert following.follower.status.unreadable == {}


def test_a_file_below_a_directory_that_was_renamed_is_never_complained_of(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    broken = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", "{")
    meanwhile.after_reading(lambda: (run / "oom").rename(tmp_path / "elsewhere"), of=broken)
    following = read_often(run, meanwhile, still_seconds=0.0)
    assert following.said == []


def test_a_file_that_was_completed_after_it_was_read_is_never_complained_of_whatever_its_size_and_time(
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


def test_a_value_left_out_of_a_file_that_has_gone_is_not_spoken_of(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
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


def test_a_lock_that_was_completed_after_it_was_read_is_waited_for(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result()]).resolve()
    lock = write_json(run / "tb.lock", json.dumps(LOCK)[:20])
    meanwhile.after_reading(lambda: write_json(lock, LOCK), of=lock)
    following = read_often(run, meanwhile)
    assert [event["agent"] for event in following.trials] == ["terminus"]
    assert following.said == []


def test_a_trial_whose_other_file_was_completed_after_it_was_read_is_not_published_without_it(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = an_experiment(tmp_path / "run").resolve()
    home = run / "completed" / "T0" / "00" / "run_02"
    timing = home / "agent" / "timing.json"
    meanwhile.after_reading(lambda: write_json(timing, TIMING), of=timing)
    with followed_of_races(run) as following:
        wait_for(lambda: following.trials, "the first trial")
        write_json(timing, "{")
        write_json(home / "run_result.json", RESULT)
        wait_for(lambda: len(following.trials) == 2 and meanwhile.is_done, "the second one")
        following.wait_until_converted()
    assert [event.get("finished_at") for event in following.trials[1:]] == ["2026-01-02T10:00:00+00:00"]


def test_a_trial_that_left_while_it_was_read_is_published_from_where_it_went(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    """Its result was read, and its times were no longer there."""
    run = an_experiment(tmp_path / "run").resolve()
    home = run / "in_progress" / "T0" / "00" / "run_02"
    write_json(home / "run_result.json", RESULT)

    def move() -> None:
        write_json(home / "agent" / "timing.json", TIMING)
        home.rename(run / "completed" / "T0" / "00" / "run_02")

    meanwhile.after_reading(move)
    following = read_often(run, meanwhile)
    assert [event.get("finished_at") for event in following.trials[1:]] == ["2026-01-02T10:00:00+00:00"]


def test_a_result_that_was_elsewhere_while_one_reading_looked_is_not_withdrawn(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK).resolve()
    following = Followed_of_races(run)
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
    before = Followed_of_races(run)
    before.follower.read_whole()
    write_json(run / "tb.lock", LOCK)
    broken = write_json(run / "c" / "c.1-of-1.run1" / "results.json", "[1")
    again = Followed_of_races(run, before.ledger)
    again.follower.run_once(threading.Event(), lambda: None)
    assert [str(broken) in line for line in sorted(again.said)] == [False, True]
    assert again.follower.status.withdrawn == 2
    assert list(again.follower.status.unreadable) == [broken]
