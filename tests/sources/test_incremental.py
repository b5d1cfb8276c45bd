"""What changed is published before the whole is read again, and the whole has the last word all the same."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.base import ConvertOptions
from streamer.sources.tail import Ledger, follow
from streamer.sources.tail.scan import Scan, read_whole
from tests.sources.builders import LOCK, START, a_begun_trial, a_result, a_run, a_trial_file, write_json
from tests.sources.harbor import a_trial_result
from tests.support.layouts import LAYOUTS, simulate_run
from tests.support.tailing import Event, Followed, converted_digests, followed, wait_for_digests
from tests.support.worker_process import wait_for

CRASH: dict[str, Any] = {"is_resolved": None, "failure_mode": "unknown_agent_error", "parser_results": None}


class Whole:
    """Readings of the whole: the first one is let through, the others wait until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self._go = threading.Event()

    def read(self, *arguments: Any) -> Scan:
        self.begun += 1
        if self.begun > 1:
            self._go.wait()
        return read_whole(*arguments)

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[Whole]:
    stored = Whole()
    monkeypatch.setattr(follow, "read_whole", stored.read)
    yield stored
    stored.let_go()


def a_big_run(path: Path) -> Path:
    return a_run(path, [a_result(f"old-{number}", run=path.name) for number in range(50)], lock=LOCK)


def wait_for_what_is_there(following: Followed) -> None:
    wait_for(lambda: following.follower.status.readings == 1, "what is there")


def of_run(following: Followed, run_id: str) -> list[Event]:
    return [event for event in following.events if event["run_id"] == run_id]


@pytest.mark.parametrize("where", ["", "team/2026"])
def test_a_new_run_beside_a_big_one_is_published_while_the_whole_is_not_read(
    tmp_path: Path, whole: Whole, where: str
) -> None:
    a_big_run(tmp_path / "big")
    with followed(tmp_path) as following:
        wait_for_what_is_there(following)
        new = a_run(tmp_path / where / "new", [a_result(run="new")], lock=LOCK)
        wait_for(lambda: len(of_run(following, "new")) == 2, "its plan and its result")
        a_trial_file(new, a_result("b", run="new"))
        wait_for(lambda: len(of_run(following, "new")) == 3, "another result")
        a_trial_file(tmp_path / "big", a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the big one")
        before = list(following.events)
        whole.let_go()
        following.wait_until_converted()
    assert {event["type"] for event in before} == {"run_started", "trial_result"}
    assert following.events == before


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(2)
def test_a_new_run_of_any_harness_is_followed_to_its_end_while_the_whole_is_not_read(
    tmp_path: Path, whole: Whole, layout: str
) -> None:
    simulate_run(layout, tmp_path / "there", 20, seed=1, start=START)
    with followed(tmp_path) as following:
        wait_for_what_is_there(following)
        simulate_run(layout, tmp_path / "new", 20, seed=2, start=START, pace_seconds=0.02)
        results = {event["trial_name"] for event in following.trials if event["run_id"] == "there"}
        wait_for(
            lambda: (
                {"run_started", "run_finished"} <= {e["type"] for e in of_run(following, "new")}
                and len({e["trial_name"] for e in following.trials if e["run_id"] == "new"})
                >= len(results) * 0.8
            ),
            "its plan, its results and its end",
        )
        whole.let_go()
        following.wait_until_converted()


def test_a_run_that_is_not_there_yet_when_it_is_followed_needs_no_whole(tmp_path: Path, whole: Whole) -> None:
    with followed(tmp_path / "runs" / "run1") as following:
        wait_for_what_is_there(following)
        whole.let_go()
        a_run(tmp_path / "runs" / "run1", [a_result()], lock=LOCK)
        following.wait_until_converted()


@pytest.mark.parametrize("pool", [None, "pool"])
def test_a_trial_that_stands_only_in_the_run_level_file_is_published_while_the_whole_is_not_read(
    tmp_path: Path, whole: Whole, pool: str | None
) -> None:
    run = a_big_run(tmp_path / "run1")
    options = ConvertOptions(run_id=pool)
    with followed(run, options=options) as following:
        wait_for_what_is_there(following)
        done = [a_result(f"old-{number}") for number in range(50)]
        write_json(run / "results.json", {"results": [*done, a_result("b", **CRASH)]})
        wait_for(lambda: len(following.trials) == 51, "the crash")
        a_trial_file(run, a_result())
        wait_for(lambda: len(following.trials) == 52, "a result")
        write_json(run / "results.json", {"results": [*done, a_result("b", **CRASH), a_result()]})
        a_trial_file(run, a_result("last"))
        wait_for(lambda: len(following.trials) == 53, "another result")
        assert following.trials[50]["failure_mode"] == "unknown_agent_error"
        whole.let_go()
        following.wait_until_converted()
    assert len(following.trials) == 53


def test_agents_of_fc_eval_that_stand_only_in_the_run_level_file_are_published_while_the_whole_is_not_read(
    tmp_path: Path, whole: Whole
) -> None:
    simulate_run("fc-eval", tmp_path / "run", 20, seed=4, start=START)
    complete = json.loads((tmp_path / "run" / "results.json").read_text())
    directory = next(path.parent for path in sorted((tmp_path / "run").rglob("*agent-2*/results.json")))
    trial = directory.name.partition(".agent-")[0]
    kept = [entry for entry in complete["results"] if not entry["trial_name"].startswith(trial)]
    for path in directory.parent.glob(f"{trial}*"):
        if ".agent-1-" not in path.name:
            shutil.rmtree(path)
    write_json(tmp_path / "run" / "results.json", complete | {"results": kept})
    with followed(tmp_path / "run", missing_seconds=60.0) as following:
        wait_for_what_is_there(following)
        before = len(following.trials)
        write_json(tmp_path / "run" / "results.json", complete)
        wait_for(lambda: len(following.trials) == before + 2, "the two agents that left nothing")
        whole.let_go()
        following.wait_until_converted()
    assert len(following.trials) == before + 2
    assert [event["agent"] for event in following.trials[before:]] == ["oracle", "terminus-2"]
    assert all(event["benchmarks"] and event["tests"] for event in following.trials[before:])


def test_what_a_run_says_of_itself_is_published_while_the_whole_is_not_read(
    tmp_path: Path, whole: Whole
) -> None:
    run = a_big_run(tmp_path / "run1")
    with followed(run) as following:
        wait_for_what_is_there(following)
        write_json(run / "run_metadata.json", {"run_id": "run1", "end_time": "2026-01-02T10:00:00+00:00"})
        wait_for(lambda: following.events[-1]["type"] == "run_finished", "the end")
        whole.let_go()
        following.wait_until_converted()


def test_results_of_a_new_run_wait_for_its_lock(tmp_path: Path, whole: Whole) -> None:
    a_big_run(tmp_path / "big")
    with followed(tmp_path, still_seconds=60.0) as following:
        wait_for_what_is_there(following)
        write_json(tmp_path / "new" / "tb.lock", json.dumps(LOCK)[:20])
        a_trial_file(tmp_path / "new", a_result(run="new"))
        a_trial_file(tmp_path / "big", a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the other run")
        assert of_run(following, "new") == []
        write_json(tmp_path / "new" / "tb.lock", LOCK)
        wait_for(lambda: len(of_run(following, "new")) == 2, "its plan and its result")
        whole.let_go()
        following.wait_until_converted()
    assert [event["agent"] for event in of_run(following, "new") if "agent" in event] == ["terminus"]


def test_a_second_run_of_one_name_is_left_to_the_whole(tmp_path: Path, whole: Whole) -> None:
    a_big_run(tmp_path / "a" / "run1")
    with followed(tmp_path, missing_seconds=60.0) as following:
        wait_for_what_is_there(following)
        a_run(tmp_path / "b" / "run1", [a_result("other", id="another")], lock=LOCK)
        a_trial_file(tmp_path / "a" / "run1", a_result("newer"))
        wait_for(lambda: len(following.trials) == 51, "a result of the first one")
        assert "other" not in {event["task_id"] for event in following.trials}
        whole.let_go()
        wait_for(lambda: of_run(following, "b/run1"), "its results under a name of its own")


def test_a_copy_of_a_run_is_left_to_the_whole(tmp_path: Path, whole: Whole) -> None:
    """Nothing but the ids of its trials says so: its metadata does not name the original."""
    big = a_big_run(tmp_path / "big")
    with followed(tmp_path) as following:
        wait_for_what_is_there(following)
        shutil.copytree(big / "old-1", tmp_path / "copy" / "old-1")
        write_json(tmp_path / "copy" / "tb.lock", LOCK)
        a_trial_file(big, a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the original")
        whole.let_go()
        following.wait_until_converted()
    assert [event for event in of_run(following, "copy") if event["type"] == "trial_result"] == []


# -----------------------------------------------------------------------------
# A follower that is started again publishes the same events, and knows what it published before.


def restarted(before: Followed) -> Ledger:
    """The ledger as the journal has it after a kill."""
    ledger = Ledger()
    for line in before.lines:
        ledger.restore(json.loads(json.dumps(line)))
    return ledger


def test_a_restart_publishes_the_same_events_again(real: dict[str, Path]) -> None:
    with followed(real["fc-eval"]) as before:
        before.wait_until_converted()
    with followed(real["fc-eval"], restarted(before)) as after:
        after.wait_until_converted()
    assert after.events == before.events


def test_a_restart_knows_what_was_published_and_is_gone(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")])
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results, of nobody")
    shutil.rmtree(run / "b")
    write_json(run / "tb.lock", LOCK)
    with followed(run, restarted(before)) as after:
        wait_for_digests(lambda: before.events + after.events, converted_digests(run))


def test_a_withdrawal_that_was_noted_and_not_published_is_made_up_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results")
        shutil.rmtree(run / "b")
        wait_for(lambda: before.follower.status.withdrawn == 1, "the withdrawal")
    published = [event for event in before.events if event["type"] != "trial_retracted"]
    with followed(run, restarted(before)) as after:
        wait_for_digests(lambda: published + after.events, converted_digests(run))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(2)
def test_any_number_of_restarts_during_a_run_end_as_convert_has_it(tmp_path: Path, layout: str) -> None:
    run = tmp_path / "run"
    rng = random.Random(layout)
    harness = threading.Thread(
        target=simulate_run, args=(layout, run, 24), kwargs={"seed": 8, "start": START, "pace_seconds": 0.05}
    )
    harness.start()
    published: list[dict[str, object]] = []
    ledger = Ledger()
    while harness.is_alive():
        with followed(run, ledger) as following:
            harness.join(rng.random() * 0.5)
        published += following.events[: rng.randrange(len(following.events) + 1)]
        lines = list(ledger.dump())
        ledger = Ledger()
        for line in lines:
            ledger.restore(line)
    with followed(run, ledger) as following:
        wait_for_digests(lambda: [*published, *following.events], converted_digests(run))


# -----------------------------------------------------------------------------
# A trial that begins is published at once, before its result; and once.


def starts_of(following: Followed) -> list[Event]:
    return [event for event in following.events if event["type"] == "trial_started"]


def kinds_of(following: Followed) -> list[str]:
    return [event["type"] for event in following.events if event["type"] != "run_started"]


def begin_in_harbor(job: Path, name: str = "t__abc1234") -> Path:
    """The directory of a trial as harbor makes it first; its agent is named in both files."""
    config = {"trial_name": name, "agent": {"name": "codex", "model_name": "openai/gpt-5"}}
    write_json(job / name / "config.json", config | {"task": {"path": "tasks/t"}})
    write_json(job / name / "lock.json", {"task": {"name": "t"}, "agent": config["agent"]})
    return job / name


def a_harbor_job(job: Path) -> Path:
    write_json(job / "config.json", {"job_name": job.name, "agents": [{"name": "codex"}]})
    return job


SLOT = ("run_id", "shard", "task_id", "attempt", "agent", "model")


@pytest.mark.parametrize("harness", ["terminal-bench", "harbor"])
def test_a_trial_is_in_flight_until_its_result_comes(tmp_path: Path, harness: str) -> None:
    is_harbor = harness == "harbor"
    run = a_harbor_job(tmp_path / "job") if is_harbor else a_run(tmp_path / "run1", lock=LOCK)
    with followed(run) as following:
        trial = begin_in_harbor(run) if is_harbor else a_begun_trial(run)
        wait_for(lambda: starts_of(following), "the start")
        following.wait_until_converted()
        if is_harbor:
            write_json(trial / "result.json", a_trial_result())
        else:
            write_json(trial / "results.json", a_result())
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert kinds_of(following) == ["trial_started", "trial_result"]
    [start], [result] = starts_of(following), following.trials
    assert [start.get(name) for name in SLOT] == [result.get(name) for name in SLOT]
    assert start["revision"] < result["revision"]


def test_a_start_from_before_the_lock_moves_to_the_agent_that_it_names(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")])
    a_begun_trial(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following), "a start of nobody")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: len(starts_of(following)) == 2, "the start of the agent")
        following.wait_until_converted()
    assert [event["agent"] for event in starts_of(following)] == ["unknown", "terminus"]
    withdrawn = [event["task_id"] for event in following.events if event["type"] == "trial_retracted"]
    assert sorted(withdrawn) == ["b", "oom"]


def test_a_start_is_withdrawn_when_the_directory_of_its_trial_goes(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    trial = a_begun_trial(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following), "the start")
        shutil.rmtree(trial.parent)
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
    assert following.events[-1]["revision"] == starts_of(following)[0]["revision"]


def test_a_retry_of_harbor_begins_once_more(tmp_path: Path) -> None:
    """Its directory is deleted with the result of the first try, and made again."""
    job = a_harbor_job(tmp_path / "job")
    begin_in_harbor(job, "other__1234567")
    with followed(job) as following:
        trial = begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following)) == 2, "both starts")
        write_json(trial / "result.json", a_trial_result(exception_info={"exception_type": "RuntimeError"}))
        wait_for(lambda: following.trials, "the result of the first try")
        shutil.rmtree(trial)
        begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following)) == 3, "the start of the second try")
        following.wait_until_converted()
        write_json(trial / "result.json", a_trial_result())
        following.wait_until_converted()
    again = kinds_of(following)[2:]
    assert again == ["trial_result", "trial_retracted", "trial_started", "trial_result"]
    first, retracted, second, last = (event["revision"] for event in following.events[-4:])
    assert first <= retracted < second < last
