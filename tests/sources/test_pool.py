"""Runs that are pooled into one have one plan, and a shard each."""

from __future__ import annotations

from pathlib import Path

from streamer.sources.base import RunPlan, Unreadable
from streamer.sources.convert import pooled_started
from tests.sources.builders import a_result, a_run, converted, plan_of, slots_of
from tests.support.events import summarised


def test_pooled_runs_are_shards_of_one_run_with_one_plan(tmp_path: Path) -> None:
    for n, name in enumerate(("a", "b", "c")):
        a_run(
            tmp_path / name,
            [a_result(run=name)],
            [],
            lock={
                "dataset": {"task_ids": ["oom"], "name": "core", "version": f"0.{n}"},
                "agent": {"name": "x"},
            },
            metadata={
                "n_attempts": 2,
                "start_time": f"2025-01-0{n + 1}T00:00:00+00:00",
                "end_time": f"2025-02-0{n + 1}T00:00:00+00:00",
            },
        )
    events, report = converted(tmp_path, run_id="pool")
    assert slots_of(events) == [("pool", shard, "oom", 1) for shard in "abc"]
    assert {event["run_id"] for event in events} == {"pool"}
    plan = plan_of(events)
    assert (plan["tasks"], plan["attempts"], plan["agent_models"]) == (["oom"], 6, ["x:unknown"])
    assert plan["started_at"] == "2025-01-01T00:00:00+00:00"
    assert (plan["benchmark"], "benchmark_version" in plan) == ("core", False)
    (finished,) = [event for event in events if event["type"] == "run_finished"]
    assert finished["finished_at"] == "2025-02-03T00:00:00+00:00"
    assert report.runs == ["a", "b", "c"]


def test_a_pool_plans_no_attempts_if_its_tasks_differ_in_them_and_does_not_end_before_all(
    tmp_path: Path,
) -> None:
    finished = {"n_attempts": 1, "end_time": "2025-02-01T00:00:00+00:00"}
    a_run(tmp_path / "a", [a_result(run="a")], metadata={"task_ids": ["oom"], **finished})
    a_run(tmp_path / "b", [a_result(run="b")], metadata={"task_ids": ["oom", "b"], "n_attempts": 1})
    events, _ = converted(tmp_path, run_id="pool")
    plan = plan_of(events)
    assert (plan["tasks"], "attempts" in plan) == (["oom", "b"], False)
    assert not [event for event in events if event["type"] == "run_finished"]


def test_a_pool_has_a_chosen_order_and_an_incomplete_plan_as_soon_as_one_of_its_runs_has(
    tmp_path: Path,
) -> None:
    dataset = {"dataset": {"task_ids": ["oom"]}, "run_config": {"n_attempts": 1, "n_concurrent_trials": 4}}
    harness = {"package": "terminal-bench", "version": "0.2.18"}
    a_run(tmp_path / "a", [a_result(run="a")], lock=dataset | {"harness": harness})
    a_run(tmp_path / "b", [a_result(run="b")], lock=dataset)
    plan = plan_of(converted(tmp_path, run_id="pool")[0])
    assert (plan["order_kind"], plan["plan_complete"]) == ("chosen", True)
    assert not {"order", "concurrency"} & plan.keys()
    a_run(tmp_path / "c", [a_result(run="c")], lock={})
    assert plan_of(converted(tmp_path, run_id="pool")[0])["plan_complete"] is True
    a_run(tmp_path / "c", metadata={"n_attempts": 1})
    assert plan_of(converted(tmp_path, run_id="pool")[0])["plan_complete"] is False


def test_a_pool_has_an_incomplete_plan_until_all_of_its_runs_can_be_read() -> None:
    known = RunPlan("a", started={"tasks": ["oom"], "attempts": 1, "agent_models": ["terminus:gpt-5"]})
    unread = RunPlan("b", problems=[Unreadable(Path("b.eval"), "half of it")])
    address = {"type": "run_started", "run_id": "run-1"}
    half = pooled_started([known, unread]) | address
    whole = pooled_started([known, known]) | address | {"revision": 1}
    progress = [summarised(events)["run run-1"]["progress"] for events in ([half], [half, whole])]
    assert progress == [
        {"done": 0, "planned": None, "plan_complete": False},
        {"done": 0, "planned": 2, "plan_complete": True},
    ]
