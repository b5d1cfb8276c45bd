"""A run broken down by a label of its trials: derived when somebody asks, never published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamer.aggregate.breakdown import broken_down
from streamer.aggregate.group import GroupState
from streamer.aggregate.group_summary import group_body
from streamer.aggregate.keys import GroupId, SlotKey
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, event_of
from streamer.schemas.base import SEMANTICS_VERSION

LabelId = tuple[str | None, str | None, str | None]
"""(value, agent, model). Value None: without the label; agent and model None: all that are compared."""

_OF_EVERYBODY = (None, None)


class UnknownLabel(ValueError):
    """No trial of the run has the label."""

    def __init__(self, run: RunState, label: str) -> None:
        known = sorted({name for slot in run.slots.values() for name in _labels(slot)})
        hint = (
            f"Labels: {', '.join(map(repr, known[:20]))}." if known else "Its trials have no labels at all."
        )
        super().__init__(f"no trial of run {run.run_id!r} has a label {label!r}. {hint}")


def by_label(run: RunState, label: str) -> list[dict[str, Any]]:
    """What an agent's summary says, per value of a label: pooled first, then per agent:model.

    Each has `label`, `value` (null for trials without the label, which come last) and `agent_model` (null for
    all agents together, without the baselines). Nothing is planned by label, so `runs_planned` is null.

    Raises:
        UnknownLabel: no trial has it.
    """
    run.count()
    groups = broken_down(run, lambda key, slot: _places(run, label, key, slot))
    if all(value is None for value, _, _ in groups):
        raise UnknownLabel(run, label)
    return [_label_body(run, groups[place], label, place) for place in sorted(groups, key=_label_order)]


def _labels(slot: Slot) -> dict[str, str]:
    return {} if slot.revision is None else event_of(slot.raw).labels or {}


def _places(run: RunState, label: str, key: SlotKey, slot: Slot) -> Iterator[LabelId]:
    value = _labels(slot).get(label)
    yield (value, key.agent, key.model)
    if not run.scores.is_baseline(key.agent):
        yield (value, *_OF_EVERYBODY)


def _label_body(run: RunState, group: GroupState, label: str, place: LabelId) -> dict[str, Any]:
    value, agent, model = place
    return group_body(run, group, run.denominators().of_group(None)) | {
        "type": "label_summary",
        "run_id": run.run_id,
        "semantics_version": SEMANTICS_VERSION,
        "label": label,
        "value": value,
        "agent_model": GroupId(None, agent, model).agent_model,
        "superseded": group.superseded,
        "conflicts": group.conflicts,
    }


def _label_order(place: LabelId) -> tuple[bool, str, str, str]:
    value, agent, model = place
    return (value is None, value or "", agent or "", model or "")
