"""After a recovery, scored trials are published again only where that may not have been done before."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Iterable
from typing import Any
from weakref import ref

import orjson
import pytest

from streamer.folding.fold import Folded, Pipeline, decoded, fold_records
from streamer.folding.run import PAGE_VERSION
from streamer.folding.slots import PageWrite
from streamer.schemas.events import RunStarted
from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import MAX_KEPT_BYTES, Record, Result, records_of_lines
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
def test_a_trial_is_in_flight_until_its_result_its_retraction_or_an_end(
    events: list[Event], left: dict[str, int]
) -> None:
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


def test_only_the_same_start_is_a_duplicate() -> None:
    _, result = folded([a_start(position=3), a_start(position=3), a_start(position=4), a_start(position=2)])
    assert (result.counted, result.duplicates) == (2, 2)
    _, result = folded([a_retraction(revision=1), a_start(revision=1)])
    assert (result.counted, result.ignored) == (1, 1)


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
# The bytes of a record become an event, or a rejection that says why not.


def a_record(event: Any, timestamp: int = 1_700_000_000_000) -> Record:
    value = event if isinstance(event, bytes) else json.dumps(event).encode()
    return Record(value, 7, timestamp=timestamp)


def test_a_usual_trial_takes_the_short_way_and_a_plan_the_strict_one() -> None:
    folded = Folded()
    assert isinstance(decoded(a_record(a_trial()), folded), Result)
    assert isinstance(decoded(a_record(a_plan()), folded), RunStarted)
    assert (folded.rejections, folded.unknown_fields, folded.missing_times) == ([], 0, 0)


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


def test_garbage_between_events_changes_nothing_and_is_rejected_once_each() -> None:
    events = [a_trial(task_id=f"t{n}") for n in range(5)]
    mixed: list[dict[str, object] | bytes] = []
    for event, garbage in zip(events, [v for v in GARBAGE.values() if v][:5], strict=True):
        mixed += [event, garbage]
    pipeline, result = folded(mixed)
    assert len(result.rejections) == 5
    assert digests(pipeline) == digests(folded(events)[0])


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
def test_last_event_at_is_event_time_and_falls_back_to_revision_then_broker(
    fields: dict[str, Any], when: str
) -> None:
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
