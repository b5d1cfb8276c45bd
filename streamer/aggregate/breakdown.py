"""Parts of a run that are not published: derived from its slots when a reader asks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from streamer.aggregate.group import GroupState, Trials
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
    groups: dict[Place, GroupState] = {}
    for key, slot in run.slots.items():
        scored = run.scores.of(slot)
        if scored is None:
            continue
        for place in places(key, slot):
            trials.setdefault(place, []).append((key, scored))
            group = groups.setdefault(place, GroupState())
            group.superseded += slot.superseded
            group.conflicts += slot.in_conflict
    for place, group in groups.items():
        group.count([Trials.of(trials[place])])
        group.owners.update((key.agent, key.model, key.tier) for key, _ in trials[place])
    return groups
