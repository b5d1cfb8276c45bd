"""The scored trial of a slot as it is published: the specification's per-run numbers of its winner."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import PLAIN, canonical_json, encode_plain, sha256_hex
from schemas.identity import agent_model_label
from streamer.aggregate.slot_key import SlotKey
from streamer.aggregate.slots import Slot
from streamer.score import GradingProfile, Scored
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
    infrastructure_failure: bool
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
    verdict_source: str | None


def scored_json(
    run_id: str,
    profile: GradingProfile,
    key: SlotKey,
    slot: Slot,
    scored: Scored,
    fingerprint: str,
    payload: dict[str, Any] | None = None,
) -> bytes:
    """Scored trial of a slot with its digest, open at the end: the fields that tell the way follow.

    Args:
        payload: the specification's per-agent task payload; None for a score without FormulaCode's part.
    """
    shard, task_id, attempt, agent, model, tier, subtest = key
    body = _Body(
        agent=agent,
        agent_index=slot.agent_index,
        agent_model=_label(agent, model),
        attempt=attempt,
        composite_score=scored.composite,
        cost_of_pass=json_number(scored.cost_of_pass),
        cost_source=scored.cost_source,
        cost_usd=scored.cost_usd,
        duration_seconds=scored.duration_seconds,
        failure_mode=scored.failure_mode,
        fingerprint=fingerprint,
        formulacode=payload,
        grade=profile.grade(scored.composite),
        impl_rate=scored.impl_rate,
        infrastructure_failure=scored.infrastructure_failure,
        input_tokens=scored.input_tokens,
        model=model,
        output_tokens=scored.output_tokens,
        pass_rate=scored.pass_rate,
        resolved=scored.resolved,
        revision=slot.revision,
        run_id=run_id,
        semantics_version=SEMANTICS_VERSION,
        shard=shard,
        subtest=subtest,
        success=scored.success,
        task_id=task_id,
        tier=tier,
        trajectory_length=scored.trajectory_length,
        type="scored_trial",
        verdict_source=scored.verdict_source,
    )
    cost, duration = scored.cost_usd, scored.duration_seconds
    if payload is None and (cost is None or cost <= PLAIN) and (duration is None or duration <= PLAIN):
        digested = encode_plain(body)
    else:
        digested = canonical_json(msgspec.structs.asdict(body))
    return b'%b,"digest":"%b"' % (digested[:-1], sha256_hex(digested).encode())
