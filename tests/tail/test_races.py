"""A directory that changes while it is read: what was read of it is not taken for what is there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.tail import follow
from streamer.sources.tail import follow as incremental
from streamer.sources.tail.scan import Scan
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.support.tailing import Followed, followed
from tests.support.worker_process import wait_for

LOCK = {"agent": {"name": "terminus", "model_name": "gpt-5"}, "run_config": {"n_attempts": 1}}
RESULT = {"judge_passed": True, "judge_score": 0.9, "exit_code": 0, "cost_usd": 0.25}
TIMING = {"agent_duration_seconds": 60.0, "measured_at": "2026-01-02T10:00:00+00:00"}

Reader = Callable[..., Scan]


class Meanwhile:
    """Does something once, after a reading whose report complains of a path, or before any reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._before: list[Callable[[], object]] = []
        self._after: list[tuple[Path | None, Callable[[], object]]] = []
        for module, name in ((follow, "read_whole"), (incremental, "read_part")):
            monkeypatch.setattr(module, name, self._around(getattr(module, name)))

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


def read_often(following: Followed, times: int = 4) -> None:
    for _ in range(times):
        following.follower.read_whole()


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
    following = Followed(run, still_seconds=0.0)
    read_often(following)
    assert meanwhile.is_done
    assert following.said == []
    assert [event["attempt"] for event in following.trials] == [1, 2]
    assert following.follower.status.unreadable == {}


def test_a_file_below_a_directory_that_was_renamed_is_never_complained_of(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    broken = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", "{")
    meanwhile.after_reading(lambda: (run / "oom").rename(tmp_path / "elsewhere"), of=broken)
    following = Followed(run, still_seconds=0.0)
    read_often(following)
    assert meanwhile.is_done
    assert following.said == []


def test_a_file_that_was_completed_after_it_was_read_is_never_complained_of_whatever_its_size_and_time(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    whole = json.dumps(a_result())
    path = run / "oom" / "oom.1-of-1.run1" / "results.json"
    write_json(path, whole[:-1].ljust(len(whole)), mtime_ns=1_000)
    meanwhile.after_reading(lambda: write_json(path, whole, mtime_ns=1_000), of=path)
    following = Followed(run, still_seconds=0.0)
    read_often(following)
    assert meanwhile.is_done
    assert following.said == []
    assert len(following.trials) == 2


def test_a_value_left_out_of_a_file_that_has_gone_is_not_spoken_of(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK).resolve()
    path = a_trial_file(run, a_result(total_input_tokens=-5))
    meanwhile.after_reading(lambda: a_trial_file(run, a_result()))
    following = Followed(run, still_seconds=0.0)
    read_often(following)
    assert meanwhile.is_done
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
    following = Followed(run)
    following.follower.read_whole()
    assert following.events == []
    read_often(following)
    assert [event["agent"] for event in following.trials] == ["terminus"]
    assert following.said == []


def test_a_trial_whose_other_file_was_completed_after_it_was_read_is_not_published_without_it(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = an_experiment(tmp_path / "run").resolve()
    home = run / "completed" / "T0" / "00" / "run_02"
    timing = home / "agent" / "timing.json"
    meanwhile.after_reading(lambda: write_json(timing, TIMING), of=timing)
    with followed(run) as following:
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
    following = Followed(run)
    read_often(following)
    assert [event.get("finished_at") for event in following.trials[1:]] == ["2026-01-02T10:00:00+00:00"]


def test_a_result_that_was_elsewhere_while_one_reading_looked_is_not_withdrawn(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK).resolve()
    following = Followed(run)
    following.follower.read_whole()
    meanwhile.before_reading(lambda: (run / "oom").rename(tmp_path / "aside"))
    meanwhile.after_reading(lambda: (tmp_path / "aside").rename(run / "oom"))
    read_often(following)
    assert meanwhile.is_done
    assert [event["type"] for event in following.events] == ["run_started", "trial_result", "trial_result"]
    assert following.follower.status.withdrawn == 0


def test_reading_it_once_waits_for_all_that_is_to_be_said_and_withdrawn(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b", total_input_tokens=-5)]).resolve()
    before = Followed(run)
    before.follower.read_whole()
    write_json(run / "tb.lock", LOCK)
    broken = write_json(run / "c" / "c.1-of-1.run1" / "results.json", "[1")
    again = Followed(run, before.ledger)
    again.follower.run_once(threading.Event(), lambda: None)
    assert [str(broken) in line for line in sorted(again.said)] == [False, True]
    assert again.follower.status.withdrawn == 2
    assert list(again.follower.status.unreadable) == [broken]
