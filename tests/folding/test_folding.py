"""The comparison as it is published: when there is one, what limits it, when it is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding import pairs, state, summaries
from streamer.folding.fold import Pipeline, QuarantinedRun, RunRegistry, fold_records
from streamer.folding.run import Run
from streamer.schemas.base import digest_of
from streamer.schemas.events import RunStarted
from streamer.schemas.wire import Failure, Quarantine, Record, records_of_lines
from tests.folding.compared import PLAN, compared, tasks_of, the_comparison, trial
from tests.support.events import a_plan, a_trial, digests, records, reread


def test_baselines_and_single_agents_are_not_compared() -> None:
    one = [PLAN, trial("a", "t1", passed=True), trial("nop", "t1", passed=False)]
    assert compared(one) is None
    assert tasks_of(one) == {"t1": {"a:m": [1, 1, 0]}}
    with_planned = [a_plan(agent_models=["a:m", "b:m"], revision=7), *one]
    assert [agent["agent"] for agent in the_comparison(with_planned)["agents"]] == ["a", "b"]


def test_beyond_sixty_agents_and_too_many_trials_there_is_none_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [trial(f"a{number:02}", "t1", passed=True) for number in range(61)]
    result = the_comparison([PLAN, *many])
    assert (result["missing"], result["rank_missing"]) == ("too_many_agents",) * 2
    assert (result["pairs"], len(result["agents"]), result["agents_total"]) == ([], 60, 61)
    assert tasks_of([PLAN, *many]) == {}
    assert len(the_comparison([PLAN, *many[1:]])["pairs"]) == 60 * 59 // 2
    monkeypatch.setattr(pairs, "MOST_CELLS", 59)
    assert the_comparison([PLAN, *many[1:]])["missing"] == "too_many_trials"
    monkeypatch.setattr(pairs, "MOST_RANKED_TASKS", 11)
    assert the_comparison([PLAN, *many[:2]])["rank_missing"] == "too_many_trials"


def test_a_comparison_is_taken_where_it_is_wanted_and_only_if_it_differs() -> None:
    pipeline = Pipeline()
    *before, last = records([PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)])
    run_id = "run-1"
    pipeline.fold(before)
    update = pipeline.run(run_id).take_changes(comparison=False)
    assert update.tasks is None
    assert all(change.kind != "comparison" for change in update.summaries)
    pipeline.fold([last])
    run = pipeline.run(run_id)
    update = run.take_changes()
    assert "comparison" in [change.kind for change in update.summaries]
    assert update.tasks == run.comparisons.tasks_taken
    assert (run.take_changes().summaries, run.take_changes().tasks) == ([], None)


# -----------------------------------------------------------------------------
# An exception while one run is folded stays with that run.


SICK = "sick"


class Poisoned(ArithmeticError):
    """What a bug would raise."""


def trial_of_failing_runs(run_id: str, task: str, **fields: Any) -> bytes:
    return orjson.dumps(
        {"type": "trial_result", "run_id": run_id, "task_id": task, "agent": "a", "model": "m"} | fields
    )


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring a trial of the task `poison` fails."""

    score = state.score_trial  # type: ignore[attr-defined]

    def poisoned(event: Any, *given: Any) -> Any:
        if event.task_id == "poison":
            raise Poisoned("cannot be divided\n\x1b[31m" + "x" * 1000)
        return score(event, *given)

    monkeypatch.setattr(state, "score_trial", poisoned)


EVENTS = [
    trial_of_failing_runs(run_id, task)
    for run_id, task in (
        ("well", "1"),
        (SICK, "1"),
        (SICK, "poison"),
        ("well", "2"),
        (SICK, "2"),
        (SICK, "3"),
    )
]


def a_fold(events: list[bytes]) -> tuple[Pipeline, Any]:
    pipeline = Pipeline(writer="w")
    return pipeline, pipeline.fold(Record(value, offset) for offset, value in enumerate(events))


@pytest.mark.usefixtures("poison")
def test_all_other_runs_say_what_they_would_say_without_the_sick_one() -> None:
    pipeline, folded = a_fold(EVENTS)
    assert (folded.touched, pipeline.runs()) == ({"well"}, ["well"])
    assert digests(pipeline) == digests(a_fold([EVENTS[0], EVENTS[3]])[0])


@pytest.mark.usefixtures("poison")
def test_the_event_at_fault_is_named_and_what_follows_is_held_back_and_counted() -> None:
    pipeline, folded = a_fold(EVENTS)
    failure = pipeline.failed[SICK]
    assert (failure.record.offset, failure.at, folded.quarantined_events) == (2, 2, 2)  # type: ignore[union-attr]
    assert failure.reason.startswith("Poisoned: cannot be divided \x1b[31mxxx")
    assert len(failure.reason) == 300
    assert (folded.records, folded.counted) == (6, 3)


@pytest.mark.usefixtures("poison")
def test_a_deletion_of_a_held_run_is_handed_back() -> None:
    deletion = orjson.dumps({"type": "run_deleted", "run_id": SICK, "revision": 9})
    pipeline, _ = a_fold([*EVENTS, deletion])
    assert pipeline.registry.deletions() == {SICK: 9}
    again = Pipeline(writer="w")
    again.delete(SICK, 9)
    again.fold(Record(value, offset) for offset, value in enumerate(EVENTS))
    assert again.failed == {}
    assert again.run(SICK).summaries() == []


def test_a_log_folded_again_withdraws_scored_trials_of_a_run_known_to_be_deleted() -> None:
    again = Pipeline(writer="w")
    again.delete("run-1", 9)
    again.fold(records(a_trial(task_id=f"t{number}") for number in range(3)))
    scored = [(change.key.split("|")[2], change.value) for change in again.run("run-1").take_scored()]
    assert scored == [(f"t{n}", None) for n in range(3)]


@pytest.mark.usefixtures("poison")
def test_a_page_that_cannot_be_joined_sets_its_run_apart() -> None:
    pages, _ = a_fold([trial_of_failing_runs(run, "1") for run in ("well", SICK)])
    damaged = [replace(page, value=b"garbage") for page in pages.run(SICK).take_pages()]
    pipeline = reread([*pages.run("well").take_pages(), *damaged])
    assert pipeline.runs() == ["well"]
    assert SICK in pipeline.failed


def test_what_reading_an_event_raises_becomes_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(value: bytes | None) -> RunStarted:
        raise Poisoned("nobody thought of this")

    monkeypatch.setattr("streamer.folding.fold.decode", broken)
    plan = orjson.dumps({"type": "run_started", "run_id": "r"})
    pipeline, folded = a_fold([plan, trial_of_failing_runs("well", "1")])
    assert [orjson.loads(rejected.value)["code"] for rejected in folded.rejections] == ["cannot_be_read"]
    assert pipeline.runs() == ["well"]


@pytest.mark.usefixtures("poison")
def test_a_fold_of_a_file_reports_the_sick_run_and_summarises_the_others() -> None:
    folding = fold_records(records_of_lines(EVENTS))
    assert folding.runs() == ["well"]
    assert [failure.run_id for failure in folding.failed] == [SICK]
    assert {change.run_id for change in folding.summaries()} == {"well"}


def test_a_run_that_cannot_be_summarised_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    body = summaries.run_body

    def poisoned(at: summaries.Moment) -> Any:
        if at.run.run_id == SICK:
            raise Poisoned("too large")
        return body(at)

    monkeypatch.setattr(summaries, "run_body", poisoned)
    folding = fold_records(records_of_lines(EVENTS))
    assert {change.run_id for change in folding.summaries()} == {"well"}
    assert [failure.reason for failure in folding.failed] == ["Poisoned: too large"]


def test_what_a_summary_is_made_with_is_no_part_of_its_digest() -> None:
    pipeline, _ = a_fold(EVENTS[:2])
    for change in pipeline.run("well").summaries():
        summary = orjson.loads(change.value or b"")
        assert summary["made_with"]
        assert summary["degraded"] is None
        assert digest_of(summary | {"made_with": "other", "degraded": "why"}) == summary["digest"]


FAILED = Failure("r", "why", at=7)
IN_QUARANTINE = QuarantinedRun(Quarantine("why", 7), good_before=3)


def an_open_run() -> Run:
    pipeline, _ = a_fold([orjson.dumps(a_trial(run_id="r"))])
    return pipeline.run("r")


ACTIONS: dict[str, Callable[[RunRegistry], None]] = {
    "begin": lambda registry: registry.begin("r", an_open_run()),
    "close": lambda registry: registry.close("r"),
    "forget": lambda registry: registry.forget("r"),
    "fail": lambda registry: registry.fail(FAILED),
    "delete_held": lambda registry: registry.delete_held("r", 5),
    "quarantine": lambda registry: registry.quarantine("r", IN_QUARANTINE),
}
ALLOWED: dict[tuple[str | None, str], str | None] = {
    (None, "begin"): "open",
    (None, "fail"): "set_apart",
    ("open", "begin"): "open",
    ("open", "close"): "closed",
    ("open", "fail"): "set_apart",
    ("closed", "begin"): "open",
    ("closed", "forget"): None,
    ("closed", "fail"): "set_apart",
    ("set_apart", "fail"): "set_apart",
    ("set_apart", "delete_held"): "set_apart",
    ("set_apart", "quarantine"): "quarantined",
    ("quarantined", "begin"): "open",
    ("quarantined", "fail"): "set_apart",
    ("quarantined", "delete_held"): "set_apart",
}
"""Phase of a run and what happens to it -> its next phase; nothing else may happen."""


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=12))
def test_a_run_is_in_one_phase_and_takes_the_allowed_steps_alone(actions: list[str]) -> None:
    left: list[str] = []
    registry, phase, leavings = RunRegistry(left.append), None, 0
    for action in actions:
        if (phase, action) in ALLOWED:
            leavings += phase == "open"
            phase = ALLOWED[phase, action]
            ACTIONS[action](registry)
        else:
            with pytest.raises((RuntimeError, KeyError)):
                ACTIONS[action](registry)
        places = (registry.open, registry.closed, registry.set_apart, registry.quarantined)
        assert [list(place) for place in places if place] == ([["r"]] if phase else [])
        assert (registry.phase("r"), len(left)) == (phase, leavings)
        assert registry.holds_back("r") == (phase in ("set_apart", "quarantined"))


def test_a_run_set_apart_again_keeps_its_quarantine_until_the_new_one_is_written() -> None:
    registry = RunRegistry()
    registry.fail(Failure("r", "first"))
    registry.fail(Failure("r", "second"))
    assert registry.set_apart["r"].failure == Failure("r", "first")
    assert registry.in_quarantine() == {}
    registry.quarantine("r", IN_QUARANTINE)
    assert registry.without_summaries() == [("r", 3)]
    registry.delete_held("r", 5)
    registry.delete_held("r", 4)
    assert registry.deletions() == {"r": 5}
    assert registry.in_quarantine() == {"r": IN_QUARANTINE}
    assert registry.quarantine_of("r") == IN_QUARANTINE
    assert registry.without_summaries() == []
