"""One subscription for all viewers of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import cast

import pytest
import redis

from streamer.client.queries import ReaderError
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.schemas.summaries import SILENT_AFTER, Leader
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web.protocols.live import Hub, Room
from tests.support.builders import LAST_EVENT_AT, a_run_change, an_agent_model_change
from tests.support.events import a_trial
from tests.support.eventually import eventually
from tests.support.servers import RedisServer
from tests.web.feeding import Feed
from tests.web.rooms import a_room, put, summary_of
from tests.web.serving import Serving
from tests.web.viewer import Watch, converged


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
    monkeypatch.setattr("streamer.web.protocols.live.RETRY_SECONDS", 0.0)
    reader = AwayTwiceThenUnreadable()
    following = asyncio.create_task(Hub(cast(AsyncStateReader, reader), 1, 1).follow())
    await eventually(lambda: reader.tries >= 30, "thirty tries")
    following.cancel()
    said = [record.getMessage() for record in caplog.records if record.name == "streamer.web"]
    assert said == ["Redis is away", "Redis is away", "the summary is of a newer version"]


class AwayTwiceThenUnreadable:
    """A reader that fails ten times, has an update, fails in the same way, and then in another one."""

    def __init__(self) -> None:
        self.tries = 0

    async def updates(self) -> AsyncIterator[StateUpdate]:
        self.tries += 1
        if self.tries == 11:
            yield StateUpdate("r", "run", "", "key", None)
        raise ReaderError("Redis is away" if self.tries <= 20 else "the summary is of a newer version")


# -----------------------------------------------------------------------------
# The state that the viewers of a run share: the newest version wins, slow viewers get the latest.


def test_of_a_summary_that_changes_often_a_slow_viewer_is_told_only_the_latest_state() -> None:
    room = a_room(*(an_agent_model_change(version=version, trials=version) for version in range(1000)))
    frames, position = room.since(0)
    assert len(frames) == 1
    assert b'"trials":999' in frames[0]
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


def test_an_older_version_never_replaces_a_newer_one_and_an_equal_one_does() -> None:
    versions = ((7, 1), (6, 2), (7, 3))
    room = a_room(*(an_agent_model_change(version=version, trials=trials) for version, trials in versions))
    [frame], _ = room.since(0)
    assert b'"trials":3' in frame


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
