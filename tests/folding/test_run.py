"""One run: recovery, trials in flight, rejections, failures, and what is handed over once."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from weakref import ref

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding import state, summaries
from streamer.folding.fold import Pipeline, QuarantinedRun, RunRegistry, fold_records
from streamer.folding.run import PAGE_VERSION, Run
from streamer.folding.slots import PageWrite, RunChanges, SlotKey
from streamer.folding.uncertainty import PASSED, STORED, Roster
from streamer.schemas.base import RUN, GroupId, digest_of
from streamer.schemas.events import RunStarted
from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import MAX_KEPT_BYTES, Failure, Quarantine, Record, records_of_lines
from tests.folding.build import AGENT
from tests.support.events import (
    Event,
    a_deletion,
    a_plan,
    a_retraction,
    a_start,
    a_trial,
    an_end,
    digests,
    folded,
    records,
    reread,
    summarised,
)

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

    def fold(self, result: Iterable[Record]) -> None:
        self.pipeline.fold(result)
        writes: list[PageWrite] = self.pipeline.run("run-1").take_pages()
        self.pages |= {write.key: write.value for write in writes if write.value is not None}

    def drained(self, settled_to: int) -> set[tuple[str, str]]:
        """Tasks and agents of the scored trials that the next worker withdraws."""
        successor = Pipeline(writer="v")
        for key, value in self.pages.items():
            successor.load_page(key, value, settled_to=settled_to)
        for run_id in successor.runs():
            successor.loaded(run_id)
        keys = [change.key.split("|") for change in successor.run("run-1").take_scored()]
        return {(key[2], key[4]) for key in keys}

    def recovered(self, settled_to: int) -> set[str]:
        return {task for task, _ in self.drained(settled_to)}


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
    changed = a_trial(task_id="t3", revision=1, resolved=False)
    saved.fold(at(300, changed, a_retraction(task_id="t90", revision=5)))
    assert {"t3", "t90"} <= saved.recovered(300) < {f"t{n}" for n in range(300)}


def test_a_plan_that_may_not_be_settled_concerns_every_slot() -> None:
    saved = Saved()
    saved.fold(at(0, *TRIALS))
    saved.fold(at(300, a_plan(grading_profile="scylla-2026")))
    assert len(saved.recovered(300)) == 300
    assert saved.recovered(301) == set()


def test_late_news_of_a_sub_trial_concerns_the_others_of_its_trial() -> None:
    saved = Saved()
    other, oracle = (
        a_trial(task_id="shared", agent=agent, agent_index=n, tests={"status": "failed", "failed": 2})
        for n, agent in ((2, "a"), (1, "oracle"))
    )
    saved.fold(at(0, other, *TRIALS))
    saved.fold(at(301, oracle))
    assert {agent for task, agent in saved.drained(301) if task == "shared"} == {"a", "oracle"}


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
    tasks = sorted(key.split("|")[2] for key in at_hand)
    assert tasks == ["shared", "shared", "t0", "t1", "t2", "usual", "\u00fcnusual"]


def test_trials_with_sections_are_not_kept_until_their_scored_trial_is_taken() -> None:
    run = folded([a_trial(task_id="plain"), a_trial(benchmarks={"b": {"agent/nop": 2.0}})])[0].run("run-1")
    judged = run.state.changes.take_scored()
    assert [result is not None for result in judged.values()] == [True, False]


# -----------------------------------------------------------------------------
# Trials in flight: from their start until their result, in whatever order both arrive (inference 3).


def in_flight(*events: dict[str, Any]) -> dict[str, int]:
    return {key: summary["in_flight"] for key, summary in summarised(events).items()}


def test_a_start_makes_a_summary_before_any_result() -> None:
    tiers = "tier run-1|T0", "tier run-1|T0|terminus:gpt-5"
    assert in_flight(a_start(tier="T0")) == dict.fromkeys((AGENT, *tiers, "run run-1"), 1)


RETRACTED = [a_start(), a_trial(), a_retraction(revision=0)]


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([a_start(), a_trial()], {AGENT: 0, "run run-1": 0}),
        ([a_trial(), a_start()], {AGENT: 0, "run run-1": 0}),
        (RETRACTED, {"run run-1": 0}),
        ([*RETRACTED, a_start(revision=1)], {AGENT: 1, "run run-1": 1}),
        ([a_start(), a_trial(task_id="other"), an_end()], {AGENT: 0, "run run-1": 0}),
        ([a_start(), an_end()], {"run run-1": 0}),
        ([a_start(), a_start(task_id="b", revision=2), a_deletion(revision=1)], {AGENT: 1, "run run-1": 1}),
    ],
    ids=["result", "result first", "retracted", "again", "end", "only a start", "deleted in part"],
)
def test_a_trial_is_in_flight_until_a_result_or_an_end(events: list[Event], left: dict[str, int]) -> None:
    assert in_flight(*events) == left


def test_the_smallest_time_and_the_smallest_position_count_whatever_start_they_came_with() -> None:
    late = a_start(started_at="2026-01-01T00:00:09Z", position=2)
    early = a_start(started_at="2026-01-01T00:00:01Z", position=7)
    for events in ([late, early], [early, late]):
        pipeline, _ = folded(events)
        (trial,) = pipeline.run("run-1").in_flight(9)
        assert (trial["started_at"], trial["position"]) == ("2026-01-01T00:00:01Z", 2)


def test_a_start_that_a_retraction_withdraws_leaves_what_later_starts_said() -> None:
    starts = [a_start(position=at, revision=revision) for at, revision in ((1, 0), (5, 3), (9, 2))]
    pipeline, _ = folded([*starts, a_retraction(revision=1)])
    assert [trial["position"] for trial in pipeline.run("run-1").in_flight(9)] == [5]


def test_the_trials_in_flight_are_listed_the_longest_running_first() -> None:
    since = {"c": None, "b": "2026-01-01T00:00:02Z", "a": "2026-01-01T00:00:01Z", "done": None}
    starts = [a_start(task_id=task, started_at=time) for task, time in since.items()]
    pipeline, _ = folded([*starts, a_trial(task_id="done")])
    for most in (9, 2):
        listed = [trial["task_id"] for trial in pipeline.run("run-1").in_flight(most)]
        assert listed == ["a", "b", "c"][:most]
    pipeline.fold(records([an_end()]))
    assert pipeline.run("run-1").in_flight(9) == []


@pytest.mark.parametrize("results", [0, 3])
def test_starts_survive_on_state_pages(results: int) -> None:
    starts = [a_start(task_id=f"t{n}", position=n) for n in range(5)]
    pipeline, _ = folded([*starts, *TRIALS[:results]], writer="w")
    recovered = reread(pipeline.run("run-1").take_pages())
    assert digests(recovered) == digests(pipeline)
    assert recovered.run("run-1").in_flight(9) == pipeline.run("run-1").in_flight(9)
    assert recovered.run("run-1").take_pages() == []


def test_a_page_of_the_version_before_is_read_and_has_no_starts() -> None:
    pipeline, _ = folded([a_trial(), a_trial(task_id="t2", revision=1), a_trial(task_id="t2")], writer="w")
    [page] = pipeline.run("run-1").take_pages()
    head, _, body = (page.value or b"").partition(b"\n")
    assert json.loads(head)["v"] == PAGE_VERSION
    before = json.dumps(json.loads(head) | {"v": 2}).encode() + b"\n" + body
    assert digests(reread([PageWrite(page.key, before)])) == digests(pipeline)


# -----------------------------------------------------------------------------
# Folding: what it leaves in memory once nobody holds the result.


EVENTS = [
    a_start(task_id="t1"),
    a_trial(task_id="t1"),
    a_plan(tasks=4, order_kind="shuffled", concurrency=2, baselines=["c"]),
    a_trial(task_id="t2", agent="b", tier="T0"),
    a_trial(task_id="t2", agent="b", tier="T0", revision=1, resolved=False),
]


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:2]], ids=["scored again by a plan", "as it came"])
def test_a_fold_that_nobody_holds_is_freed_at_once(events: list[Event]) -> None:
    folding = fold_records(records_of_lines(map(orjson.dumps, events)))
    assert list(folding.summaries())
    state = ref(folding.pipeline.run("run-1").state)
    scores = ref(folding.pipeline.run("run-1").state.scores)
    gc.disable()
    try:
        del folding
        assert (state(), scores()) == (None, None), "without a search for cycles"
    finally:
        gc.enable()


def test_only_a_process_that_says_it_ends_keeps_what_it_has_from_the_search_for_garbage() -> None:
    frozen = gc.get_freeze_count()
    folding = fold_records(records_of_lines(map(orjson.dumps, EVENTS)))
    assert list(folding.summaries())
    assert gc.get_freeze_count() == frozen
    try:
        fold_records(records_of_lines(map(orjson.dumps, EVENTS)), exits=True)
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


# -----------------------------------------------------------------------------
# Bytes in, changes out; what cannot be read is handed back with its bytes.


GARBAGE: dict[str, bytes | None] = {
    "empty": None,
    "not_json": b"\xff\xfe\x00",
    "not_an_object": b"[1, 2]",
    "unknown_type": b'{"type": "trial", "run_id": "r"}',
    "unknown_schema_version": b'{"type": "run_finished", "run_id": "r", "schema_version": 3}',
    "missing_field": b'{"type": "trial_result", "run_id": "r"}',
    "not_finite": b'{"type": "trial_result", "run_id": "r", "task_id": "t", "cost_usd": NaN}',
    "invalid_field": b'{"type": "trial_result", "run_id": "r", "task_id": "t", "attempt": "1"}',
    "unknown_grading_profile": b'{"type": "run_started", "run_id": "r", "grading_profile": "mine"}',
    "too_large": b'{"type": "trial_result", "run_id": "' + b"x" * 1024 * 1024 + b'"}',
}


@pytest.mark.parametrize("code", GARBAGE)
def test_bad_bytes_become_a_rejection_that_keeps_them(code: str) -> None:
    value = GARBAGE[code]
    record = Record(value, 7, partition=3, timestamp=5, key=b"k", topic="trial-events")
    (rejected,) = Pipeline().fold([record]).rejections
    body = json.loads(rejected.value)
    SUMMARY.validate_json(rejected.value, extra="forbid")
    assert body["code"] == code
    assert (body["source_topic"], body["source_partition"], body["source_offset"]) == ("trial-events", 3, 7)
    assert base64.b64decode(body["source_key_base64"]) == b"k"
    if value is not None:
        assert base64.b64decode(body["source_value_base64"]) == value


def test_deeply_nested_and_huge_numbers_are_rejections_not_crashes() -> None:
    event = b'{"type":"trial_result","run_id":"r","task_id":"t",%b}'
    nested = b"[" * 5000 + b"]" * 5000
    for odd in (b'"claimed":{"x":' + nested + b"}", b'"started_at":' + nested, b'"attempt":' + b"9" * 5000):
        [rejected] = Pipeline().fold([Record(event % odd, 0)]).rejections
        assert json.loads(rejected.value)["code"] == "not_json", odd[:20]


def test_a_record_too_large_to_repeat_is_rejected_with_its_size() -> None:
    (rejected,) = Pipeline().fold([Record(b"x" * (MAX_KEPT_BYTES + 1), 0)]).rejections
    body = json.loads(rejected.value)
    assert (body["source_value_base64"], body["source_value_bytes"]) == (None, MAX_KEPT_BYTES + 1)


def test_messages_show_hostile_text_escaped_and_cut() -> None:
    hostile = {"type": "trial_result", "run_id": "r", "task_id": "\x1b[31m" * 200}
    (rejected,) = Pipeline().fold([Record(json.dumps(hostile).encode(), 0)]).rejections
    message = json.loads(rejected.value)["message"]
    assert "\x1b" not in message
    assert len(message) < 400


def test_unknown_fields_are_ignored_and_counted() -> None:
    pipeline, result = folded([a_trial(shoe_size=44, hat={"size": 7}), a_plan(tasks=2, nobody_knows=1)])
    assert (result.counted, result.unknown_fields) == (2, 3)
    assert digests(pipeline) == digests(folded([a_trial(), a_plan(tasks=2)])[0])


def test_runs_of_another_partition_are_handed_back() -> None:
    pipeline = Pipeline(owns=lambda run_id: run_id == "run-1")
    result = pipeline.fold(records([a_trial(), a_trial(run_id="run-2")]))
    assert [(record.offset, run_id) for record, run_id in result.misplaced] == [(1, "run-2")]
    assert pipeline.runs() == ["run-1"]


def test_state_version_is_the_greatest_offset_folded() -> None:
    pipeline = Pipeline()
    for offset, version in ((5, 5), (3, 5), (9, 9)):
        pipeline.fold(at(offset, a_trial(task_id=f"t{offset}")))
        assert pipeline.run("run-1").summaries()[-1].state_version == version


@pytest.mark.parametrize(
    ("fields", "when"),
    [
        ({"finished_at": "2026-01-01T02:00:00+02:00", "revision": 5}, "2026-01-01T00:00:00Z"),
        ({"revision": 1_767_225_600_000_000_000}, "2026-01-01T00:00:00Z"),
        ({}, "2023-11-14T22:13:20Z"),
    ],
)
def test_last_event_at_is_event_time_else_revision_else_broker(fields: dict[str, Any], when: str) -> None:
    assert summarised([a_trial(**fields)])[AGENT]["last_event_at"] == when


def test_a_plan_alone_makes_a_run_with_no_trials() -> None:
    [summary] = summarised([a_plan(tasks=4, attempts=1, display_name="n")]).values()
    assert (summary["trials"], summary["accuracy"]) == (0, None)


def test_scored_trials_can_be_drained_without_the_summaries() -> None:
    run = folded(TRIALS[:2])[0].run("run-1")
    scored = run.take_scored()
    assert (len(scored), run.take_scored()) == (2, [])
    cut = run.take_changes()
    assert (len(cut.summaries), cut.scored) == (2, [])
    noting_nothing = folded(TRIALS[:2], takes_changes=False)[0].run("run-1")
    assert [noting_nothing.take_changes().scored for _ in range(2)] == [scored] * 2


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


OF_TWO_RUNS = [trial_of_failing_runs(*one.split()) for one in ("well 1", "sick 1", "sick poison", "well 2")]
OF_TWO_RUNS += [trial_of_failing_runs(SICK, task) for task in "23"]


def a_fold(events: list[bytes]) -> tuple[Pipeline, Any]:
    pipeline = Pipeline(writer="w")
    return pipeline, pipeline.fold(Record(value, offset) for offset, value in enumerate(events))


@pytest.mark.usefixtures("poison")
def test_the_event_at_fault_is_named_what_follows_is_held_back_and_other_runs_go_on() -> None:
    pipeline, folded = a_fold(OF_TWO_RUNS)
    assert (folded.touched, pipeline.runs()) == ({"well"}, ["well"])
    assert digests(pipeline) == digests(a_fold([OF_TWO_RUNS[0], OF_TWO_RUNS[3]])[0])
    failure = pipeline.failed[SICK]
    assert (failure.record.offset, failure.at, folded.quarantined_events) == (2, 2, 2)  # type: ignore[union-attr]
    assert failure.reason.startswith("Poisoned: cannot be divided \x1b[31mxxx")
    assert len(failure.reason) == 300
    assert (folded.records, folded.counted) == (6, 3)


@pytest.mark.usefixtures("poison")
def test_a_deletion_of_a_held_run_is_handed_back() -> None:
    deletion = orjson.dumps({"type": "run_deleted", "run_id": SICK, "revision": 9})
    pipeline, _ = a_fold([*OF_TWO_RUNS, deletion])
    assert pipeline.registry.deletions() == {SICK: 9}
    again = Pipeline(writer="w")
    again.delete(SICK, 9)
    again.fold(Record(value, offset) for offset, value in enumerate(OF_TWO_RUNS))
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
    folding = fold_records(records_of_lines(OF_TWO_RUNS))
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
    folding = fold_records(records_of_lines(OF_TWO_RUNS))
    assert {change.run_id for change in folding.summaries()} == {"well"}
    assert [failure.reason for failure in folding.failed] == ["Poisoned: too large"]


def test_what_a_summary_is_made_with_is_no_part_of_its_digest() -> None:
    pipeline, _ = a_fold(OF_TWO_RUNS[:2])
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


# -----------------------------------------------------------------------------
# What changed in a run is handed over once; its rows are one for each slot, whatever comes and goes.


GROUP = GroupId(None, "terminus", "gpt-5")
SLOTS = [SlotKey("", f"t{number}", 1, "terminus", "gpt-5", None, None) for number in range(3)]


def test_of_many_scored_trials_the_latest_are_handed_over_first_and_none_twice() -> None:
    changes = RunChanges()
    for slot in (*SLOTS, SLOTS[0]):
        changes.scored_trial(slot)
    assert changes.scored_waiting == 3
    assert list(changes.take_scored(2)) == [SLOTS[2], SLOTS[1]]
    assert list(changes.take_scored(2)) == [SLOTS[0]]


def test_who_takes_no_scored_trials_and_no_pages_collects_none() -> None:
    changes = RunChanges(scored_trials=False, pages=False)
    changes.scored_trial(SLOTS[0])
    changes.slot(SLOTS[0])
    assert changes.scored_waiting == 0
    assert changes.take_pages().slots == {}


def test_slots_share_the_text_that_they_have_in_common() -> None:
    """A million slots of a few tiers would have a hundred megabytes of equal texts."""
    trials = [a_trial(task_id=task, tier="a tier", subtest="a subtest") for task in ("one", "two")]
    one, two = folded(trials)[0].run("run-1").state.slots
    assert one != two
    assert all(ours is theirs for ours, theirs in zip(one, two, strict=True) if ours == theirs)


def roster(*events: Event) -> Roster:
    run = folded(events)[0].run("run-1").state
    run.count()
    return run.scores.roster


def test_each_slot_has_one_row_however_often_its_result_is_corrected() -> None:
    events = [a_trial(revision=n, resolved=n % 2 == 0, cost_usd=n / 4) for n in (1, 2, 3)]
    lineup = roster(*events, a_trial(task_id="other")).lineup(GROUP)
    assert (len(lineup.keys()), lineup.stored.tolist()) == (2, [True, True])
    assert lineup.values("cost_usd")[0] == 0.75
    assert (lineup.count(STORED | PASSED, STORED | PASSED), lineup.count(STORED, STORED | PASSED)) == (1, 1)


def test_the_run_has_all_rows_and_a_group_knows_the_positions_of_the_others() -> None:
    rows = roster(a_start(position=0), a_start(agent="other", position=1))
    assert len(rows.lineup(RUN).keys()) == 2
    assert rows.lineup(GROUP).others() == {1}
    assert rows.lineup(RUN).others() == set()
    assert rows.lineup(GroupId(None, "nobody", "m")).keys() == []
