"""Events are taken at once, checked in order in another thread, and bounded in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamer.client import publisher as module
from streamer.client.capture import CapturedEvent, NotAccepted, capture
from streamer.client.publisher import Inbox, Refused, Validated
from streamer.storage.outbox import Outgoing
from tests.support.events import a_trial


class Taker:
    """Takes what an inbox hands on, until it hands on that it was the last."""

    def __init__(self) -> None:
        self.found: list[Outgoing | Refused] = []
        self.ended = threading.Event()

    def __call__(self, checked: Validated | None) -> None:
        if checked is None:
            self.ended.set()
        else:
            self.found += checked


@pytest.fixture
def taker() -> Taker:
    return Taker()


@pytest.fixture
def inbox(taker: Taker) -> Iterator[Inbox]:
    inbox = Inbox(taker, lambda: "the broker is away")
    yield inbox
    inbox.close()
    assert taker.ended.wait(20)


def an_event(task: str, **fields: object) -> CapturedEvent:
    return capture(a_trial(task_id=task, **fields))


def test_all_that_was_taken_is_handed_on_in_order_before_the_end(inbox: Inbox, taker: Taker) -> None:
    for number in range(200):
        inbox.accept(an_event(f"t{number}"))
    assert (inbox.accepted, inbox.waiting) == (200, 200)
    inbox.close()
    assert taker.ended.wait(20)
    assert [b'"t%d"' % number in one.value for number, one in enumerate(taker.found)] == [True] * 200
    with pytest.raises(RuntimeError, match=r"before close\(\)"):
        inbox.accept(an_event("late"))


def test_an_invalid_event_is_handed_on_as_refused_between_the_others(inbox: Inbox, taker: Taker) -> None:
    for event in (an_event("a"), an_event("b", attempt=0), an_event("c")):
        inbox.accept(event)
    inbox.close()
    assert taker.ended.wait(20)
    first, refused, last = taker.found
    assert isinstance(first, Outgoing)
    assert isinstance(last, Outgoing)
    assert isinstance(refused, Refused)
    assert (refused.error.code, refused.error.task_id) == ("invalid_field", "b")


def test_full_memory_takes_no_more_and_says_why_until_something_has_left(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = an_event("a")
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", event.size)
    inbox.accept(event)
    with pytest.raises(NotAccepted, match="the broker is away"):
        inbox.accept(event)
    inbox.left(1, 2 * event.size)
    inbox.accept(event)
    assert inbox.waiting == 1
