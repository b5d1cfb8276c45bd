"""Parts of a run that are not published: derived from its slots when a reader asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import SlotKey
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot
from streamer.score import Scored

Place = TypeVar("Place", bound=Hashable)


def broken_down(run: RunState, places: Callable[[SlotKey, Slot], Iterable[Place]]) -> dict[Place, GroupState]:
    """The trials of each place; a place without trials has no entry.

    Args:
        run: counted up to date.
        places: where the trial of a slot counts.
    """
    trials: dict[Place, list[tuple[SlotKey, Scored]]] = {}
    marks: Counter[tuple[Place, str]] = Counter()
    for key, slot in run.slots.items():
        scored = run.scores.of(slot)
        if scored is None:
            continue
        for place in places(key, slot):
            trials.setdefault(place, []).append((key, scored))
            marks[place, "superseded"] += slot.superseded
            marks[place, "conflicts"] += slot.in_conflict
    groups = {place: GroupState.of(counted) for place, counted in trials.items()}
    for (place, name), times in marks.items():
        setattr(groups[place], name, times)
    return groups
