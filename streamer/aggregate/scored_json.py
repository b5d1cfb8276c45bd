"""The scored trial of a slot as it is published: the specification's per-run numbers of its winner."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from streamer.aggregate.slot_key import SlotKey
from streamer.aggregate.slots import Slot
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.schemas.identity import agent_model_label
from streamer.score import GradingProfile, Scored, fields_of
from streamer.stats import json_number

_label = lru_cache(maxsize=4096)(agent_model_label)


_NOT_PUBLISHED = ("cache_read_tokens", "cache_write_tokens")
"""Parts of a score that are counted only."""


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
    body = fields_of(scored) | {
        "type": "scored_trial",
        "semantics_version": SEMANTICS_VERSION,
        "run_id": run_id,
        "shard": shard,
        "task_id": task_id,
        "attempt": attempt,
        "agent": agent,
        "model": model,
        "agent_model": _label(agent, model),
        "agent_index": slot.agent_index,
        "tier": tier,
        "subtest": subtest,
        "revision": slot.revision,
        "fingerprint": fingerprint,
        "grade": profile.grade(scored.composite_score),
        "cost_of_pass": json_number(scored.cost_of_pass),
        "formulacode": payload,
    }
    for name in _NOT_PUBLISHED:
        del body[name]
    digested = canonical_json(body)
    return b'%b,"digest":"%b"' % (digested[:-1], sha256_hex(digested).encode())
