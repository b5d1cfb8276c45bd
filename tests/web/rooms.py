"""The room of a run's viewers, with summaries in it."""

from __future__ import annotations

from typing import Any

from streamer.folding.slots import SummaryChange
from streamer.schemas.summaries import SUMMARY
from streamer.web.protocols.live import Room


def summary_of(change: SummaryChange) -> Any:
    """The summary as a viewer's reader has it."""
    return SUMMARY.validate_json(change.value or b"")


def put(room: Room, *changes: SummaryChange) -> None:
    """Tell the room of each."""
    for change in changes:
        room.put(summary_of(change))


def a_room(*changes: SummaryChange) -> Room:
    """A room that was empty, and was told of these."""
    room = Room()
    room.fill([])
    put(room, *changes)
    return room
