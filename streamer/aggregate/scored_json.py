"""The scored trial of a slot as it is published: the specification's per-run numbers of its winner."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import PLAIN, canonical_json, encode_plain, sha256_hex
from schemas.identity import agent_model_label
from schemas.plain import AnyTrial, PlainTrial
from streamer.aggregate.slots import Slot, SlotKey, event_of
from streamer.score import FormulaCodeScore, GradingProfile, Scored, task_payload
from streamer.stats import JsonNumber, json_number

_label = lru_cache(maxsize=4096)(agent_model_label)


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


def scored_json(
    run_id: str,
    profile: GradingProfile,
    key: SlotKey,
    slot: Slot,
    scored: Scored,
    fingerprint: str,
) -> bytes:
    """Scored trial of a slot with its digest, open at the end: the fields that tell the way follow."""
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
        None if formulacode is None else _formulacode(event_of(slot.raw), scored, formulacode),
        profile.grade(composite),
        impl_rate,
        input_tokens,
        model,
        output_tokens,
        pass_rate,
        resolved,
        slot.revision,
        run_id,
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
        digested = encode_plain(body)
    else:
        digested = canonical_json(msgspec.structs.asdict(body))
    return b'%b,"digest":"%b"' % (digested[:-1], sha256_hex(digested).encode())


def _formulacode(event: AnyTrial, scored: Scored, score: FormulaCodeScore) -> dict[str, Any] | None:
    """The specification's per-agent task payload, made again from the event."""
    if isinstance(event, PlainTrial):  # pragma: no cover - such a result carries none of its sections
        return None
    return task_payload(
        event,
        score,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
