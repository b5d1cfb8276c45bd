"""The scored trials of a run that changed, on their way to the topic `scored-trials`."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.changes import ScoredChange
from streamer.aggregate.run_state import RunState
from streamer.aggregate.scored_json import scored_json
from streamer.aggregate.slot_key import SlotKey, rfc3339, slot_topic_key
from streamer.aggregate.slots import Slot, event_of
from streamer.schemas.canonical import canonical_json
from streamer.schemas.identity import encode_id
from streamer.score import Scored, task_payload


def scored_changes(run: RunState, epoch: int, most: int | None = None) -> list[ScoredChange]:
    """Records for the topic `scored-trials`: of the slots that changed, of all if changes are not collected.

    Args:
        most: of so many slots at most, the others go on waiting; None: of all.
    """
    way = {
        "epoch": epoch,
        "state_version": run.state_version,
        "last_event_at": rfc3339(run.last_event_at),
    }
    end = b"," + canonical_json(way)[1:]
    run_key = encode_id(run.run_id)
    changes = []
    changed = (
        run.changes.take_scored(most) if run.changes.collects_scored_trials else dict.fromkeys(run.slots)
    )
    for key, fresh in changed.items():
        topic_key = slot_topic_key(run_key, key)
        if (
            fresh is None
            and (slot := run.slots.get(key)) is not None
            and (scored := run.scores.of(slot)) is not None
        ):
            payload = _payload(run, key, slot, scored)
            fresh = scored_json(run.run_id, run.rules.profile, key, slot, scored, slot.fingerprint, payload)
        changes.append(ScoredChange(run.run_id, topic_key, None if fresh is None else fresh + end))
    return changes


def _payload(run: RunState, key: SlotKey, slot: Slot, scored: Scored) -> dict[str, Any] | None:
    """The specification's per-agent task payload; None for a score without FormulaCode's part."""
    if scored.formulacode is None:
        return None
    return task_payload(
        event_of(slot.raw),
        run.scores.trial_group(key) if scored.formulacode.fallback else (),
        scored.formulacode,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
