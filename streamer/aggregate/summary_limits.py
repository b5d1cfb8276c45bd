"""Limits of one summary: what a run can have without end is cut when the summary is made.

The state keeps everything, so taking trials back is exact. Every summary stays below
:data:`MAX_SUMMARY_BYTES`, which is far below the largest message (4 MiB). Worst cases of a run's summary:

======================== =======
100 failure modes, other  80 KiB  128 characters of 6 bytes (escaped), and a count
cost_by_agent_model      224 KiB  1,200 agents with labels of 160 bytes
labels                    96 KiB
tier_uplift, tier_delta   64 KiB  32 KiB each
all other fields          32 KiB  texts of 1,024 characters among them
======================== =======
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson

from streamer.aggregate.group import GroupState
from streamer.stats import Distribution, ExactSum, json_number

MAX_SUMMARY_BYTES = 512 * 1024
MAX_FAILURE_MODES = 100
OTHER = "other"
"""Stands for the failure modes, or the costs, that have no entry of their own."""

_COST_BYTES = 224 * 1024
_LABEL_BYTES = 96 * 1024
_TIER_BYTES = 32 * 1024

T = TypeVar("T")


def within_limits(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a summary of any kind, cut to the limits; of ordinary data it is unchanged."""
    body["failure_modes"] = most_frequent(body["failure_modes"])
    if "labels" in body:
        body["labels"] = first_by_name(body["labels"], _LABEL_BYTES)
    if cross_tier := body.get("cross_tier"):
        for name in ("tier_uplift", "tier_delta"):
            cross_tier[name] = first_by_name(cross_tier[name], _TIER_BYTES)
    return body


def most_frequent(failure_modes: Mapping[str, int]) -> dict[str, int]:
    """The 100 most frequent failure modes, ties by name, and all others counted as `other`.

    >>> modes = most_frequent({f"mode {n}": 1 for n in range(200)} | {"timeout": 7})
    >>> len(modes), modes["timeout"], modes["other"]
    (101, 7, 101)
    """
    if len(failure_modes) <= MAX_FAILURE_MODES:
        return dict(failure_modes)
    ranked = sorted(failure_modes.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ranked[:MAX_FAILURE_MODES])
    kept[OTHER] = kept.get(OTHER, 0) + sum(count for _, count in ranked[MAX_FAILURE_MODES:])
    return kept


def first_by_name(values: dict[str, T], most_bytes: int) -> dict[str, T]:
    """The entries, or the first by name whose JSON has `most_bytes` at most.

    >>> first_by_name({"b": 1, "a": 2}, 8)
    {'a': 2}
    """
    if _fits(values, most_bytes):
        return values
    return _fitting(sorted(values.items()), most_bytes)


def costs_by_agent_model(groups: Mapping[str, GroupState]) -> dict[str, Any]:
    """Label of an agent:model to its known cost in USD, None for none.

    Where those are more than fit, the dearest have entries, ties by label; the others' sum is `other`.
    """
    sums = {label: _known_cost(group) for label, group in groups.items()}
    costs = {label: json_number(known.total()) if known.count else None for label, known in sums.items()}
    if _fits(costs, _COST_BYTES):
        return costs
    dearest = sorted(sums, key=lambda label: (not sums[label].count, -sums[label].total(), label))
    kept: dict[str, Any] = _fitting([(label, costs[label]) for label in dearest], _COST_BYTES)
    rest = ExactSum()
    rest.merge(*(known for label, known in sums.items() if label not in kept))
    return kept | {OTHER: json_number(rest.total()) if rest.count else None}


def _known_cost(group: GroupState) -> ExactSum:
    held = group.distributions["cost_usd"]
    return held.finite if isinstance(held, Distribution) else ExactSum()


def _fits(values: Mapping[str, Any], most_bytes: int) -> bool:
    return len(orjson.dumps(values)) <= most_bytes


def _fitting(ranked: Iterable[tuple[str, T]], most_bytes: int) -> dict[str, T]:
    """The leading entries whose JSON has `most_bytes` at most."""
    kept, left = {}, most_bytes - len("{}")
    for name, value in ranked:
        left -= len(orjson.dumps({name: value})) - len("{}") + len(",")
        if left < 0:
            break
        kept[name] = value
    return kept
