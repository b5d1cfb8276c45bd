"""The learning curves of a run: what its boards said while trials came in, by the trials' own times.

They are derived from the slots when somebody asks, and never published. So the bulk publish of a finished run
gives the curves that the run had, and a correction moves the whole curve.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import timedelta
from statistics import quantiles
from typing import Any, NamedTuple

import numpy as np

from streamer.aggregate.formulacode_summary import MissingTrials, formulacode_body, missing_sub_trials
from streamer.aggregate.group import COMPOSITE, GroupState
from streamer.aggregate.group_summary import headline, named_body
from streamer.aggregate.keys import NO_TIME, GroupId, SlotKey, event_time, microseconds, rfc3339
from streamer.aggregate.plan import Denominators
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import event_of
from streamer.aggregate.uncertainty import Evidence, conclusion
from streamer.schemas.base import is_plausible
from streamer.schemas.canonical import json_number
from streamer.schemas.plain import AnyTrial
from streamer.score import NOP, Scored

POINTS = 60
"""Points of a curve, unless somebody asks for another number."""

BAND_POINTS = 16
"""Points with an interval of the final pass rate: each takes some milliseconds."""

FAR = 20
"""A time so many times farther from the middle than the outer tenths is a mistake: it is not used."""


class _Ended(NamedTuple):
    """A trial with its score, and when it ended: microseconds, NO_TIME if that is not known."""

    at: int
    key: SlotKey
    scored: Scored


def curves(run: RunState, points: int = POINTS) -> list[dict[str, Any]]:
    """The curve of each agent:model over the run, and of each tier pooled over agents.

    A curve has `agent_model` or `tier`, the other one null, and `points`, oldest first. A point says what the
    group's summary would have said after so many `trials`, in the order in which they ended. `at` is when the
    last of them ended, as RFC 3339 text; null: no trial up to there has a time. Trials without a time come
    last. `final` is the interval of the final pass rate, `low` and `high`; null where there was none, and on
    most points.

    Args:
        run: its slots are read; nothing changes but that waiting trials are counted.
        points: at most so many for each curve, 2 or more; the first and the last trial are among them.
    """
    run.count()
    ended = _in_order(run)
    planned = run.denominators()
    of_groups: dict[GroupId, list[_Ended]] = {}
    for trial in ended:
        for group_id in run.scores.groups_of(trial.key):
            if (group_id.tier is None) != (group_id.agent is None):
                of_groups.setdefault(group_id, []).append(trial)
    return [
        {
            "agent_model": group_id.agent_model,
            "tier": group_id.tier,
            "points": _points(run, group_id, of_groups[group_id], planned, points),
        }
        for group_id in sorted(of_groups)
    ]


def _in_order(run: RunState) -> list[_Ended]:
    """The trials of a run as they ended, those without a time last."""
    found, written = [], {}
    for key, slot in run.slots.items():
        scored = run.scores.of(slot)
        if scored is not None:
            event = event_of(slot.raw)
            found.append(_Ended(_end(event), key, scored))
            written[key] = event_time(event, -1)
    if all(trial.at == NO_TIME for trial in found):
        found = [trial._replace(at=written[trial.key]) for trial in found]
    low, high = plausible([trial.at for trial in found if trial.at != NO_TIME])
    found = [trial if low <= trial.at <= high else trial._replace(at=NO_TIME) for trial in found]
    return sorted(found, key=lambda trial: (trial.at == NO_TIME, trial.at, str(trial.key)))


def _end(event: AnyTrial) -> int:
    """When a trial ended, by its own times alone: a copied file has the time of its copying."""
    if event.finished_at is not None or event.started_at is None or event.duration_seconds is None:
        return microseconds(event.finished_at)
    try:
        end = event.started_at + timedelta(seconds=event.duration_seconds)
    except OverflowError:
        return NO_TIME
    return microseconds(end) if is_plausible(end) else NO_TIME


def plausible(times: Sequence[int]) -> tuple[int, int]:
    """The range in which times are used. One wrong clock must not stretch the axis over years.

    >>> plausible([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 10**9]), plausible([5, 7]), plausible([])
    ((-1550, 1650), (5, 7), (0, 0))
    """
    if len(times) < 10:
        return min(times, default=0), max(times, default=0)
    tenths = quantiles(times, n=10, method="inclusive")
    middle, spread = tenths[4], max(tenths[-1] - tenths[0], 1)
    return int(middle - FAR * spread), int(middle + FAR * spread)


def _points(
    run: RunState, group_id: GroupId, trials: list[_Ended], planned: Denominators, points: int
) -> list[dict[str, Any]]:
    group, found, before = GroupState(), [], 0
    sizes = evenly(len(trials), points)
    bands = {sizes[index - 1] for index in evenly(len(sizes), BAND_POINTS)}
    for size in sizes:
        counted = [(trial.key, trial.scored) for trial in trials[before:size]]
        group.merge(GroupState.of(counted))
        before, is_last = size, size == len(trials)
        at = next((trial.at for trial in reversed(trials[:size]) if trial.at != NO_TIME), NO_TIME)
        ended = None if is_last else {trial.key for trial in trials[:size]}
        band = _final(run, group_id, planned, ended, at) if size in bands and group_id.agent else None
        numbers = _numbers(run, group_id, group, is_last=is_last)
        found.append({"at": rfc3339(at), **numbers, "final": band})
    return found


def evenly(count: int, points: int) -> list[int]:
    """At most so many numbers from 1 to `count`, evenly spread, both ends among them.

    >>> evenly(10, 4), evenly(2, 60), evenly(0, 60)
    ([1, 4, 7, 10], [1, 2], [])
    """
    if count <= points:
        return list(range(1, count + 1))
    return [1 + round(number * (count - 1) / (points - 1)) for number in range(points)]


def _numbers(run: RunState, group_id: GroupId, group: GroupState, *, is_last: bool) -> dict[str, Any]:
    """The headline numbers of a group, as its summary has them."""
    says = headline(group)
    found: dict[str, Any] = {
        "trials": group.trials,
        "accuracy": says["accuracy"],
        "pass_rate": group.distributions["pass_rate"].mean(),
        "composite_score": json_number(group.distributions[COMPOSITE].median()),
        "total_cost": says["total_cost"],
        "mean_cost": says["mean_cost"],
        "cost_of_pass": says["cost_of_pass"],
        "mean_speedup": None,
        "agent_advantage": None,
        "metrics": _named(run, group),
    }
    if group_id.agent is None or not run.totals.with_formulacode:
        return found
    owner = (group_id.agent, group_id.model or "")
    lacking = missing_sub_trials(run).get(owner) if is_last else None
    code = formulacode_body(group, lacking or MissingTrials(), None, nop=owner[0] == NOP)
    return found | {name: code[name] for name in ("mean_speedup", "agent_advantage")}


def _named(run: RunState, group: GroupState) -> dict[str, Any]:
    """Means of the named metrics that the plan names, as the history has them (R30)."""
    body: dict[str, Any] = named_body(group.named, run.plan, run.rules.profile.ddof, None)
    return {name: says["mean"] for name, says in body.items() if says["planned"]}


def _final(
    run: RunState, group_id: GroupId, planned: Denominators, ended: Set[SlotKey] | None, at: int
) -> dict[str, float] | None:
    """The interval of the final pass rate at a moment (inference 5).

    Args:
        ended: trials that had ended by then; None: all.
        at: when the last of them did, microseconds.
    """
    evidence = Evidence(
        GroupState(),
        run.scores.roster.lineup(group_id),
        finished=ended is None and run.plan.finished is not None,
    )
    undeclared = planned.undeclared(group_id)
    if undeclared:
        return None
    known = None if ended is None else _known(run, evidence, ended, at)
    passes = conclusion(evidence, planned.declared(group_id), run.queue, known).passes
    if passes is None:
        return None
    low, high = passes.rates()
    return {"low": low, "high": high}


def _known(run: RunState, evidence: Evidence, ended: Set[SlotKey], at: int) -> dict[int, bool | None]:
    """The outcome of each row that stood at that moment: the trial had ended, or started; None: no more."""
    known: dict[int, bool | None] = {}
    keys, outcomes = evidence.lineup.keys(), evidence.outcomes()
    for row in np.flatnonzero(evidence.lineup.states).tolist():
        started_at = run.slots[keys[row]].started_at
        if keys[row] in ended:
            known[row] = outcomes[row]
        elif started_at is not None and started_at <= at:
            known[row] = None
    return known
