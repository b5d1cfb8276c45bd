"""Events that earlier versions accepted and this one does not: in the log a rejection, on a page left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.folding.fold import Pipeline
from streamer.folding.run import page_key, written
from tests.support.events import Event, a_plan, a_trial, folded

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
    if event["type"] == "run_started":
        recovering.load_page(*page([event]), settled_to=1)
        recovering.load_page(*page([RIGHT]), settled_to=1)
    else:
        recovering.load_page(*page([event, RIGHT]), settled_to=1)
    recovering.loaded()
    assert summaries(recovering) == summaries(folded([RIGHT])[0])
    recovering.run("run-1").replace_pages()
    assert recovering.run("run-1").take_pages()


def test_what_a_page_knows_of_such_a_slot_besides_does_not_matter() -> None:
    event = EARLIER["an agent of 300 characters"]
    raw = json.dumps(event).encode()
    key = ["", "t1", 1, "a" * 300, "gpt-5", None, None]
    entry = {"n": len(raw), "k": key, "l": {"0" * 32: [0, 0]}, "f": -5}
    recovering = Pipeline(writer="now")
    recovering.load_page(*page([raw, json.dumps(RIGHT).encode()], entries=[entry, len(json.dumps(RIGHT))]))
    recovering.loaded()
    assert summaries(recovering) == summaries(folded([RIGHT])[0])
    assert recovering.run("run-1").take_pages() == []


@pytest.mark.parametrize("damage", [b"no event", b"[]"])
def test_a_page_with_what_never_was_an_event_sets_its_run_apart(damage: bytes) -> None:
    pipeline = Pipeline(writer="now")
    pipeline.load_page(*page([damage]))
    assert pipeline.holds("run-1")
    assert "PageError" in pipeline.failed["run-1"].reason
    assert "does not decode" in pipeline.failed["run-1"].reason


def test_a_run_whose_id_has_300_characters_is_read_as_ever() -> None:
    """A run is no key inside a summary: its id may have 512 characters."""
    run_id = "r" * 300
    pipeline, result = folded(
        [a_trial(run_id=run_id), a_plan(run_id=run_id, tasks=3, attempts=1)], writer="w"
    )
    assert (result.counted, result.rejections) == (2, [])
    again = Pipeline(writer="v")
    for write in pipeline.run(run_id).take_pages():
        again.load_page(write.key, write.value or b"")
    assert [change.digest for change in again.run(run_id).summaries()] == [
        change.digest for change in pipeline.run(run_id).summaries()
    ]
