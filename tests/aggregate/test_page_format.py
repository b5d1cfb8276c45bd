"""A state page reads back to what was written; one of a newer version says so."""

from __future__ import annotations

import json

import pytest

from streamer.folding.run import (
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
from streamer.folding.slots import SlotKey
from tests.support.events import a_trial

EVENTS = [json.dumps(a_trial(task_id=task)).encode() for task in ("t1", "t2")]


def a_page(**more: object) -> bytes:
    return written({"as_of": 7, "at": 1, "slots": [len(event) for event in EVENTS]} | more, EVENTS)


def test_header_and_events_come_back() -> None:
    header, body = opened(a_page())
    assert (header["as_of"], body) == (7, b"".join(EVENTS))
    assert events_on(a_page()) == EVENTS
    assert seen_by(a_page()) == 7


def test_a_page_without_events_has_an_empty_body() -> None:
    assert opened(written({"as_of": 0, "slots": []}, []))[1] == b""


def test_the_slots_of_a_page_are_those_of_its_events_and_those_it_names() -> None:
    floor = {"n": 0, "k": ["", "t3", 1, "terminus", "gpt-5", None, None], "f": 9}
    page = written({"as_of": 7, "slots": [*map(len, EVENTS), floor]}, EVENTS)
    assert [slot.task_id for slot in slots_on(page)] == ["t1", "t2", "t3"]
    assert slots_on(page)[2] == SlotKey(*floor["k"])  # type: ignore[misc]


def test_a_page_of_a_newer_version_says_what_to_do() -> None:
    newer = a_page().replace(b'"v":%d' % PAGE_VERSION, b'"v":%d' % (PAGE_VERSION + 1), 1)
    with pytest.raises(PageFromTheFuture, match=r"has version.*this worker reads.*Upgrade the worker"):
        opened(newer)


@pytest.mark.parametrize("run", ["r", "a/b", "a%2Fb", "ü "])
def test_a_key_names_its_run_whatever_the_run_is_called(run: str) -> None:
    assert run_of_page(page_key(run, "w/1", 3)) == run
    assert is_run_page(page_key(run, "w", 0))
    assert not is_run_page(page_key(run, "w", 10))
