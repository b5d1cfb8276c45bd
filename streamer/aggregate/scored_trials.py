"""The scored trials of a run as they are published: the specification's per-run numbers of each slot."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from streamer.aggregate.changes import ScoredChange
from streamer.aggregate.keys import SlotKey, fingerprint, rfc3339, slot_topic_key
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, event_of
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.schemas.identity import agent_model_label, encode_id
from streamer.schemas.plain import AnyTrial
from streamer.score import Scored, fields_of, score_trial, task_payload
from streamer.stats import json_number

_label = lru_cache(maxsize=4096)(agent_model_label)

_NOT_PUBLISHED = ("cache_read_tokens", "cache_write_tokens")
"""Parts of a score that are counted only."""


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
    keys = run.changes.take_scored(most) if run.changes.collects_scored_trials else list(run.slots)
    changes = []
    for key in keys:
        slot = run.slots.get(key)
        value = None if slot is None or slot.revision is None else _scored_trial(run, key, slot) + end
        changes.append(ScoredChange(run.run_id, slot_topic_key(run_key, key), value))
    return changes


def _scored_trial(run: RunState, key: SlotKey, slot: Slot) -> bytes:
    """The scored trial with its digest, open at the end: the fields that tell the way follow."""
    event = event_of(slot.raw)
    scored = slot.scored or score_trial(event, run.rules)
    body = fields_of(scored) | {
        "type": "scored_trial",
        "semantics_version": SEMANTICS_VERSION,
        "run_id": run.run_id,
        **key._asdict(),
        "agent_model": _label(key.agent, key.model),
        "agent_index": slot.agent_index,
        "revision": slot.revision,
        "fingerprint": fingerprint(event),
        "grade": run.rules.profile.grade(scored.composite_score),
        "cost_of_pass": json_number(scored.cost_of_pass),
        "formulacode": _payload(run, key, event, scored),
    }
    for name in _NOT_PUBLISHED:
        del body[name]
    digested = canonical_json(body)
    return b'%b,"digest":"%b"' % (digested[:-1], sha256_hex(digested).encode())


def _payload(run: RunState, key: SlotKey, event: AnyTrial, scored: Scored) -> dict[str, Any] | None:
    """The specification's per-agent task payload; None for a score without FormulaCode's part."""
    if scored.formulacode is None:
        return None
    return task_payload(
        event,
        run.scores.trial_group(key) if scored.formulacode.fallback else (),
        scored.formulacode,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
