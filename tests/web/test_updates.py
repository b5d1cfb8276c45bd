"""Streams: nothing is missed, whatever breaks; one subscription for all; slow viewers cost nothing."""

from __future__ import annotations

import http.client
from datetime import UTC, datetime, timedelta

import pytest
from sse_starlette import EventSourceResponse

from streamer.schemas.summaries import SILENT_AFTER
from streamer.settings import Settings
from streamer.web import live
from tests.support.events import a_deletion, a_plan, a_retraction, a_trial
from tests.support.eventually import eventually
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.viewer import PATH, Watch, converged


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


async def test_viewers_are_told_without_an_event_that_a_run_has_stalled(
    settings: Settings, feed: Feed, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STATES_SECONDS", 0.05)
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


def test_a_silent_stream_is_pinged(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.05)
    with Serving(settings) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=10)
        connection.request("GET", "/api/updates")
        with connection.getresponse() as stream:
            assert any(line.startswith(b": ping") for line in stream)
        connection.close()
