"""Results of a run by label, by subtest and over time, which are computed on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import quantiles
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streamer.folding.groups import COMPOSITE, GroupState
from streamer.folding.plan import GroupPlan
from streamer.folding.score import Scored, score_trial
from streamer.folding.slots import LateScore, Slot, SlotKey, event_of, event_time, slot_key
from streamer.folding.state import MissingTrials, RunState, marks_of
from streamer.folding.summaries import (
    GROUP,
    MARKS,
    TIER,
    GroupField,
    Moment,
    Subject,
    computed,
    formulacode,
    named,
)
from streamer.folding.uncertainty import Evidence, conclusion
from streamer.schemas.base import (
    NO_TIME,
    SEMANTICS_VERSION,
    GroupId,
    is_plausible,
    json_number,
    microseconds,
    rfc3339,
)
from streamer.schemas.events import TrialScored, judges_score
from streamer.schemas.wire import LogRecord, Result, decode, may_name
from streamer.statistics.ability import JudgeError, judge_error
from streamer.statistics.final import OrderKind

# -----------------------------------------------------------------------------
# Parts of a run that are not published, but computed from its slots on request.


Place = TypeVar("Place", bound=Hashable)


def broken_down(run: RunState, places: Callable[[SlotKey, Slot], Iterable[Place]]) -> dict[Place, GroupState]:
    trials: dict[Place, list[tuple[SlotKey, Scored]]] = {}
    marks: Counter[tuple[Place, str]] = Counter()
    for key, slot in run.slots.items():
        scored = run.scores.of(slot)
        if scored is None:
            continue
        for place in places(key, slot):
            trials.setdefault(place, []).append((key, scored))
            for name, times in zip(MARKS, marks_of(slot), strict=True):
                marks[place, name] += times
    groups = {place: GroupState.of(counted) for place, counted in trials.items()}
    for (place, name), times in marks.items():
        setattr(groups[place], name, times)
    return groups


# -----------------------------------------------------------------------------
# A run broken down by a label of its trials, computed on request.


LabelId = tuple[str | None, str | None, str | None]
"""(value, agent, model). No value: trials without the label. No agent and model: all compared agents."""

_OF_EVERYBODY = (None, None)


class UnknownLabel(ValueError):
    def __init__(self, run: RunState, label: str) -> None:
        names = sorted({name for slot in run.slots.values() for name in _labels(slot)})
        hint = (
            f"Labels: {', '.join(map(repr, names[:20]))}." if names else "Its trials have no labels at all."
        )
        super().__init__(f"no trial in run {run.run_id!r} has a label {label!r}. {hint}")


def by_label(run: RunState, label: str) -> list[dict[str, Any]]:
    """The numbers of an agent's summary for each value of a label, pooled first, then per agent:model.

    Each entry has `label`, `value` and `agent_model`. A null `value` is for trials without the label, which
    come last. A null `agent_model` pools all agents except baselines. `runs_planned` is null.

    Raises UnknownLabel if no trial has the label.
    """
    run.count()
    groups = broken_down(run, lambda key, slot: _places(run, label, key, slot))
    if all(value is None for value, _, _ in groups):
        raise UnknownLabel(run, label)
    at, places = Moment(run), sorted(groups, key=_order)
    subjects = [(place[0], Subject(at, GroupId(None, *place[1:]), groups[place])) for place in places]
    return [_label_body(of, label, value) for value, of in subjects]


def _labels(slot: Slot) -> dict[str, str]:
    return {} if slot.revision is None else slot.event.labels or {}


def _places(run: RunState, label: str, key: SlotKey, slot: Slot) -> Iterator[LabelId]:
    value = _labels(slot).get(label)
    yield (value, key.agent, key.model)
    if not run.scores.is_baseline(key.agent):
        yield (value, *_OF_EVERYBODY)


def _label_body(of: Subject[GroupState], label: str, value: str | None) -> dict[str, Any]:
    own = {"label": label, "value": value, "agent_model": of.group_id.agent_model}
    return _body("label_summary", GROUP, of, of.at.planned.of_group(None)) | own


def _body(
    kind: str, fields: Mapping[str, GroupField], of: Subject[GroupState], planned: GroupPlan
) -> dict[str, Any]:
    of.planned, of.has_boards = planned, False
    fields = {name: field for name, field in fields.items() if name not in ("in_flight", "uncertainty")}
    body = {"type": kind, "run_id": of.run.run_id, "semantics_version": SEMANTICS_VERSION}
    return computed(fields, of) | body


def _order(place: tuple[str | None, ...]) -> tuple[Any, ...]:
    """Order by name; a missing agent or model comes first, a missing label or tier last."""
    return (place[0] is None, *(part or "" for part in place))


# -----------------------------------------------------------------------------
# Tiers broken down by subtest, computed from the slots of a run on request.


SubtestId = tuple[str, str | None, str | None, str | None]
"""(tier, subtest, agent, model). No agent and model: pooled over the compared agents."""


def by_subtest(run: RunState) -> list[dict[str, Any]]:
    """The numbers of a tier summary for each subtest of each tier, pooled first, then per agent:model.

    Uplift and delta compare with the whole baseline tier. `runs_planned` is null if the plan does not say
    (R26). Trials without a tier are left out.
    """
    run.count()

    def places(key: SlotKey, slot: Slot) -> Iterator[SubtestId]:
        for group in run.scores.groups_of(key):
            if group.tier is not None:
                yield (group.tier, key.subtest, group.agent, group.model)

    groups, at, bodies = broken_down(run, places), Moment(run), []
    for place in sorted(groups, key=_order):
        tier, subtest, agent, model = place
        of = Subject(at, GroupId(tier, agent, model), groups[place])
        planned = at.planned.of_group(at.planned.subtest(pooled=of.group_id.agent is None))
        bodies.append(_body("subtest_summary", TIER, of, planned) | {"subtest": subtest})
    return bodies


# -----------------------------------------------------------------------------
# The learning curves of a run: the values on its boards as trials ended, by the trials' own times.
#
# They are computed from the slots on request. So a finished run that is published at once has its true
# curves, and a correction changes the whole curve.


POINTS = 60

BAND_POINTS = 16
"""Points with an interval of the final pass rate: each takes a few milliseconds."""

_DRAWN = ("pass_rate", COMPOSITE, "cost_usd")

_COUNTED = ("pass_rate",)

FAR = 20
"""A time this many times as far from the middle as the outer tenths is a mistake, and is ignored."""


class _Ended(NamedTuple):
    at: int
    key: SlotKey
    scored: Scored


EndedTrials = dict[SlotKey, tuple[int, Scored]]
"""When each trial ended, as `_Ended.at`, and its score. Kept during a fold, so that no event is read twice.
"""


def keep_ended(trials: EndedTrials, run: RunState) -> None:
    """Keep the trials counted since the last call.

    From now on the run counts only what curves need, so nothing else may take its scored trials or summaries.
    """
    run.counts.measures = _COUNTED
    for key, judged in run.changes.take_scored().items():
        trials.pop(key, None)
        if judged is not None:
            trials[key] = _end(judged.event), judged.scored


def curves(run: RunState, points: int = POINTS, known: EndedTrials | None = None) -> list[dict[str, Any]]:
    """The curve of each agent:model over the run, and of each tier pooled over agents.

    A curve has `agent_model` or `tier` (the other is null) and `points`, oldest first. A point has the
    numbers of the group's summary after the first `trials` trials have ended. `at` is the end of the last of
    them as RFC 3339 text, null while no trial has a time. Trials without a time come last. `final` is the
    interval of the final pass rate, `low` and `high`; it is null on most points.

    Args:
        points: the most points per curve, at least 2; the first and the last trial are among them.
        known: what `keep_ended` kept during the fold; other trials are read and scored again.
    """
    run.count()
    if known:
        keep_ended(known, run)
    ended = _in_order(run, known or {})
    at = Moment(run)
    of_groups: dict[GroupId, list[_Ended]] = {}
    for trial in ended:
        for group_id in run.scores.groups_of(trial.key):
            if (group_id.tier is None) != (group_id.agent is None):
                of_groups.setdefault(group_id, []).append(trial)
    return [
        {
            "agent_model": group_id.agent_model,
            "tier": group_id.tier,
            "points": _points(at, group_id, of_groups[group_id], points),
        }
        for group_id in sorted(of_groups)
    ]


def _in_order(run: RunState, known: EndedTrials) -> list[_Ended]:
    trials = []
    for key, slot in run.slots.items():
        if slot.revision is not None and (ended := known.get(key)) is not None:
            trials.append(_Ended(ended[0], key, ended[1]))
        elif slot.revision is not None:
            event = slot.event
            trials.append(_Ended(_end(event), key, slot.scored or score_trial(event, run.rules)))
    if all(trial.at == NO_TIME for trial in trials):
        # The date of a file may be the date of its copy: it gives an order, but no time.
        return sorted(trials, key=lambda one: (event_time(run.slots[one.key].event, -1), str(one.key)))
    low, high = plausible([trial.at for trial in trials if trial.at != NO_TIME])
    trials = [trial if low <= trial.at <= high else trial._replace(at=NO_TIME) for trial in trials]
    at_once = Counter(trial.at for trial in trials)

    def place(trial: _Ended) -> tuple[bool, int, str]:
        return trial.at == NO_TIME, trial.at, str(trial.key) if at_once[trial.at] > 1 else ""

    return sorted(trials, key=place)


def _end(event: Result) -> int:
    if event.finished_at is not None or event.started_at is None or event.duration_seconds is None:
        return microseconds(event.finished_at)
    try:
        end = event.started_at + timedelta(seconds=event.duration_seconds)
    except OverflowError:
        return NO_TIME
    return microseconds(end) if is_plausible(end) else NO_TIME


def plausible(times: Sequence[int]) -> tuple[int, int]:
    """The range of times to draw. Times outside come from wrong clocks, and would stretch the axis over
    years.

    >>> plausible([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 10**9]), plausible([5, 7]), plausible([])
    ((-1550, 1650), (5, 7), (0, 0))
    """
    if len(times) < 10:
        return min(times, default=0), max(times, default=0)
    tenths = quantiles(times, n=10, method="inclusive")
    middle, spread = tenths[4], max(tenths[-1] - tenths[0], 1)
    return int(middle - FAR * spread), int(middle + FAR * spread)


def _points(at_end: Moment, group_id: GroupId, trials: list[_Ended], points: int) -> list[dict[str, Any]]:
    group, rows, before, at = GroupState(), [], 0, NO_TIME
    sizes = evenly(len(trials), points)
    bands = {sizes[index - 1] for index in evenly(len(sizes), BAND_POINTS)}
    declared = at_end.planned.declared(group_id) if group_id.agent is not None else None
    final = _Final(at_end.run, group_id, declared, [trial.key for trial in trials]) if declared else None
    for size in sizes:
        new = trials[before:size]
        group.merge(GroupState.of([(trial.key, trial.scored) for trial in new], _DRAWN))
        at = next((trial.at for trial in reversed(new) if trial.at != NO_TIME), at)
        before, is_last = size, size == len(trials)
        band = final.interval(None if is_last else size, at) if final and size in bands else None
        numbers = _numbers(Subject(at_end, group_id, group), is_last=is_last)
        rows.append({"at": rfc3339(at), **numbers, "final": band})
    return rows


def evenly(count: int, points: int) -> list[int]:
    """Up to this many numbers from 1 to `count`, evenly spread, both ends included.

    >>> evenly(10, 4), evenly(2, 60), evenly(0, 60)
    ([1, 4, 7, 10], [1, 2], [])
    """
    if count <= points:
        return list(range(1, count + 1))
    return [1 + round(number * (count - 1) / (points - 1)) for number in range(points)]


_HEADLINE = ("trials", "accuracy", "total_cost", "mean_cost", "cost_of_pass")


def _numbers(of: Subject[GroupState], *, is_last: bool) -> dict[str, Any]:
    of.has_boards = False
    if not is_last:
        of.missing = MissingTrials()
    numbers = computed({name: GROUP[name] for name in _HEADLINE}, of) | {
        "pass_rate": of.counted.distributions["pass_rate"].mean(),
        "composite_score": json_number(of.counted.distributions[COMPOSITE].median()),
        "metrics": {name: says["mean"] for name, says in named(of).items() if says["planned"]},
    }
    code = (formulacode(of) if of.group_id.agent is not None else None) or {}
    return numbers | {name: code.get(name) for name in ("mean_speedup", "agent_advantage")}


class _Final:
    """The interval of a group's final pass rate, at any moment (inference 5)."""

    def __init__(self, run: RunState, group_id: GroupId, planned: int, trials: list[SlotKey]) -> None:
        self._queue, self._planned = run.queue, planned
        self._is_shuffled = run.queue.kind is OrderKind.SHUFFLED
        lineup = run.scores.roster.lineup(group_id)
        self._now = run.evidence(group_id)
        self._outcomes = Evidence(GroupState(), lineup, finished=False).outcomes()
        places, keys = {key: place for place, key in enumerate(trials)}, lineup.keys()
        self._rows = np.flatnonzero(lineup.states)
        never, keys = np.iinfo(np.int64).max, [keys[row] for row in self._rows.tolist()]
        starts = (run.slots[key].started_at for key in keys)
        self._places = np.array([places.get(key, never) for key in keys], np.int64)
        self._starts = np.array([never if at is None else at for at in starts], np.int64)

    def interval(self, ended: int | None, at: int) -> dict[str, float] | None:
        if ended is not None and not self._is_shuffled:
            return None
        passes = conclusion(self._now, self._planned, self._queue, self._stored(ended, at)).passes
        return None if passes is None else dict(zip(("low", "high"), passes.rates(), strict=True))

    def _stored(self, ended: int | None, at: int) -> dict[int, bool | None] | None:
        if ended is None:
            return None
        over = self._places < ended
        there = over | (self._starts <= at)
        rows = zip(self._rows[there].tolist(), over[there].tolist(), strict=True)
        return {row: self._outcomes[row] if had_ended else None for row, had_ended in rows}


# -----------------------------------------------------------------------------
# Every score that judges gave a trial; the state of a run keeps only scores that may still count (R32).


class JudgedScores:
    """The scores in a log, kept beside its fold to compute how much judges disagree."""

    def __init__(self) -> None:
        self._late: dict[tuple[str, SlotKey], dict[tuple[int, str], LateScore]] = {}

    def after(self, pipeline: object, records: Iterable[LogRecord], folded: object) -> None:
        for record in records:
            if may_name("trial_scored", record.value):
                event = decode(record.value)
                if isinstance(event, TrialScored):
                    late = LateScore.of(event)
                    self._late.setdefault((event.run_id, slot_key(event)), {})[late[:2]] = late

    def errors(self, run: RunState) -> dict[str, dict[str, JudgeError]]:
        """The judge's part in the errors of `pass_rate` and `impl_rate`, per agent:model, if known."""
        run.count()
        trials: dict[str, dict[str, list[tuple[str, float, list[float]]]]] = {}
        for key, slot in run.slots.items():
            scored, given = run.scores.of(slot), self._given(run, key, slot)
            of_agent = trials.setdefault(GroupId(None, key.agent, key.model).agent_model or "", {})
            for metric, scores in given.items():
                if (value := getattr(scored, metric)) is not None:
                    of_agent.setdefault(metric, []).append((key.task_id, value, scores))
        return {
            label: {metric: error for metric, judged in of.items() if (error := judge_error(judged))}
            for label, of in trials.items()
        }

    def _given(self, run: RunState, key: SlotKey, slot: Slot) -> dict[str, list[float]]:
        if slot.revision is None:
            return {}
        result = event_of(slot.raw)
        floors = [floor for floor in (slot.floor, run.deleted_to) if floor is not None]
        late = [
            one
            for one in self._late.get((run.run_id, key), {}).values()
            if one.of_revision in (None, slot.revision) and all(one.revision > floor for floor in floors)
        ]
        decides = result.resolved is None and result.tests is None and result.snapshot is None  # (R20, R32)
        verdicts = [float(one.resolved) for one in late if decides and one.resolved is not None]
        scores = map(judges_score, [result.score, *(one.score for one in late)])
        return {"pass_rate": verdicts, "impl_rate": [score for score in scores if score is not None]}
