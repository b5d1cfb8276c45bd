"""Streams: nothing is missed, whatever breaks; one subscription for all; slow viewers cost nothing."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest
import redis
from sse_starlette import EventSourceResponse

from streamer.client.lifecycle import SILENT_AFTER
from streamer.redis.keys import Keys
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.settings import Settings
from streamer.web import hub
from streamer.web.rooms import Room
from tests.support.builders import LAST_EVENT_AT, a_run_change, an_agent_model_change
from tests.support.events import a_deletion, a_plan, a_retraction, a_trial
from tests.support.eventually import eventually
from tests.support.servers import RedisServer
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.viewer import Viewer

PATH = "/api/runs/run-1/updates"
Watch = Callable[..., Viewer]


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    """Make a viewer."""
    viewers: list[Viewer] = []

    def make(serving: Serving, path: str = PATH) -> Viewer:
        viewers.append(Viewer(serving.port, path))
        return viewers[-1]

    yield make
    for viewer in viewers:
        await viewer.close()


async def converged(viewer: Viewer, feed: Feed, run: str = "run-1") -> None:
    await eventually(lambda: viewer.digests() == feed.digests(run), "the viewer knows what the fold knows")


async def test_a_viewer_is_told_everything_then_each_change(
    serving: Serving, feed: Feed, watch: Watch
) -> None:
    await feed.take([a_plan(tasks=3), a_trial(tier="T0")])
    viewer = await watch(serving).open()
    assert viewer.events[0] == "snapshot"
    assert viewer.digests() == feed.digests("run-1")
    await feed.take([a_trial(task_id="task-2", tier="T1", agent="other")])
    await converged(viewer, feed)
    assert viewer.events.count("snapshot") == 1


async def test_a_viewer_that_comes_back_is_told_only_what_it_missed(
    serving: Serving, feed: Feed, watch: Watch
) -> None:
    await feed.take([a_trial(), a_trial(agent="other")])
    viewer = await watch(serving).open()
    other = await watch(serving).open()
    await viewer.close()
    viewer.events.clear()
    await feed.take([a_trial(task_id="task-2")])
    await converged(other, feed)
    await viewer.open()
    assert viewer.digests() == feed.digests("run-1")
    assert sorted(viewer.events) == ["agent_model_summary", "run_summary", "told"]


async def test_a_stream_cut_in_the_middle_of_a_snapshot_goes_on_from_there(
    serving: Serving, feed: Feed, watch: Watch
) -> None:
    await feed.take(a_trial(agent=f"agent-{number}") for number in range(20))
    whole = await watch(serving).open()
    half = watch(serving)
    half.last_id = whole.last_id.partition("-")[0] + "-11"
    await half.open()
    assert "snapshot" not in half.events
    assert len(half.state) == 21 - 11


async def test_nothing_is_lost_when_the_server_restarts_deletions_included(
    settings: Settings, feed: Feed, watch: Watch
) -> None:
    with Serving(settings) as serving:
        await feed.take([a_trial(), a_trial(agent="other")])
        viewer = await watch(serving).open()
        assert len(viewer.state) == 3
    await feed.take([a_retraction(agent="other"), a_trial(task_id="task-2")])
    with Serving(settings, port=serving.port):
        viewer.events.clear()
        await viewer.open()
        assert viewer.events[0] == "snapshot"
        assert viewer.digests() == feed.digests("run-1")
        assert len(viewer.state) == 2
        await feed.take([a_trial(task_id="task-3")])
        await converged(viewer, feed)
        await viewer.close()


@pytest.mark.parametrize("last_id", ["x", "0-5", "-1", "zz-zz", "0123456789ab-99999999999999999999"])
async def test_an_id_that_the_server_does_not_know_begins_with_a_snapshot(
    serving: Serving, feed: Feed, watch: Watch, last_id: str
) -> None:
    await feed.take([a_trial()])
    viewer = watch(serving)
    viewer.last_id = last_id
    await viewer.open()
    assert viewer.events[0] == "snapshot"


async def test_a_client_that_cannot_send_the_header_resumes_by_the_query(
    serving: Serving, feed: Feed, watch: Watch
) -> None:
    await feed.take([a_trial()])
    first = await watch(serving).open()
    second = await watch(serving, f"{PATH}?last_event_id={first.last_id}").open()
    assert second.events == ["told"]


async def test_a_group_that_empties_and_a_run_that_is_deleted_are_told(
    serving: Serving, feed: Feed, watch: Watch
) -> None:
    await feed.take([a_trial(), a_trial(agent="other")])
    viewer = await watch(serving).open()
    await feed.take([a_retraction(agent="other")])
    await eventually(lambda: len(viewer.state) == 2, "the empty group is gone")
    await feed.take([a_deletion(revision=1)])
    await eventually(lambda: not viewer.state, "the run is gone")


async def test_the_list_of_runs_is_a_stream_too(serving: Serving, feed: Feed, watch: Watch) -> None:
    await feed.take([a_trial()])
    viewer = await watch(serving, "/api/updates").open()
    seen: set[str] = {summary["run_id"] for summary in viewer.state.values()}
    assert seen == {"run-1"}
    await feed.take([a_trial(run_id="run/2")])
    await eventually(
        lambda: {summary["run_id"] for summary in viewer.state.values()} == {"run/2"}, "the new run"
    )


async def test_viewers_of_a_run_that_does_not_exist_are_told_so(serving: Serving, watch: Watch) -> None:
    viewer = await watch(serving).open()
    assert viewer.status == 404


async def test_any_number_of_viewers_cost_one_redis_subscription(
    serving: Serving, feed: Feed, settings: Settings, watch: Watch, redis_server: RedisServer
) -> None:
    await feed.take([a_trial(), a_trial(run_id="run-2")])
    for number in range(50):
        await watch(serving, f"/api/runs/run-{1 + number % 2}/updates").open()
    channel = Keys(settings.namespace).updates
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.pubsub_numsub(channel) == [(channel.encode(), 1)]
    health = serving.get("/api/health").json()
    assert (health["viewers"], health["subscriptions"], health["following"]) == (50, 1, True)


async def test_viewers_that_left_are_not_counted(serving: Serving, feed: Feed, watch: Watch) -> None:
    await feed.take([a_trial()])
    viewers = [await watch(serving).open() for _ in range(5)]
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


def test_of_a_summary_that_changes_often_a_slow_viewer_is_told_only_the_latest_state() -> None:
    room = Room()
    room.fill([])
    for version in range(1000):
        change = an_agent_model_change(version=version, trials=version)
        room.put(AgentModelSummary.model_validate_json(change.value or b""))
    frames, position = room.since(0)
    assert len(frames) == 1
    assert b'"trials":999' in frames[0]
    assert room.since(position) == ([], position)


def test_what_was_told_while_a_room_was_being_filled_stands() -> None:
    room = Room()
    new = AgentModelSummary.model_validate_json(an_agent_model_change(version=9, trials=9).value or b"")
    old = AgentModelSummary.model_validate_json(an_agent_model_change(version=5, trials=5).value or b"")
    gone = AgentModelSummary.model_validate_json(an_agent_model_change(agent="gone").value or b"")
    room.put(new)
    room.remove((gone.run_id, gone.type, "", gone.agent_model))
    room.fill([old, gone])
    frames, _ = room.since(0)
    assert [frame.split(b"\n")[1] for frame in frames] == [b"event: agent_model_summary", b"event: deleted"]
    assert b'"trials":9' in frames[0]


def test_an_older_version_never_replaces_a_newer_one_and_an_equal_one_does() -> None:
    room = Room()
    room.fill([])
    for version, trials in ((7, 1), (6, 2), (7, 3)):
        change = an_agent_model_change(version=version, trials=trials)
        room.put(AgentModelSummary.model_validate_json(change.value or b""))
    [frame], _ = room.since(0)
    assert b'"trials":3' in frame


def test_a_run_that_falls_silent_is_told_again_with_its_new_state_and_only_then() -> None:
    now = datetime.fromisoformat(LAST_EVENT_AT)
    clock = [now]
    room = Room(lambda: clock[0])
    change = a_run_change(progress={"done": 3, "planned": 12})
    room.fill([RunSummary.model_validate_json(change.value or b"")])
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


async def test_viewers_are_told_without_an_event_that_a_run_has_stalled(
    settings: Settings, feed: Feed, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "STATES_SECONDS", 0.05)
    at = datetime.now(UTC) - SILENT_AFTER + timedelta(seconds=3)
    with Serving(settings) as serving:
        await feed.take([a_plan(tasks=3, attempts=1), a_trial(finished_at=at.isoformat())])
        viewer = await watch(serving, "/api/updates").open()

        def state() -> str:
            [run] = viewer.state.values()
            return str(run["state"])

        assert state() == "running"
        await eventually(lambda: state() == "stalled", "the run has stalled")
        assert viewer.digests() == {("run_summary", "", ""): feed.digests("run-1")["run_summary", "", ""]}
        await viewer.close()


async def test_a_room_wakes_who_waits() -> None:
    room = Room()
    room.fill([])
    waiting = asyncio.create_task(room.wait(0))
    await asyncio.sleep(0)
    assert not waiting.done()
    room.put(AgentModelSummary.model_validate_json(an_agent_model_change().value or b""))
    await waiting
    await room.wait(0)
    waiting = asyncio.create_task(room.wait(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    room.wake()
    await waiting


def test_a_silent_stream_is_pinged(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.05)
    with Serving(settings) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=10)
        connection.request("GET", "/api/updates")
        with connection.getresponse() as stream:
            assert any(line.startswith(b": ping") for line in stream)
        connection.close()
