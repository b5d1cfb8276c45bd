"""Where the trials of a run stand in its queue, and what a plan that grew leaves of it."""

from __future__ import annotations

from typing import Any

from streamer.folding.plan import Plan, Queue
from streamer.folding.slots import SlotKey
from streamer.schemas.events import RunStarted
from streamer.statistics.final import OrderKind


def a_queue(*plans: dict[str, Any]) -> Queue:
    plan = Plan()
    for revision, fields in enumerate(plans, 1):
        event = {"type": "run_started", "run_id": "r", "revision": revision} | fields
        plan.join(RunStarted.model_validate(event), "f")
    return Queue("r", plan)


def slot(task: str, attempt: int = 1) -> SlotKey:
    return SlotKey("", task, attempt, "a", "m", None, None)


def test_a_plan_without_an_order_has_no_places() -> None:
    queue = a_queue({"tasks": ["a", "b"]})
    assert (queue.places, queue.place(slot("a")), queue.kind) == (None, None, OrderKind.UNKNOWN)
    assert not queue.has_grown
    assert queue.first_trials(7) == 7


def test_tasks_that_come_once_share_their_place_among_their_attempts() -> None:
    queue = a_queue({"tasks": ["a", "b"], "attempts": 2, "order": ["b", "a"], "order_kind": "shuffled"})
    assert [queue.place(slot(task, attempt)) for task in "ab" for attempt in (1, 2)] == [1, 1, 0, 0]
    assert (queue.places, queue.kind) == (2, OrderKind.SHUFFLED)
    assert queue.place(slot("elsewhere")) is None


def test_a_task_that_comes_again_is_its_next_attempt() -> None:
    queue = a_queue({"tasks": ["a", "b"], "attempts": 2, "order": ["a", "b", "a", "b"]})
    assert [queue.place(slot(task, attempt)) for attempt in (1, 2) for task in "ab"] == [0, 1, 2, 3]
    named = a_queue({"tasks": ["a", "b"], "attempts": 2, "order": [("a", 1), ("b", 1), ("a", 2), ("b", 2)]})
    assert [named.place(slot(task, attempt)) for attempt in (1, 2) for task in "ab"] == [0, 1, 2, 3]


def test_a_plan_that_grew_tells_its_first_trials_from_the_later_ones() -> None:
    queue = a_queue({"tasks": ["a", "b"]}, {"tasks": ["a", "b", "c", "d"], "order": ["d", "a", "b", "c"]})
    assert queue.has_grown
    assert [queue.is_later(slot(task)) for task in "abcd"] == [False, False, True, True]
    assert [queue.place(slot(task)) for task in "abcd"] == [0, 1, None, None]
    assert queue.first_trials(8) == 4


def test_how_many_trials_were_first_cannot_be_told_where_tasks_are_only_counted() -> None:
    queue = a_queue({"tasks": 2}, {"tasks": 4})
    assert queue.has_grown
    assert queue.first_trials(4) is None


def test_a_task_that_was_withdrawn_has_no_place_any_more() -> None:
    queue = a_queue({"tasks": ["a", "b"]}, {"tasks": ["b"], "order": ["a", "b"]})
    assert (queue.place(slot("a")), queue.place(slot("b")), queue.places) == (None, 0, 1)
