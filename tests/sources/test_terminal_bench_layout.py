"""Terminal-Bench's layout: the names of directories, and the queue that the lock tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import a_result, a_run, converted, plan_of, slots_of, trials_of, write_json
from tests.support.data import shared_data


@pytest.mark.parametrize(
    ("package", "version", "kind"),
    [
        ("terminal-bench", "0.2.18", "chosen"),
        ("terminal-bench", "0.2.13", "chosen"),
        ("terminal-bench", "0.2.7", None),
        ("terminal-bench", None, None),
        ("fc-eval", "0.1.0", "chosen"),
        ("other", "9.9.9", None),
    ],
)
def test_the_order_is_chosen_where_the_harness_is_known_to_sort_by_expected_duration(
    tmp_path: Path, package: str, version: str | None, kind: str | None
) -> None:
    lock = {"harness": {"package": package, "version": version}, "dataset": {"task_ids": ["b", "a"]}}
    plan = plan_of(converted(a_run(tmp_path / "run1", [a_result()], lock=lock), harness="terminal-bench")[0])
    assert (plan.get("order_kind"), "order" in plan) == (kind, False)


def test_the_plan_of_a_real_run_has_its_queue_task_by_task_and_its_concurrency() -> None:
    """The lock of the first was written by version 0.2.7, of the second by 0.2.17."""
    folder = shared_data() / "terminal_bench" / "runs"
    plan = plan_of(converted(folder / "20250902_orchestrator_qwen-3-coder-480B")[0])
    assert (plan["concurrency"], plan.get("order_kind"), plan["plan_complete"]) == (25, None, True)
    assert plan["order"] == [[task, attempt] for task in plan["tasks"] for attempt in range(1, 6)]
    plan = plan_of(converted(folder / "20250924_droid_gpt-5" / "tb_rc2_g5_4")[0])
    assert (plan["concurrency"], plan["order_kind"], plan["order"]) == (2, "chosen", plan["tasks"])


@pytest.mark.parametrize(
    ("lock", "complete"),
    [({}, False), ({"dataset": {"task_ids": ["a"]}}, True), ('{"dataset": ', False)],
)
def test_a_plan_without_tasks_or_with_an_unreadable_lock_is_not_complete(
    tmp_path: Path, lock: dict[str, Any] | str, complete: bool
) -> None:
    run = a_run(tmp_path / "run1", [a_result()], metadata={"n_attempts": 1})
    write_json(run / "tb.lock", lock)
    assert plan_of(converted(run)[0])["plan_complete"] is complete


@pytest.mark.parametrize("lock", ["tb.lock", "fc.lock"])
@pytest.mark.parametrize("task", ["sessions", "panes", "agent-logs", "fix.agent-1-bug"])
def test_g2_a_directory_below_the_run_is_a_tasks_whatever_its_name(
    tmp_path: Path, task: str, lock: str
) -> None:
    run = a_run(tmp_path / "run1", [a_result(task), a_result("b")])
    write_json(run / lock, {"agent": {"name": "terminus"}})
    events, report = converted(run)
    assert slots_of(events) == sorted([("run1", "", task, 1), ("run1", "", "b", 1)])
    assert not report.unreadable


def test_g2_a_run_may_be_called_like_an_agents_part_of_a_trial(tmp_path: Path) -> None:
    run = a_run(tmp_path / "my.agent-1-run", [a_result(run="my.agent-1-run")])
    write_json(run / "oom" / "oom.1-of-1.my.agent-1-run.agent-2-nop" / "results.json", a_result(id="sub"))
    assert [trial["trial_id"] for trial in trials_of(converted(run, harness="terminal-bench")[0])] == [
        "id of oom.1-of-1.my.agent-1-run"
    ]
