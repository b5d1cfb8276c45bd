"""What viewers share: one subscription, rooms, views, the outlook of a run, and bounded memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import orjson
import pytest
import redis

from streamer.client.queries import ReaderError, RedisUnavailable
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.schemas.summaries import SILENT_AFTER, Leader
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from streamer.views import drawing
from streamer.views.decide.outlook import Outlook
from streamer.web import boards
from streamer.web.api import Web
from streamer.web.boards import RunOutlook, view_of
from streamer.web.models import ViewQuery
from streamer.web.protocols.live import PACE_SECONDS, Hub, Part, Room, View, key_of
from tests.support.builders import LAST_EVENT_AT, a_run_change, a_tier_change, an_agent_model_change
from tests.support.events import a_trial
from tests.support.eventually import eventually
from tests.support.servers import RedisServer
from tests.web.browsing import WebProcess, a_stack
from tests.web.feeding import Feed, place_of
from tests.web.serving import Serving
from tests.web.viewer import Viewer, Watch, a_room, converged, put, summary_of


async def test_any_number_of_viewers_cost_one_redis_subscription_and_those_that_left_are_not_counted(
    serving: Serving, feed: Feed, settings: Settings, watch: Watch, redis_server: RedisServer
) -> None:
    await feed.take([a_trial(), a_trial(run_id="run-2")])
    viewers = [await watch(serving, f"/api/runs/run-{1 + n % 2}/updates").open() for n in range(50)]
    channel = Keys(settings.namespace).updates
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.pubsub_numsub(channel) == [(channel.encode(), 1)]
    health = serving.get("/api/health").json()
    assert (health["viewers"], health["subscriptions"], health["following"]) == (50, 1, True)
    for viewer in viewers:
        await viewer.close()
    await eventually(lambda: serving.get("/api/health").json()["viewers"] == 0, "all have left")


async def test_viewers_sit_out_a_redis_that_goes_away_and_comes_back(
    serving: Serving, feed: Feed, watch: Watch, redis_server: RedisServer
) -> None:
    await feed.take([a_trial()])
    viewer = await watch(serving).open()
    redis_server.stop()
    assert serving.get("/api/health").json()["following"] is False
    answer = serving.get("/api/runs")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    redis_server.start()
    await feed.take([a_trial(task_id="task-2")])
    await converged(viewer, feed)


async def test_an_outage_is_logged_once_and_not_at_each_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten failures, an update, ten failures of the same kind, and then failures of another one."""
    tries = 0

    async def updates() -> AsyncIterator[StateUpdate]:
        nonlocal tries
        tries += 1
        if tries == 11:
            yield StateUpdate("r", "run", "", "key", None)
        raise ReaderError("Redis is away" if tries <= 20 else "the summary is of a newer version")

    monkeypatch.setattr("streamer.web.protocols.live.RETRY_SECONDS", 0.0)
    reader = cast(AsyncStateReader, SimpleNamespace(updates=updates))
    following = asyncio.create_task(Hub(reader, 1, 1).follow())
    await eventually(lambda: tries >= 30, "thirty tries")
    following.cancel()
    said = [record.getMessage() for record in caplog.records if record.name == "streamer.web"]
    assert said == ["Redis is away", "Redis is away", "the summary is of a newer version"]


# -----------------------------------------------------------------------------
# The state that the viewers of a run share: the newest version wins, slow viewers get the latest.


@pytest.mark.parametrize(
    ("versions", "last"),
    [([(number, number) for number in range(1000)], 999), ([(7, 1), (6, 2), (7, 3)], 3)],
    ids=["of many the latest alone", "an older one never replaces a newer one and an equal one does"],
)
def test_a_slow_viewer_gets_the_newest_state_alone(versions: list[tuple[int, int]], last: int) -> None:
    room = a_room(*(an_agent_model_change(version=version, trials=trials) for version, trials in versions))
    [frame], position = room.since(0)
    assert b'"trials":%d' % last in frame
    assert room.since(position) == ([], position)


def test_what_was_told_while_a_room_was_being_filled_stands() -> None:
    room = Room()
    missing = summary_of(an_agent_model_change(agent="gone"))
    put(room, an_agent_model_change(version=9, trials=9))
    room.remove((missing.run_id, missing.type, "", missing.agent_model))
    room.fill([summary_of(an_agent_model_change(version=5, trials=5)), missing])
    frames, _ = room.since(0)
    assert [frame.split(b"\n")[1] for frame in frames] == [b"event: agent_model_summary", b"event: deleted"]
    assert b'"trials":9' in frames[0]


def test_a_viewer_whose_last_event_is_no_position_of_the_room_begins_again() -> None:
    room = a_room(an_agent_model_change(version=7))
    [frame], position = room.since(0)
    name, _, number = frame.split(b"\n")[0].removeprefix(b"id: ").decode().rpartition("-")
    assert room.position(f"{name}-{number}") == position
    for told in (None, "", name, f"{name}-", f"{name}-x", f"other-{number}", f"{name}-{'9' * 5_000}"):
        assert room.position(told) is None


def test_the_list_of_runs_tells_who_leads_each() -> None:
    room, leader = Room(most_runs=2), Leader(agent_model="a:m", value=0.5)
    room.fill([summary_of(a_run_change("r", version=1))], {"r": leader})
    assert [state["leader"] for state in room.states] == [leader.model_dump()]
    room.put(summary_of(a_run_change("r", version=2)), leader.model_copy(update={"value": 0.75}))
    assert [state["leader"]["value"] for state in room.states] == [0.75]


def test_of_the_list_of_runs_the_latest_are_kept_and_who_missed_others_begins_again() -> None:
    room = Room(most_runs=2)
    room.fill([])
    put(room, *(a_run_change(run, version=1) for run in "ab"))
    _, seen = room.since(0)
    put(room, a_run_change("a", version=2))
    assert [b'"run_id":"a"' in frame for frame in room.since(seen)[0]] == [True]
    put(room, a_run_change("c", version=1))
    assert not room.has_dropped(seen)  # `b` was seen, and has not changed since
    put(room, a_run_change("d", version=1))
    assert room.has_dropped(seen)
    assert [run in frame for run, frame in zip((b'"c"', b'"d"'), room.since(0)[0], strict=True)] == [True] * 2
    for run in ("w", "x", "y", "z"):
        room.remove((run, "run_summary", "", ""))
    told = [frame.split(b"\n")[1] for frame in room.since(0)[0]]
    assert told == [b"event: run_summary"] * 2 + [b"event: deleted"] * 2
    room.begin_fill()
    assert not room.filled
    room.remove(("d", "run_summary", "", ""))
    room.fill([summary_of(a_run_change(run, version=1)) for run in "dc"])
    assert sum(b"event: run_summary" in frame for frame in room.since(0)[0]) == 1


def test_a_run_that_falls_silent_is_told_again_with_its_new_state_and_only_then() -> None:
    now = datetime.fromisoformat(LAST_EVENT_AT)
    clock = [now]
    room = Room(lambda: clock[0])
    room.fill([summary_of(a_run_change(progress={"done": 3, "planned": 12}))])
    [frame], position = room.since(0)
    assert b'"state":"running"' in frame
    clock[0] = now + SILENT_AFTER
    room.tell_states()
    assert room.since(position) == ([], position)
    clock[0] += timedelta(seconds=1)
    room.tell_states()
    room.tell_states()
    [frame], told = room.since(position)
    assert (b'"state":"stalled"' in frame, told) == (True, position + 1)
    room.remove(("r1", "run_summary", "", ""))
    clock[0] = now
    room.tell_states()
    assert len(room.since(told)[0]) == 1


async def test_a_room_wakes_who_waits() -> None:
    room = a_room()
    wakes: list[Callable[[], None]] = [lambda: put(room, an_agent_model_change()), room.touch, room.wake]
    for wake in wakes:
        waiting = asyncio.create_task(room.wait(room.revision))
        await asyncio.sleep(0)
        assert not waiting.done()
        wake()
        await asyncio.wait_for(waiting, 5)
    await room.wait(0)


# -----------------------------------------------------------------------------
# Views, each drawn once for all who look alike, and the outlook of a run.


def drawn(fragment: bytes) -> Any:
    """What an event says; None: nothing."""
    return json.loads(fragment.partition(b"data: ")[2]) if fragment else None


UNKNOWN = dict.fromkeys(("at", "event_time", "seconds_left", "total_usd", "places_missing"))


def an_outlook(usd_per_hour: float | None = None, in_flight: int = 0) -> Outlook:
    own = {"usd_per_hour": usd_per_hour, "in_flight": in_flight}
    return Outlook.model_validate({"running": [], "places": {}, "first_two": [], **UNKNOWN, **own})


class Board:
    """Parts to draw, and how often they were; with a clock that stands."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.broken: str | None = None
        self.times, self.now = 0, 0.0
        self.room = a_room()
        self.view = View(self.room, self.draw, clock=lambda: self.now)

    def draw(self) -> Iterator[Part]:
        self.times += 1
        for row, content in self.parts.items():
            if row == self.broken:
                raise ArithmeticError(row)
            yield Part("t", row, content)

    def change(self, **parts: Any) -> None:
        self.parts |= parts
        self.room.touch()
        self.now += PACE_SECONDS

    def since(self, seen: int) -> Any:
        """The rows that a viewer lacks; None: none."""
        told = drawn(self.view.since(seen)[0])
        return told and told["t"]


@pytest.fixture
def board() -> Board:
    return Board()


def test_a_view_is_drawn_once_for_all_its_viewers_and_gives_each_what_it_lacks(board: Board) -> None:
    board.change(a=1, b=1)
    fragment, seen = board.view.since(0)
    assert drawn(fragment) == {"t": {"a": 1, "b": 1}}
    assert board.view.since(0) == (fragment, seen)
    board.change(b=2)
    changed, now = board.view.since(seen)
    assert (drawn(changed), now) == ({"t": {"b": 2}}, board.room.revision)
    assert (board.since(0), board.since(now)) == ({"a": 1, "b": 2}, None)
    assert board.times == 2


def test_a_view_is_drawn_no_faster_than_its_pace(board: Board) -> None:
    board.change(a=1)
    _, seen = board.view.since(0)
    board.change(a=2)
    board.now -= PACE_SECONDS / 2
    assert board.view.since(seen) == (b"", seen)
    board.now += PACE_SECONDS / 2
    assert board.since(seen) == {"a": 2}


def test_what_cannot_be_drawn_stays_and_is_said_once(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    board.change(a=1, b=1, c=1)
    _, seen = board.view.since(0)
    board.broken = "b"
    for number in (2, 3):
        board.change(a=number, b=number, c=number)
        assert board.since(seen) == {"a": number}
    assert board.since(0) == {"a": 3, "b": 1, "c": 1}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    board.broken = None
    board.change(a=3)
    assert board.since(seen) == {"a": 3, "b": 3, "c": 3}


def test_a_touch_of_a_room_tells_no_summary() -> None:
    room = a_room(a_run_change())
    _, position = room.since(0)
    room.touch()
    assert (room.since(position)[0], room.revision) == ([], position + 1)


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


def parts_of(outlook: RunOutlook, **query: Any) -> dict[tuple[str, str], Any]:
    parts = boards._drawn_run(outlook._room, outlook, ViewQuery(**query))
    return {(table, row): content for table, row, content in parts}


async def test_tiers_stand_in_one_order_whichever_changed_last() -> None:
    changes = [a_tier_change(tier=tier, agent=agent, model="m") for tier in ("T1", "T0") for agent in "ba"]
    pooled = [a_tier_change(tier=tier) for tier in ("T1", "T0")]
    outlook = RunOutlook(a_room(a_run_change(), *changes, *pooled), never)
    for within, order in ((False, ["T0\n", "T1\n"]), (True, ["T0\na:m", "T0\nb:m", "T1\na:m", "T1\nb:m"])):
        assert parts_of(outlook, view="tiers", within=within)["tiers", ""]["order"] == order
    assert parts_of(outlook, view="part")["groups", ""]["tiers"] == ["T0", "T1"]


async def never() -> Outlook:
    await asyncio.Event().wait()
    raise AssertionError


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


def asking(*answers: Outlook | Exception) -> tuple[Room, AsyncMock, RunOutlook]:
    """An empty room, these answers, the last one again and again, and the outlook in the room."""
    room, loads = a_room(), AsyncMock(side_effect=chain(answers, repeat(answers[-1])))
    return room, loads, RunOutlook(room, loads)


async def test_the_outlook_is_asked_for_once_for_a_digest() -> None:
    room, loads, outlook = asking(an_outlook(1.0), an_outlook(2.0))
    for digest, rate, times in (("a", 1.0, 1), ("a", 1.0, 1), ("b", 2.0, 2)):
        outlook.want(digest)
        await asked(outlook, digest)
        assert (outlook.found, loads.await_count) == (an_outlook(rate), times)
    assert room.revision == 2


async def test_an_outlook_that_says_the_same_touches_no_room() -> None:
    room, loads, outlook = asking(an_outlook(1.0))
    await asked(outlook, "a", "b")
    assert (loads.await_count, room.revision) == (2, 1)


async def test_a_run_that_changed_meanwhile_is_asked_for_again() -> None:
    _, loads, outlook = asking(an_outlook(1.0))
    await asked(outlook, "a")
    outlook.want("b")
    await eventually(lambda: loads.await_count == 2, "asked for b")
    await asked(outlook, "c", "c")
    assert loads.await_count == 3


async def test_a_mistake_of_ours_is_logged_and_the_outlook_stays(caplog: pytest.LogCaptureFixture) -> None:
    room, loads, outlook = asking(an_outlook(1.0), ArithmeticError("ours"))
    await asked(outlook, "a", "b", "b")
    assert (outlook.found, loads.await_count, room.revision) == (an_outlook(1.0), 2, 1)
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_redis_that_is_away_is_asked_again_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    room, _, outlook = asking(RedisUnavailable("redis://h:1", OSError("away")), an_outlook(1.0))
    await asked(outlook, "a")
    assert (outlook.found, room.revision) == (None, 1)
    await asked(outlook, "a")
    assert (outlook.found, caplog.records) == (an_outlook(1.0), [])


async def test_a_running_trial_grows_older_though_no_viewer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "AGE_SECONDS", 0.0)
    room, loads, outlook = asking(an_outlook(1.0, in_flight=1), an_outlook(2.0))
    outlook.want("a")
    await eventually(lambda: room.revision == 2, "the answer, and its age")
    assert room.viewers == 0
    await asked(outlook, "a")
    assert (outlook.found, loads.await_count) == (an_outlook(2.0), 2)


async def test_the_outlook_of_a_run_that_is_gone_is_forgotten() -> None:
    change = a_run_change()
    room, _, outlook = asking(an_outlook(1.0), an_outlook(2.0))
    put(room, change)
    parts_of(outlook, view="part")
    await settled(outlook)
    assert outlook.found == an_outlook(1.0)
    room.remove(key_of(summary_of(change)))
    assert parts_of(outlook, view="part") == {}
    put(room, change)
    head = parts_of(outlook, view="part")["run", ""]["tiles"]
    assert "per hour" not in drawing.text_of(["", {}, *head])
    await settled(outlook)
    assert outlook.found == an_outlook(2.0)


VIEWERS, SECONDS, RATE, BATCH = 50, 6, 1000, 50
"""Viewers, and for how long so many events a second come, in batches of so many."""


def lines() -> list[bytes]:
    """Results of 20 agents in 5 tiers: 126 summaries that change all the time."""
    numbers = range(RATE * SECONDS)
    slots = [
        {"agent": f"agent-{n // 60 % 20}", "task_id": f"task-{n % 60}", "tier": f"T{n % 5}"} for n in numbers
    ]
    done = [{"attempt": 1 + n // 1200, "resolved": n % 3 == 0, "cost_usd": n % 7 / 10} for n in numbers]
    return [orjson.dumps(a_trial(run_id="load", **a, **b)) for a, b in zip(slots, done, strict=True)]


def publish_paced(settings: Settings, events: list[bytes]) -> float:
    """Publish at the rate of the claim; seconds that it took."""
    start = time.monotonic()
    with ThreadedPublisher(settings) as publisher:
        for number in range(0, len(events), BATCH):
            for line in events[number : number + BATCH]:
                publisher.send(Outgoing(b"load", line))
            time.sleep(max(0.0, start + (number + BATCH) / RATE - time.monotonic()))
        publisher.flush()
    return time.monotonic() - start


@pytest.mark.slow
async def test_fifty_viewers_converge_while_a_thousand_events_a_second_arrive(tmp_path: Path) -> None:
    events, path = lines(), "/api/runs/load/updates"
    async with AsyncExitStack() as ends:
        settings = ends.enter_context(a_stack(tmp_path))
        with ThreadedPublisher(settings) as publisher:
            publisher.send(Outgoing(b"load", events[0]))
        web = ends.enter_context(WebProcess(settings, tmp_path))
        reader = await ends.enter_async_context(AsyncStateReader(settings))
        await reader.wait_for("load", lambda run: run.trials == 1, timeout_seconds=30)
        viewers = [await Viewer(web.port, path).open() for _ in range(VIEWERS)]
        _, slow = await asyncio.open_connection("127.0.0.1", web.port, limit=1024)
        slow.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        before = most = web.resident_bytes()
        publishing = asyncio.create_task(asyncio.to_thread(publish_paced, settings, events))
        while not publishing.done():
            most = max(most, web.resident_bytes())
            await asyncio.sleep(0.1)
        assert await publishing < 3 * SECONDS
        await reader.wait_for("load", lambda run: run.trials == len(events), timeout_seconds=60)
        groups = [*await reader.agents("load"), *await reader.tiers("load", within=True)]
        summaries = [await reader.run("load"), *groups]
        expected = {place_of(s.model_dump(mode="json")): s.digest for s in summaries}
        assert len(expected) == 1 + 20 + 5 + 100
        for viewer in viewers:
            await eventually(lambda v=viewer: v.digests() == expected, "the viewer converges", 60)  # type: ignore[misc]
        assert all(viewer.events.count("snapshot") == 1 for viewer in viewers)
        most = max(most, web.resident_bytes())
        print(f"memory: {before / 2**20:.0f} MiB at the start, {most / 2**20:.0f} MiB at most")
        assert most - before < 96 * 2**20
        slow.close()
        for viewer in viewers:
            await viewer.close()
