"""The scored trial of a slot: the specification's per-run numbers of its winner."""

from __future__ import annotations

from typing import Any

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import canonical_json, digest_of
from schemas.identity import agent_model_label
from streamer.aggregate.changes import ScoredChange
from streamer.aggregate.run_state import RunState
from streamer.aggregate.scored_slots import event_in
from streamer.aggregate.slots import Slot, SlotKey, rfc3339, slot_topic_key
from streamer.score import Scored, task_payload
from streamer.stats import json_number


def scored_change(run: RunState, key: SlotKey, epoch: int) -> ScoredChange:
    """Record for the topic `scored-trials`; a tombstone where the slot is empty."""
    topic_key = slot_topic_key(run.run_id, key)
    slot = run.slots.get(key)
    if slot is None or slot.scored is None or slot.winner is None:
        return ScoredChange(run.run_id, topic_key, None)
    shard, task_id, attempt, agent, model, tier, subtest = key
    scored = slot.scored
    body = {
        "type": "scored_trial",
        "run_id": run.run_id,
        "shard": shard,
        "task_id": task_id,
        "attempt": attempt,
        "agent": agent,
        "model": model,
        "agent_model": agent_model_label(agent, model),
        "agent_index": slot.agent_index,
        "tier": tier,
        "subtest": subtest,
        "semantics_version": SEMANTICS_VERSION,
        "revision": slot.winner[0],
        "fingerprint": slot.winner[2],
        "resolved": scored.resolved,
        "success": scored.success,
        "failure_mode": scored.failure_mode,
        "pass_rate": scored.pass_rate,
        "impl_rate": scored.impl_rate,
        "composite_score": scored.composite,
        "grade": run.profile.grade(scored.composite),
        "cost_usd": scored.cost_usd,
        "cost_source": scored.cost_source,
        "cost_of_pass": json_number(scored.cost_of_pass),
        "duration_seconds": scored.duration_seconds,
        "input_tokens": scored.input_tokens,
        "output_tokens": scored.output_tokens,
        "trajectory_length": scored.trajectory_length,
        "formulacode": _formulacode(slot, scored),
    }
    way = {
        "digest": digest_of(body),
        "epoch": epoch,
        "state_version": run.state_version,
        "last_event_at": rfc3339(run.last_event_at),
    }
    return ScoredChange(run.run_id, topic_key, canonical_json(body | way))


def _formulacode(slot: Slot, scored: Scored) -> dict[str, Any] | None:
    """The specification's per-agent task payload, made again from the event."""
    if scored.formulacode is None:
        return None
    return task_payload(
        event_in(slot),
        scored.formulacode,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
