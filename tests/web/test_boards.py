"""What viewers share: views, each drawn once for all who look alike, and the outlook of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from streamer.client.queries import RedisUnavailable
from streamer.views import drawing
from streamer.views.decide.outlook import Outlook
from streamer.web import boards
from streamer.web.api import Web
from streamer.web.boards import RunOutlook, view_of
from streamer.web.models import ViewQuery
from streamer.web.protocols.live import PACE_SECONDS, Part, Room, View, key_of
from tests.support.builders import a_run_change, a_tier_change
from tests.support.eventually import eventually
from tests.web.rooms import a_room, put, summary_of


def drawn(fragment: bytes) -> Any:
    """What an event says; None: nothing."""
    return json.loads(fragment.partition(b"data: ")[2]) if fragment else None


def an_outlook(usd_per_hour: float | None = None, in_flight: int = 0) -> Outlook:
    return Outlook(
        at=None,
        event_time=None,
        seconds_left=None,
        usd_per_hour=usd_per_hour,
        total_usd=None,
        in_flight=in_flight,
        running=[],
        places={},
        places_missing=None,
        first_two=[],
    )


# -----------------------------------------------------------------------------
# A view: at most so often, and of each part only what has changed.


class Board:
    """Parts to draw, and how often they were; with a clock that stands."""

    def __init__(self, room: Room) -> None:
        self.parts: dict[str, Any] = {}
        self.broken: str | None = None
        self.times, self.now = 0, 0.0
        self.view = View(room, self.draw, clock=lambda: self.now)

    def draw(self) -> Iterator[Part]:
        self.times += 1
        for row, content in self.parts.items():
            if row == self.broken:
                raise ArithmeticError(row)
            yield Part("t", row, content)

    def change(self, room: Room, **parts: Any) -> None:
        self.parts |= parts
        room.touch()
        self.now += PACE_SECONDS


def test_a_view_is_drawn_once_for_all_its_viewers_and_gives_each_what_it_lacks() -> None:
    room = a_room()
    board = Board(room)
    board.change(room, a=1, b=1)
    fragment, seen = board.view.since(0)
    assert drawn(fragment) == {"t": {"a": 1, "b": 1}}
    assert board.view.since(0) == (fragment, seen)
    board.change(room, b=2)
    changed, now = board.view.since(seen)
    assert (drawn(changed), now) == ({"t": {"b": 2}}, room.revision)
    assert drawn(board.view.since(0)[0]) == {"t": {"a": 1, "b": 2}}
    assert drawn(board.view.since(now)[0]) is None
    assert board.times == 2


def test_a_view_is_drawn_no_faster_than_its_pace() -> None:
    room = a_room()
    board = Board(room)
    board.change(room, a=1)
    _, seen = board.view.since(0)
    board.change(room, a=2)
    board.now -= PACE_SECONDS / 2
    assert board.view.since(seen) == (b"", seen)
    board.now += PACE_SECONDS / 2
    assert drawn(board.view.since(seen)[0]) == {"t": {"a": 2}}


def test_what_cannot_be_drawn_stays_as_it_was_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    room = a_room()
    board = Board(room)
    board.change(room, a=1, b=1, c=1)
    _, seen = board.view.since(0)
    board.broken = "b"
    for number in (2, 3):
        board.change(room, a=number, b=number, c=number)
        assert drawn(board.view.since(seen)[0]) == {"t": {"a": number}}
    assert drawn(board.view.since(0)[0]) == {"t": {"a": 3, "b": 1, "c": 1}}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    board.broken = None
    board.change(room, a=3)
    assert drawn(board.view.since(seen)[0]) == {"t": {"a": 3, "b": 3, "c": 3}}


def test_a_touch_of_a_room_tells_no_summary() -> None:
    room = a_room(a_run_change())
    _, position = room.since(0)
    room.touch()
    assert (room.since(position)[0], room.revision) == ([], position + 1)


# -----------------------------------------------------------------------------
# What is kept for viewers does not grow with what they ask for.


WEB = cast(Web, None)
"""No test here asks for an outlook."""


@pytest.mark.parametrize("run", [None, "r1"])
def test_whatever_is_asked_for_few_views_are_kept(run: str | None) -> None:
    room = a_room()
    views = {view_of(WEB, room, ViewQuery(view="runs", spread=f"s{n}"), run) for n in range(50)}
    assert len(views) == 1
    assert sum(isinstance(one, View) for one in room.kept.values()) == 1


def test_of_many_choices_the_views_asked_for_last_are_kept() -> None:
    room = a_room()
    ask = lambda quality, **named: view_of(WEB, room, ViewQuery(quality=quality, **named), "r1")  # noqa: E731
    first = ask("m0", view="board")
    assert all(ask("m0", view="tiers", cost=cost) is ask("", view="tiers") for cost in ("", "total_cost"))
    for number in range(2 * boards.MOST_VIEWS):
        ask(f"m{number}", view="board")
    assert sum(isinstance(one, View) for one in room.kept.values()) == boards.MOST_VIEWS
    assert ask("m0", view="board") is not first


def parts_of(room: Room, query: ViewQuery, outlook: RunOutlook) -> dict[tuple[str, str], Any]:
    return {(table, row): content for table, row, content in boards._drawn_run(room, outlook, query)}


async def test_tiers_stand_in_one_order_whichever_changed_last() -> None:
    changes = [a_tier_change(tier=tier, agent=agent, model="m") for tier in ("T1", "T0") for agent in "ba"]
    pooled = [a_tier_change(tier=tier) for tier in ("T1", "T0")]
    room = a_room(a_run_change(), *changes, *pooled)
    outlook = RunOutlook(room, never)
    for query, order in (
        (ViewQuery(view="tiers"), ["T0\n", "T1\n"]),
        (ViewQuery(view="tiers", within=True), ["T0\na:m", "T0\nb:m", "T1\na:m", "T1\nb:m"]),
    ):
        assert parts_of(room, query, outlook)["tiers", ""]["order"] == order
    assert parts_of(room, ViewQuery(view="part"), outlook)["groups", ""]["tiers"] == ["T0", "T1"]


async def never() -> Outlook:
    await asyncio.Event().wait()
    raise AssertionError


# -----------------------------------------------------------------------------
# The outlook of a run: asked for once for all viewers, again as the run changes or grows older.


class Loads:
    """Answers in turn, the last one again and again."""

    def __init__(self, *answers: Outlook | Exception) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self) -> Outlook:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "REST_SECONDS", 0.0)


async def settled(outlook: RunOutlook) -> None:
    await eventually(lambda: outlook._loading is None, "an answer")


async def asked(outlook: RunOutlook, *digests: str) -> None:
    """Want the outlook of each digest, and wait for the answer."""
    for digest in digests:
        outlook.want(digest)
        await settled(outlook)


async def test_the_outlook_is_asked_for_once_for_a_digest() -> None:
    room, loads = a_room(), Loads(an_outlook(1.0), an_outlook(2.0))
    outlook = RunOutlook(room, loads)
    for digest, rate, times in (("a", 1.0, 1), ("a", 1.0, 1), ("b", 2.0, 2)):
        outlook.want(digest)
        await asked(outlook, digest)
        assert outlook.found is not None
        assert (outlook.found.usd_per_hour, loads.asked) == (rate, times)
    assert room.revision == 2


async def test_an_outlook_that_says_the_same_touches_no_room() -> None:
    room, loads = a_room(), Loads(an_outlook(1.0))
    await asked(RunOutlook(room, loads), "a", "b")
    assert (loads.asked, room.revision) == (2, 1)


async def test_a_run_that_changed_meanwhile_is_asked_for_again() -> None:
    room, loads = a_room(), Loads(an_outlook(1.0))
    outlook = RunOutlook(room, loads)
    await asked(outlook, "a")
    outlook.want("b")
    await eventually(lambda: loads.asked == 2, "asked for b")
    await asked(outlook, "c", "c")
    assert loads.asked == 3


async def test_a_mistake_of_ours_is_logged_and_the_last_outlook_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room, loads = a_room(), Loads(an_outlook(1.0), ArithmeticError("ours"))
    outlook = RunOutlook(room, loads)
    await asked(outlook, "a", "b", "b")
    assert outlook.found == an_outlook(1.0)
    assert (loads.asked, room.revision) == (2, 1)
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_redis_that_is_away_is_asked_again_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    room, loads = a_room(), Loads(RedisUnavailable("redis://h:1", OSError("away")), an_outlook(1.0))
    outlook = RunOutlook(room, loads)
    await asked(outlook, "a")
    assert (outlook.found, room.revision) == (None, 1)
    await asked(outlook, "a")
    assert (outlook.found, caplog.records) == (an_outlook(1.0), [])


async def test_a_running_trial_grows_older_though_no_viewer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "AGE_SECONDS", 0.0)
    room, loads = a_room(), Loads(an_outlook(1.0, in_flight=1), an_outlook(2.0))
    outlook = RunOutlook(room, loads)
    outlook.want("a")
    await eventually(lambda: room.revision == 2, "the answer, and its age")
    assert room.viewers == 0
    await asked(outlook, "a")
    assert (outlook.found, loads.asked) == (an_outlook(2.0), 2)


async def test_the_outlook_of_a_run_that_is_gone_is_forgotten() -> None:
    change = a_run_change()
    room, loads = a_room(change), Loads(an_outlook(1.0), an_outlook(2.0))
    outlook = RunOutlook(room, loads)
    shown = ViewQuery(view="part")
    parts_of(room, shown, outlook)
    await settled(outlook)
    assert outlook.found == an_outlook(1.0)
    room.remove(key_of(summary_of(change)))
    assert parts_of(room, shown, outlook) == {}
    put(room, change)
    head = parts_of(room, shown, outlook)["run", ""]["tiles"]
    assert "per hour" not in drawing.text_of(["", {}, *head])
    await settled(outlook)
    assert outlook.found == an_outlook(2.0)
