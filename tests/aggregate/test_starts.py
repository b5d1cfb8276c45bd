"""Trials in flight: from their start until their result, in whatever order both arrive (inference 3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.folding.fold import Pipeline
from streamer.folding.run import PAGE_VERSION
from tests.support.events import (
    a_deletion,
    a_plan,
    a_retraction,
    a_start,
    a_trial,
    digests,
    folded,
    records,
    summarised,
)

AGENT = "agent_model run-1|terminus:gpt-5"
END: dict[str, Any] = {"type": "run_finished", "run_id": "run-1"}


def in_flight(*events: dict[str, Any]) -> dict[str, int]:
    return {key: summary["in_flight"] for key, summary in summarised(events).items()}


def test_a_start_makes_a_summary_before_any_result() -> None:
    assert in_flight(a_start(tier="T0")) == {
        AGENT: 1,
        "tier run-1|T0": 1,
        "tier run-1|T0|terminus:gpt-5": 1,
        "run run-1": 1,
    }


def test_its_result_ends_it_whichever_comes_first() -> None:
    assert in_flight(a_start(), a_trial()) == in_flight(a_trial(), a_start()) == {AGENT: 0, "run run-1": 0}


def test_a_retracted_result_leaves_a_trial_in_flight_only_if_it_started_again() -> None:
    gone = [a_start(), a_trial(), a_retraction(revision=0)]
    assert in_flight(*gone) == {"run run-1": 0}
    assert in_flight(*gone, a_start(revision=1)) == {AGENT: 1, "run run-1": 1}


def test_the_end_of_the_run_ends_what_is_in_flight() -> None:
    assert in_flight(a_start(), a_trial(task_id="other"), END) == {AGENT: 0, "run run-1": 0}
    assert in_flight(a_start(), END) == {"run run-1": 0}


def test_a_deletion_forgets_starts_up_to_its_revision() -> None:
    assert in_flight(a_start(), a_start(task_id="other", revision=2), a_deletion(revision=1)) == {
        AGENT: 1,
        "run run-1": 1,
    }


def test_the_smallest_time_and_the_smallest_position_count_whatever_start_they_came_with() -> None:
    late = a_start(started_at="2026-01-01T00:00:09Z", position=2)
    early = a_start(started_at="2026-01-01T00:00:01Z", position=7)
    for events in ([late, early], [early, late]):
        pipeline, _ = folded(events)
        (trial,) = pipeline.run("run-1").in_flight(9)
        assert (trial["started_at"], trial["position"]) == ("2026-01-01T00:00:01Z", 2)


def test_a_start_that_a_retraction_withdraws_leaves_what_later_starts_said() -> None:
    events = [
        a_start(position=1),
        a_start(position=5, revision=3),
        a_start(position=9, revision=2),
        a_retraction(revision=1),
    ]
    pipeline, _ = folded(events)
    assert [trial["position"] for trial in pipeline.run("run-1").in_flight(9)] == [5]


def test_the_trials_in_flight_are_listed_the_longest_running_first() -> None:
    starts = [
        a_start(task_id="c"),
        a_start(task_id="b", started_at="2026-01-01T00:00:02Z"),
        a_start(task_id="a", started_at="2026-01-01T00:00:01Z"),
        a_start(task_id="done", started_at="2026-01-01T00:00:00Z"),
    ]
    pipeline, _ = folded([*starts, a_trial(task_id="done")])
    assert [trial["task_id"] for trial in pipeline.run("run-1").in_flight(9)] == ["a", "b", "c"]
    assert [trial["task_id"] for trial in pipeline.run("run-1").in_flight(2)] == ["a", "b"]
    pipeline.fold(records([END]))
    assert pipeline.run("run-1").in_flight(9) == []


def test_only_the_same_start_is_a_duplicate() -> None:
    _, found = folded([a_start(position=3), a_start(position=3), a_start(position=4), a_start(position=2)])
    assert (found.counted, found.duplicates) == (2, 2)
    _, found = folded([a_retraction(revision=1), a_start(revision=1)])
    assert (found.counted, found.ignored) == (1, 1)


@pytest.mark.parametrize("results", [0, 3])
def test_starts_survive_on_state_pages(results: int) -> None:
    starts = [a_start(task_id=f"t{n}", position=n) for n in range(5)]
    events = [*starts, *(a_trial(task_id=f"t{n}") for n in range(results))]
    pipeline, _ = folded(events, writer="w")
    recovered = Pipeline(writer="v")
    for write in pipeline.run("run-1").take_pages():
        recovered.load_page(write.key, write.value or b"")
    recovered.loaded()
    assert digests(recovered) == digests(pipeline)
    assert recovered.run("run-1").in_flight(9) == pipeline.run("run-1").in_flight(9)
    assert recovered.run("run-1").take_pages() == []


def test_a_page_of_the_version_before_is_read_and_has_no_starts() -> None:
    pipeline, _ = folded([a_trial(), a_trial(task_id="t2", revision=1), a_trial(task_id="t2")], writer="w")
    (page,) = pipeline.run("run-1").take_pages()
    head, _, body = (page.value or b"").partition(b"\n")
    header = json.loads(head)
    assert header["v"] == PAGE_VERSION
    recovered = Pipeline(writer="v")
    recovered.load_page(page.key, json.dumps(header | {"v": 2}).encode() + b"\n" + body)
    assert digests(recovered) == digests(pipeline)


def test_a_plan_between_start_and_result_changes_nothing_about_them() -> None:
    events = [a_start(), a_plan(baselines=["terminus"], tasks=["task-1"]), a_trial()]
    assert in_flight(*events) == in_flight(*reversed(events))


def test_a_group_that_has_only_starts_follows_the_denominators_of_the_run() -> None:
    pipeline = Pipeline()
    events = [a_plan(tasks=2, attempts=1), a_start(agent="nop", model="m"), a_trial(tier="T0", subtest="a")]
    events.append(a_trial(tier="T1", subtest="a"))
    published: dict[str, str] = {}
    for record in records(events):
        pipeline.fold([record])
        taken = pipeline.run("run-1").take_changes().summaries
        published.update({f"{change.kind} {change.key}": change.digest for change in taken})
    assert published == digests(pipeline)
