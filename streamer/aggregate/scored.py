"""The scored trial of a slot: the specification's per-run numbers of its winner."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import PLAIN, canonical_json, encode_plain, sha256_hex
from schemas.identity import agent_model_label, encode_id
from schemas.plain import PlainTrial
from streamer.aggregate.changes import ScoredChange
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, SlotKey, event_of, rfc3339, slot_topic_key
from streamer.score import FormulaCodeScore, Scored, task_payload
from streamer.stats import JsonNumber, json_number

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
        digested = _digested(run, key, slot, scored, fresh[1] if fresh else slot.fingerprint)
        value = b'%b,"digest":"%b%b' % (digested[:-1], sha256_hex(digested).encode(), end)
        changes.append(ScoredChange(run.run_id, topic_key, value))
    return changes


class _Body(Struct, gc=False):
    """Everything that the digest covers, in the order of canonical JSON."""

    agent: str
    agent_index: int | None
    agent_model: str
    attempt: int
    composite_score: float | None
    cost_of_pass: JsonNumber
    cost_source: str | None
    cost_usd: float | None
    duration_seconds: float | None
    failure_mode: str | None
    fingerprint: str
    formulacode: dict[str, Any] | None
    grade: str | None
    impl_rate: float | None
    input_tokens: int | None
    model: str
    output_tokens: int | None
    pass_rate: float
    resolved: bool | None
    revision: int | None
    run_id: str
    semantics_version: int
    shard: str
    subtest: str | None
    success: bool
    task_id: str
    tier: str | None
    trajectory_length: int | None
    type: str


def _digested(run: RunState, key: SlotKey, slot: Slot, scored: Scored, fingerprint: str) -> bytes:
    """Canonical JSON of what the digest covers."""
    shard, task_id, attempt, agent, model, tier, subtest = key
    resolved, success, pass_rate, impl_rate, composite, cost, cost_source, cost_of_pass = scored[:8]
    duration, input_tokens, output_tokens, _, _, trajectory_length, failure_mode, formulacode = scored[8:]
    body = _Body(
        agent,
        slot.agent_index,
        _label(agent, model),
        attempt,
        composite,
        json_number(cost_of_pass),
        cost_source,
        cost,
        duration,
        failure_mode,
        fingerprint,
        None if formulacode is None else _formulacode(slot, scored, formulacode),
        run.profile.grade(composite),
        impl_rate,
        input_tokens,
        model,
        output_tokens,
        pass_rate,
        resolved,
        slot.revision,
        run.run_id,
        SEMANTICS_VERSION,
        shard,
        subtest,
        success,
        task_id,
        tier,
        trajectory_length,
        "scored_trial",
    )
    if formulacode is None and (cost is None or cost <= PLAIN) and (duration is None or duration <= PLAIN):
        return encode_plain(body)
    return canonical_json(msgspec.structs.asdict(body))


def _formulacode(slot: Slot, scored: Scored, score: FormulaCodeScore) -> dict[str, Any] | None:
    """The specification's per-agent task payload, made again from the event."""
    event = event_of(slot.raw)
    if isinstance(event, PlainTrial):  # pragma: no cover - such a result carries none of its sections
        return None
    return task_payload(
        event,
        score,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
