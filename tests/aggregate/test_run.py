"""After a recovery, scored trials are published again only where that may not have been done before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamer.folding.fold import Pipeline
from streamer.folding.slots import PageWrite
from streamer.schemas.wire import Record
from tests.support.events import a_plan, a_retraction, a_trial, folded, records

TRIALS = [a_trial(task_id=f"t{n}") for n in range(300)]


def at(offset: int, *events: Any) -> list[Record]:
    """Records from that offset of the log on."""
    values = (record.value for record in records(events))
    return [Record(value, offset + number) for number, value in enumerate(values)]


class Saved:
    """A worker that folds, saves its pages, and dies; what it wrote last of each page is left."""

    def __init__(self) -> None:
        self.pipeline = Pipeline(writer="w")
        self.pages: dict[str, bytes] = {}

    def fold(self, found: Iterable[Record]) -> None:
        self.pipeline.fold(found)
        writes: list[PageWrite] = self.pipeline.run("run-1").take_pages()
        self.pages |= {write.key: write.value for write in writes if write.value is not None}

    def recovered(self, settled_to: int) -> set[str]:
        """Tasks of the scored trials that whoever takes over drains."""
        successor = Pipeline(writer="v")
        for key, value in self.pages.items():
            successor.load_page(key, value, settled_to=settled_to)
        successor.loaded()
        return {change.key.split("|")[2] for change in successor.run("run-1").take_scored()}


def test_only_slots_on_pages_that_saw_events_not_yet_settled_are_drained() -> None:
    saved = Saved()
    saved.fold(at(0, *TRIALS))
    saved.fold(at(300, a_trial(task_id="late")))
    every = {f"t{n}" for n in range(300)} | {"late"}
    assert saved.recovered(0) == every
    assert saved.recovered(301) == set()
    last = saved.recovered(300)
    assert "late" in last
    assert len(last) < 64
    assert saved.recovered(299) == every  # every page was written when event 299 had been seen


def test_a_slot_that_changed_late_is_drained_wherever_it_lies() -> None:
    saved = Saved()
    saved.fold(at(0, *TRIALS))
    saved.fold(
        at(300, a_trial(task_id="t3", revision=1, resolved=False), a_retraction(task_id="t90", revision=5))
    )
    assert {"t3", "t90"} <= saved.recovered(300) < {f"t{n}" for n in range(300)}


def test_a_plan_that_may_not_be_settled_concerns_every_slot() -> None:
    saved = Saved()
    saved.fold(at(0, *TRIALS))
    saved.fold(at(300, a_plan(grading_profile="scylla-2026")))
    assert len(saved.recovered(300)) == 300
    assert saved.recovered(301) == set()


def test_late_news_of_a_sub_trial_concerns_the_others_of_its_trial() -> None:
    saved = Saved()
    other = a_trial(task_id="shared", agent="a", agent_index=2, tests={"status": "failed", "failed": 2})
    saved.fold(at(0, other, *TRIALS))
    saved.fold(
        at(
            301,
            a_trial(task_id="shared", agent="oracle", agent_index=1, tests={"status": "failed", "failed": 3}),
        )
    )
    successor = Pipeline(writer="v")
    for key, value in saved.pages.items():
        successor.load_page(key, value, settled_to=301)
    successor.loaded()
    drained = {change.key for change in successor.run("run-1").take_scored() if "|shared|" in change.key}
    assert {key.split("|")[4] for key in drained} == {"a", "oracle"}


def test_a_scored_trial_is_the_same_from_what_was_at_hand_and_from_what_is_kept() -> None:
    sub_trials = [a_trial(task_id="shared", agent=agent, agent_index=n) for n, agent in enumerate("ab", 1)]
    events = [
        a_plan(grading_profile="scylla-2026"),
        *TRIALS[:3],
        *sub_trials,
        a_trial(task_id="t1", revision=4, resolved=False),
        a_trial(task_id="t2", revision=2),
        a_retraction(task_id="t2", revision=1),
        a_trial(task_id="\u00fcnusual", started_at="2026-01-01T01:00:00+01:00", duration_seconds=None),
        a_trial(task_id="usual", started_at="2026-01-01T00:00:00+00:00", duration_seconds=2.5),
        a_plan(grading_profile="specified", revision=9),
    ]
    for known in (events[:-1], events):  # the last plan scores all trials again
        runs = [folded(known)[0].run("run-1") for _ in range(2)]
        runs[1].state.changes.only_scored_trials(runs[1].state.slots)
        at_hand, read_again = ({change.key: change.value for change in run.take_scored()} for run in runs)
        assert at_hand == read_again
    assert sorted(key.split("|")[2] for key in at_hand) == [
        "shared",
        "shared",
        "t0",
        "t1",
        "t2",
        "usual",
        "\u00fcnusual",
    ]


def test_trials_with_sections_are_not_kept_until_their_scored_trial_is_taken() -> None:
    run = folded([a_trial(task_id="plain"), a_trial(benchmarks={"b": {"agent/nop": 2.0}})])[0].run("run-1")
    judged = run.state.changes.take_scored()
    assert [found is not None for found in judged.values()] == [True, False]
