"""The scored trial of a slot: the specification's per-run numbers of its winner."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import canonical_json, sha256_hex
from schemas.identity import agent_model_label, encode_id
from schemas.plain import PlainTrial
from streamer.aggregate.changes import ScoredChange
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, SlotKey, event_of, rfc3339, slot_topic_key
from streamer.score import Scored, task_payload
from streamer.stats import json_number

_label = lru_cache(maxsize=4096)(agent_model_label)


def scored_changes(run: RunState, epoch: int) -> list[ScoredChange]:
    """Records for the topic `scored-trials`: of the slots that changed, of all if changes are not noted."""
    way = {
        "epoch": epoch,
        "state_version": run.state_version,
        "last_event_at": rfc3339(run.last_event_at),
    }
    end = b'",' + canonical_json(way)[1:]
    run_key = encode_id(run.run_id)
    changes = []
    changed = run.rescored if run.tracked else dict.fromkeys(run.slots)
    for key, fresh in changed.items():
        topic_key = slot_topic_key(run_key, key)
        slot = run.slots.get(key)
        scored = fresh[0] if fresh else None if slot is None else run.score_of(slot)
        if slot is None or scored is None:
            changes.append(ScoredChange(run.run_id, topic_key, None))
            continue
        fingerprint = fresh[1] if fresh else slot.fingerprint
        digested = canonical_json(_body(run, key, slot, scored, fingerprint))
        digest = sha256_hex(digested).encode()
        changes.append(
            ScoredChange(run.run_id, topic_key, b'%b,"digest":"%b%b' % (digested[:-1], digest, end))
        )
    return changes


def _body(run: RunState, key: SlotKey, slot: Slot, scored: Scored, fingerprint: str) -> dict[str, Any]:
    """Everything that the digest covers."""
    shard, task_id, attempt, agent, model, tier, subtest = key
    return {
        "type": "scored_trial",
        "run_id": run.run_id,
        "shard": shard,
        "task_id": task_id,
        "attempt": attempt,
        "agent": agent,
        "model": model,
        "agent_model": _label(agent, model),
        "agent_index": slot.agent_index,
        "tier": tier,
        "subtest": subtest,
        "semantics_version": SEMANTICS_VERSION,
        "revision": slot.revision,
        "fingerprint": fingerprint,
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


def _formulacode(slot: Slot, scored: Scored) -> dict[str, Any] | None:
    """The specification's per-agent task payload, made again from the event."""
    if scored.formulacode is None:
        return None
    event = event_of(slot.raw)
    if isinstance(event, PlainTrial):  # pragma: no cover - such a result carries none of its sections
        return None
    return task_payload(
        event,
        scored.formulacode,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
