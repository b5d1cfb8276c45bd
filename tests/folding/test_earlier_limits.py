"""Events that earlier versions accepted and this one does not: in the log a rejection, on a page left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from streamer.folding.fold import Pipeline
from streamer.folding.run import (
    MAX_BYTES,
    MAX_SLOTS,
    PAGE_VERSION,
    PageFromTheFuture,
    events_on,
    is_run_page,
    opened,
    page_key,
    run_of_page,
    seen_by,
    slots_on,
    written,
)
from streamer.folding.slots import PageWrite, SlotKey
from tests.support.events import (
    Event,
    a_deletion,
    a_plan,
    a_retraction,
    a_trial,
    digests,
    folded,
    records,
    reread,
)

EARLIER: dict[str, Event] = {
    "an agent of 300 characters": a_trial(task_id="t1", agent="a" * 300),
    "a failure mode of 2 KB": a_trial(task_id="t1", failure_mode="f" * 2048),
    "a trial name of 50 KB": a_trial(task_id="t1", trial_name="n" * 50_000),
    "a plan of 2**53 tasks": a_plan(tasks=2**53, attempts=4096),
    "a label of 1 MB": a_plan(labels={"k": "v" * 1_000_000}),
}
RIGHT = a_trial(task_id="t2")


def page(events: list[Event | bytes], *, entries: list[Any] | None = None) -> tuple[str, bytes]:
    """A state page as an earlier version wrote it."""
    raws = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    plan = isinstance(events[0], dict) and events[0]["type"] == "run_started"
    content: dict[str, Any] = {"plan": [len(raw) for raw in raws], "deleted_to": None} if plan else {}
    content = content or {"slots": entries or [len(raw) for raw in raws]}
    key = page_key("run-1", "earlier", 0 if plan else 1)
    return key, written(content | {"as_of": 1, "at": 1_767_225_600_000_000}, raws)


def summaries(pipeline: Pipeline) -> dict[str, str]:
    return {change.key: change.digest for change in pipeline.run("run-1").summaries()}


@pytest.mark.parametrize("event", EARLIER.values(), ids=EARLIER)
def test_a_rebuild_from_the_log_rejects_it_with_its_bytes_and_folds_the_rest(event: Event) -> None:
    pipeline, result = folded([event, RIGHT])
    [rejection] = [json.loads(item.value) for item in result.rejections]
    assert rejection["source_value_bytes"] == len(json.dumps(event).encode())
    assert summaries(pipeline) == summaries(folded([RIGHT])[0])


@pytest.mark.parametrize("event", EARLIER.values(), ids=EARLIER)
def test_a_worker_leaves_it_out_of_its_page_and_says_what_a_rebuild_says(event: Event) -> None:
    recovering = Pipeline(writer="now")
    for events in ([event], [RIGHT]) if event["type"] == "run_started" else ([event, RIGHT],):
        recovering.load_page(*page(list(events)), settled_to=1)
    for run_id in recovering.runs():
        recovering.loaded(run_id)
    assert summaries(recovering) == summaries(folded([RIGHT])[0])
    recovering.run("run-1").replace_pages()
    assert recovering.run("run-1").take_pages()


@pytest.mark.parametrize("damage", [b"no event", b"[]"])
def test_a_page_with_what_never_was_an_event_sets_its_run_apart(damage: bytes) -> None:
    pipeline = Pipeline(writer="now")
    pipeline.load_page(*page([damage]))
    assert pipeline.registry.holds_back("run-1")
    assert re.search("PageError.*does not decode", pipeline.failed["run-1"].reason)


@pytest.mark.parametrize(
    "value",
    [b"", b"not json\n", b"[]\n", b'{"as_of": 1}\n', b'{"v": 2, "as_of": 1, "at": 0, "slots": [9]}\nno lz4'],
)
def test_a_page_that_cannot_be_read_sets_its_run_apart_and_says_which_it_is(value: bytes) -> None:
    pipeline = Pipeline(writer="v")
    pipeline.load_page("run-1/w/1", value)
    assert pipeline.registry.holds_back("run-1")
    assert "run-1/w/1" in pipeline.failed["run-1"].reason


def test_a_run_whose_id_has_300_characters_is_read_as_ever() -> None:
    """A run is no key inside a summary: its id may have 512 characters."""
    run_id = "r" * 300
    events = [a_trial(run_id=run_id), a_plan(run_id=run_id, tasks=3, attempts=1)]
    pipeline, result = folded(events, writer="w")
    assert (result.counted, result.rejections) == (2, [])
    assert digests(reread(pipeline.run(run_id).take_pages())) == digests(pipeline)


# -----------------------------------------------------------------------------
# A state page reads back to what was written; one of a newer version says so.


EVENTS = [json.dumps(a_trial(task_id=task)).encode() for task in ("t1", "t2")]


def a_page(**more: object) -> bytes:
    return written({"as_of": 7, "at": 1, "slots": [len(event) for event in EVENTS]} | more, EVENTS)


def test_header_and_events_come_back() -> None:
    header, body = opened(a_page())
    assert (header["as_of"], body) == (7, b"".join(EVENTS))
    assert (events_on(a_page()), seen_by(a_page())) == (EVENTS, 7)
    assert opened(written({"as_of": 0, "slots": []}, []))[1] == b""


def test_the_slots_of_a_page_are_those_of_its_events_and_those_it_names() -> None:
    floor = {"n": 0, "k": ["", "t3", 1, "terminus", "gpt-5", None, None], "f": 9}
    page = written({"as_of": 7, "slots": [*map(len, EVENTS), floor]}, EVENTS)
    assert [slot.task_id for slot in slots_on(page)] == ["t1", "t2", "t3"]
    assert slots_on(page)[2] == SlotKey(*floor["k"])  # type: ignore[misc]


@pytest.mark.parametrize("run", ["r", "a/b", "a%2Fb", "ü ", "a/b|c:d%e{f} ü"])
def test_a_key_names_its_run_whatever_the_run_is_called(run: str) -> None:
    assert run_of_page(page_key(run, "w/1", 3)) == run
    assert is_run_page(page_key(run, "w", 0))
    assert not is_run_page(page_key(run, "w", 10))
    pipeline, _ = folded([a_trial(run_id=run)], writer="w")
    [page] = pipeline.run(run).take_pages()
    assert reread([page]).runs() == [run]
    assert json.loads((page.value or b"").split(b"\n")[0])["v"] == PAGE_VERSION


# -----------------------------------------------------------------------------
# State pages: small, joined, and never lost (docs/design.md, State).


def test_a_burst_rewrites_few_pages_and_a_trickle_one() -> None:
    pipeline, _ = folded([a_trial(task_id=f"t{n}") for n in range(200)], writer="w")
    assert len(pipeline.run("run-1").take_pages()) == 200 // MAX_SLOTS + 1
    pipeline.fold(records([a_trial(task_id="one more")]))
    assert [write.key for write in pipeline.run("run-1").take_pages()] == ["run-1/w/4"]
    pipeline.fold(records([a_trial(task_id="t3", revision=5, resolved=False)]))
    assert [write.key for write in pipeline.run("run-1").take_pages()] == ["run-1/w/1"]


def test_a_page_is_at_most_16_kib_and_a_larger_slot_has_its_own() -> None:
    small = [a_trial(task_id=f"t{n}", trial_name="x" * 900) for n in range(40)]
    large = a_trial(task_id="large", padding="y" * 50_000)
    pipeline, _ = folded([*small[:20], large, *small[20:]], writer="w")
    pages = [
        json.loads((write.value or b"").split(b"\n")[0])["slots"]
        for write in pipeline.run("run-1").take_pages()
    ]
    *others, alone = sorted(pages, key=sum)
    assert len(alone) == 1
    assert sum(alone) > 50_000
    assert all(sum(lengths) <= MAX_BYTES for lengths in others)


def test_events_on_a_page_take_a_fraction_of_their_bytes() -> None:
    pipeline, _ = folded([a_trial(task_id=f"task-{n}", cost_usd=n / 7) for n in range(40)], writer="w")
    (page,) = pipeline.run("run-1").take_pages()
    value = page.value or b""
    assert 2 * len(value) < sum(json.loads(value.split(b"\n")[0])["slots"])


def test_a_page_of_the_first_version_is_still_read() -> None:
    events = [a_trial(task_id=f"t{n}") for n in range(3)]
    pipeline, _ = folded(events, writer="w")
    raws = [record.value or b"" for record in records(events)]
    head: dict[str, Any] = {"v": 1, "as_of": 2, "at": pipeline.run("run-1").state.last_event_at}
    head |= {"slots": [len(raw) for raw in raws]}
    page = PageWrite("run-1/old/1", json.dumps(head).encode() + b"\n" + b"".join(raws))
    recovered = reread([page])
    assert digests(recovered) == digests(pipeline)
    for one in (recovered, pipeline):
        one.fold(records([a_trial(task_id="t1"), a_trial(task_id="t2", revision=1, resolved=False)]))
    assert digests(recovered) == digests(pipeline)


def test_a_slot_that_grows_leaves_its_page() -> None:
    pipeline, _ = folded(SOME, writer="w")
    first = pipeline.run("run-1").take_pages()
    pipeline.fold(records([a_trial(task_id="t2", revision=1, padding="z" * 20_000)]))
    later = pipeline.run("run-1").take_pages()
    assert {page.key for page in later} == {"run-1/w/1", "run-1/w/2"}
    last = {page.key: page for page in [*first, *later]}
    assert digests(reread(last.values())) == digests(pipeline)


SOME = [a_trial(task_id=f"t{n}") for n in range(3)]


def test_nothing_new_means_no_page_is_written() -> None:
    pipeline, _ = folded([a_trial(), a_plan(tasks=1)], writer="w")
    assert {write.key for write in pipeline.run("run-1").take_pages()} == {"run-1/w/0", "run-1/w/1"}
    pipeline.fold(records([a_trial(), a_plan(tasks=1)]))
    assert pipeline.run("run-1").take_pages() == []


def test_recovered_slots_lie_on_their_page_and_are_not_written_again_until_they_change() -> None:
    pipeline, _ = folded(SOME, writer="old")
    recovered = reread(pipeline.run("run-1").take_pages())
    slots, before = (one.run("run-1").state.slots for one in (recovered, pipeline))
    assert all(slot.on_page for slot in slots.values())
    assert {key: slot.raw for key, slot in slots.items()} == {key: slot.raw for key, slot in before.items()}
    assert (recovered.as_of, recovered.run("run-1").take_pages()) == (2, [])
    recovered.fold(records([a_trial(task_id="t1", revision=9, resolved=False)]))
    assert [write.key for write in recovered.run("run-1").take_pages()] == ["run-1/new/1"]


def test_pages_that_others_may_not_find_are_written_anew_with_the_next_event() -> None:
    pipeline, _ = folded(SOME, writer="old")
    pages = pipeline.run("run-1").take_pages()
    recovered = reread(pages)
    recovered.run("run-1").replace_pages()
    recovered.fold(records([a_trial(task_id="t1")]))
    writes = recovered.run("run-1").take_pages()
    assert {write.key for write in writes if write.value is None} == {write.key for write in pages}
    assert digests(reread(writes, "next")) == digests(pipeline)


def withdrawn_after_recovery(writes: Iterable[PageWrite]) -> set[str]:
    """Tasks of the scored trials that a worker with these pages withdraws when it publishes."""
    scored = reread(writes).run("run-1").take_changes(notify=False).scored
    return {change.key.split("|")[2] for change in scored if change.value is None}


@pytest.mark.parametrize(
    ("event", "withdrawn"), [(a_retraction(task_id="t1"), {"t1"}), (a_deletion(), {"t0", "t1", "t2"})]
)
@pytest.mark.parametrize("order", [1, -1])
def test_who_recovers_withdraws_what_may_still_stand(event: Event, withdrawn: set[str], order: int) -> None:
    pipeline, _ = folded(SOME, writer="w")
    before = {page.key: page for page in pipeline.run("run-1").take_pages()}
    pipeline.fold(records([event]))
    after = {page.key: page for page in pipeline.run("run-1").take_pages() if page.value is not None}
    assert withdrawn_after_recovery([*(before | after).values()][::order]) == withdrawn


def test_many_small_pages_of_other_writers_are_merged_values_before_tombstones() -> None:
    pages = [
        page
        for n in range(40)
        for page in folded([a_trial(task_id=f"t{n}")], writer=f"w{n}")[0].run("run-1").take_pages()
    ]
    recovered = reread(pages)
    writes = recovered.run("run-1").take_pages()
    kinds = [write.value is None for write in writes]
    assert kinds == sorted(kinds)
    assert {write.key for write in writes if write.value is None} == {page.key for page in pages}
    assert digests(reread(writes, "next")) == digests(recovered)


def test_the_epoch_of_a_state_never_decides_what_a_page_says() -> None:
    pipeline, _ = folded([a_trial(), a_trial(revision=2, cost_usd=1.0)], writer="w", epoch=7)
    recovered = reread(pipeline.run("run-1").take_pages(), epoch=8)
    assert digests(recovered) == digests(pipeline)
    summary = recovered.run("run-1").summaries()[0].summary or {}
    assert (summary["superseded"], summary["state_version"], summary["epoch"]) == (1, 1, 8)


def test_a_page_of_a_newer_version_says_which_and_what_to_do() -> None:
    message = r"run-1/w/1.* has version.*this worker reads.*Upgrade the worker"
    with pytest.raises(PageFromTheFuture, match=message):
        Pipeline(writer="v").load_page("run-1/w/1", b'{"v": 99, "as_of": 1}\n')


def test_an_event_on_a_full_page_is_kept_once_and_still_decides() -> None:
    pipeline, _ = folded([a_trial(task_id=f"t{n}") for n in range(2 * MAX_SLOTS)], writer="w")
    pipeline.run("run-1").take_pages()
    slots = pipeline.run("run-1").state.slots
    assert sum(slot.on_page for slot in slots.values()) >= MAX_SLOTS
    assert [json.loads(slot.raw)["task_id"] for slot in slots.values()] == [key[1] for key in slots]
    again = pipeline.fold(records([a_trial(task_id="t0"), a_trial(task_id="t0", resolved=False)]))
    assert (again.duplicates, again.counted + again.superseded) == (1, 1)


def test_pages_are_joined_to_the_same_whatever_the_form_of_their_times() -> None:
    results = [
        a_trial(task_id="utc", started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T00:00:02Z"),
        a_trial(task_id="zone", started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T02:00:02+02:00"),
        a_trial(task_id="zone and duration", finished_at="2026-01-01T02:00:02+02:00", duration_seconds=3.0),
    ]
    written, _ = folded(results, writer="old")
    both = written, reread(written.run("run-1").take_pages())
    values = [[change.value for change in one.run("run-1").summaries()] for one in both]
    assert values[0] == values[1]
    for pipeline in both:
        pipeline.fold(records(result | {"finished_at": "2026-01-01T00:00:03Z"} for result in results))
    slots = [{k: slot.winner for k, slot in one.run("run-1").state.slots.items()} for one in both]
    assert slots[0] == slots[1]
