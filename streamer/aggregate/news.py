"""News: grades that moved, trials that were scored again. Which ones appear depends on batching."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from streamer.aggregate.changes import NewsItem, Rescoring, SummaryChange
from streamer.aggregate.keys import RUN, GroupId, SlotKey, rfc3339
from streamer.aggregate.run_state import RunState
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, json_number, sha256_hex
from streamer.schemas.identity import encode_id
from streamer.score import Scored, fields_of

_ID_CHARACTERS = 32


class Grades:
    """The grade of each group as it was told last."""

    def __init__(self) -> None:
        self._told: dict[GroupId, str | None] = {}

    def moved(self, change: SummaryChange) -> NewsItem | None:
        """The news that the grade of a group moved; None if it did not, or the group is gone."""
        if change.group == RUN:
            return None
        before = self._told.get(change.group)
        after = self._told[change.group] = change.summary["grade"] if change.summary else None
        return grade_change(change, before, after) if change.summary and before != after else None


def grade_change(change: SummaryChange, before: str | None, after: str | None) -> NewsItem:
    """The grade of a group moved from `before` to `after`; None stands for no grade."""
    summary = change.summary or {}
    content = {
        "type": "grade_change",
        "run_id": change.run_id,
        "semantics_version": SEMANTICS_VERSION,
        "epoch": change.epoch,
        "state_version": change.state_version,
        "last_event_at": summary["last_event_at"],
        "digest": change.digest,
        "agent_model": change.group.agent_model,
        "tier": change.group.tier,
        "from_grade": before,
        "to_grade": after,
        "provisional": summary["provisional"],
        "grade_basis": summary["grade_basis"],
        "grade_score": summary["grade_score"],
        "grade_provisional": summary["grade_provisional"],
    }
    return _sealed(change.run_id, content)


def rescored(run: RunState, item: Rescoring, epoch: int) -> NewsItem:
    """A late event moved the score of a trial that had been counted (R9)."""
    content = {
        "type": "rescored",
        "run_id": run.run_id,
        "semantics_version": SEMANTICS_VERSION,
        "epoch": epoch,
        "state_version": run.state_version,
        "last_event_at": rfc3339(run.last_event_at),
        "digest": sha256_hex(canonical_json(_numbers(item.after))),
        "trial": item.key._asdict() | _standing(run, item.key),
        "because": item.because._asdict() | _standing(run, item.because),
        "before": _numbers(item.before),
        "after": _numbers(item.after),
    }
    return _sealed(run.run_id, content)


def _sealed(run_id: str, content: dict[str, Any]) -> NewsItem:
    news_id = sha256_hex(canonical_json(content))[:_ID_CHARACTERS]
    return NewsItem(run_id, encode_id(run_id), canonical_json(content | {"id": news_id}))


def _standing(run: RunState, key: SlotKey) -> dict[str, Any]:
    """Which event stands in a slot; after a retraction its revision, without a fingerprint."""
    slot = run.slots.get(key)
    if slot is None or slot.winner is None:
        return {"revision": slot and slot.floor, "fingerprint": None}
    return {"revision": slot.winner[0], "fingerprint": slot.winner[2]}


def _numbers(scored: Scored) -> dict[str, Any]:
    numbers = fields_of(scored)
    numbers["formulacode"] = None if scored.formulacode is None else asdict(scored.formulacode)
    numbers["composite"] = numbers.pop("composite_score")  # as these messages have always called it
    return {name: _json(value) for name, value in numbers.items()}


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(part) for name, part in value.items()}
    return json_number(value) if isinstance(value, float) else value
