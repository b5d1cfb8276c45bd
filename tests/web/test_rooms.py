"""The state that the viewers of a run share: the newest version wins, slow viewers get the latest."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from streamer.schemas.summaries import SILENT_AFTER, AgentModelSummary, RunSummary
from streamer.web.live import Room
from tests.support.builders import LAST_EVENT_AT, a_run_change, an_agent_model_change


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
