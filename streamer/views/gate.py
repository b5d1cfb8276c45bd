"""What a gate says of two agents as they stand: the numbers of `inference`, put into a verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from streamer.aggregate.contestant import Contestant
from streamer.aggregate.matching import Matched, Unmatched, match
from streamer.aggregate.roster import MEANS
from streamer.aggregate.run_summary import planned_metrics
from streamer.aggregate.tasks import Task
from streamer.inference.ability import Clusters, Interval, mean_interval
from streamer.inference.comparisons import (
    Ends,
    GateVerdict,
    evidence_worse,
    final_difference,
    hard_difference,
    no_further_behind,
)
from streamer.inference.finite_population import ALPHA
from streamer.inference.gates import ability, ends_by_task, ends_of, mean_ability, reaches, together
from streamer.inference.order import OrderKind
from streamer.inference.paired import mean_differences, paired
from streamer.schemas.details import NAMED
from streamer.schemas.identity import task_key
from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.views.gate_verdict import (
    AbilityAnswer,
    FinalAnswer,
    GateEnds,
    GatePairs,
    GateResult,
    GateSaved,
    GateSide,
    Question,
    TargetAnswer,
)
from streamer.views.gate_words import UNMATCHED, words
from streamer.views.uncertainty import REASONS

Values = Mapping[Task, Sequence[float]]
"""A metric's values by task."""

LOWER_IS_BETTER = frozenset({"cost_usd", "duration_seconds"})
GATED = (PRIMARY_METRIC, *MEANS)
"""The built-in metrics that a gate can judge; named ones are `metrics/NAME` (R30)."""

NOTHING_COMMON = UNMATCHED[Unmatched.NOTHING_IN_COMMON]
NOT_FINAL = "trials have no final value"


@dataclass(frozen=True, slots=True)
class Terms:
    """The question that a gate answers; all numbers exact.

    Attributes:
        question: which answer decides.
        metric: one of GATED, or `metrics/NAME`.
        max_drop: how much worse is allowed, in the metric's unit.
        alpha: 1 - level.
        target: the wanted final pass rate; None: none.
    """

    question: Question = "final"
    metric: str = PRIMARY_METRIC
    max_drop: Fraction = Fraction("0.02")
    alpha: Fraction = ALPHA
    target: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Entrant:
    """A side and what it was called; `trials` None: it has not begun, or names no agent yet."""

    source: str
    trials: Contestant | None
    run_id: str | None = None


def judge(candidate: Entrant, baseline: Entrant | None, terms: Terms) -> GateResult:
    """The verdict on two sides as they stand, or on the target alone."""
    ours, theirs = candidate.trials, baseline and baseline.trials
    matched = match(ours, theirs) if ours and theirs else None
    higher = _higher_is_better(terms.metric, (side for side in (ours, theirs) if side))
    final = ability_ = None
    if matched is not None and ours and theirs:
        if terms.metric == PRIMARY_METRIC:
            final, ability_ = _final_of(matched, terms), _ability_answer(matched, terms)
        else:
            final, ability_ = _of_mean(matched, ours, theirs, terms, higher=higher)
    target = _target_answer(ours, terms) if ours else None
    chosen = final if terms.question == "final" else ability_
    wanted = ([chosen] if baseline else []) + ([target] if terms.target is not None else [])
    verdict = together(part.verdict if part else GateVerdict.UNDECIDED for part in wanted)
    result = GateResult(
        verdict=verdict,
        question=terms.question,
        metric=terms.metric,
        higher_is_better=higher,
        max_drop=float(terms.max_drop),
        level=float(1 - terms.alpha),
        candidate=_side(candidate),
        baseline=None if baseline is None else _side(baseline),
        pairs=None if matched is None else _pairs(matched),
        final=final,
        ability=ability_,
        target=target,
        over=bool(ours and ours.over and (baseline is None or (theirs and theirs.over))),
        saved=None if verdict is GateVerdict.UNDECIDED or ours is None else _saved(ours),
        words=[],
    )
    return result.model_copy(update={"words": words(result)})


def _final_of(matched: Matched, terms: Terms) -> FinalAnswer:
    """The pass rates that this run ends with."""
    if matched.ended or (matched.over and matched.unmatched):
        ends = ends_by_task(matched.every_task())
        missing = None if matched.ended else NOT_FINAL if ends else NOTHING_COMMON
        return _final_answer(ends, terms, "exact" if matched.ended else "bounds", missing)
    if matched.unmatched:
        return _final_answer(None, terms, "nothing", UNMATCHED[matched.unmatched])
    hard = hard_difference(matched.pairs, matched.planned)
    missing, shuffled = matched.order_missing, matched.kind is OrderKind.SHUFFLED
    if missing or matched.ordered is None:
        why = NOT_FINAL if matched.over else REASONS[missing or "order_unknown_in_part"]
        return _final_answer(hard.ends(), terms, "bounds", why)
    found = final_difference(matched.ordered, matched.planned, terms.alpha, matched.pairs)
    if found.empty:
        return _final_answer(hard.ends(), terms, "bounds", REASONS["empty"])
    if shuffled:
        return _final_answer(found.ends(), terms, "interval")
    answer = _final_answer(hard.ends(), terms, "bounds", "nobody declared the order as shuffled")
    return answer.model_copy(update={"unrelated": _ends(found.ends())})


def _final_answer(
    ends: Ends | None, terms: Terms, basis: str, missing: str | None = None, *, higher: bool = True
) -> FinalAnswer:
    verdict = no_further_behind(_oriented(ends, higher=higher), terms.max_drop)
    return FinalAnswer.model_validate(
        {"verdict": verdict, "basis": basis, "ends": _ends(ends), "unrelated": None, "missing": missing}
    )


def _ability_answer(matched: Matched, terms: Terms) -> AbilityAnswer:
    """The pass rate on tasks like these."""
    found = paired(matched.every_task(), terms.alpha, complete=matched.over)
    worse = None
    if not matched.attempts_differ and (matched.over or not matched.unmatched):
        worse = max(found.worse, _worse_so_far(matched))
    interval = found.interval if matched.ended else None
    if worse is None:
        verdict = mean_ability(interval, terms.max_drop)
    else:
        verdict = ability(worse, interval, terms.max_drop, terms.alpha)
    return AbilityAnswer(
        verdict=verdict,
        worse=worse,
        needed=float(1 / terms.alpha),
        interval=_ends(interval),
    )


def _worse_so_far(matched: Matched) -> float:
    """The largest e-value over the prefixes of the order; 1: the order may follow results of the baseline."""
    if matched.kind is not OrderKind.SHUFFLED or matched.order_missing or not matched.ordered_tasks:
        return 1.0
    return evidence_worse(matched.ordered_tasks, matched.planned_tasks)


def _of_mean(
    matched: Matched, ours: Contestant, theirs: Contestant, terms: Terms, *, higher: bool
) -> tuple[FinalAnswer, AbilityAnswer]:
    """Both answers about a metric other than the pass rate, which only the end can give."""
    values, missing = Clusters(), f"{terms.metric} is compared at the end only"
    if matched.over:
        missing = NOT_FINAL if matched.tasks else NOTHING_COMMON
    if matched.ended:
        first, second = ours.values(terms.metric) or {}, theirs.values(terms.metric) or {}
        values = mean_differences((first.get(task, []), second.get(task, [])) for task in matched.tasks)
        missing = _uncovered(matched, first, second, terms.metric)
    ends, interval = ends_of(values), mean_interval(values, terms.alpha)
    oriented = _oriented(interval and Ends(*map(Fraction, interval)), higher=higher)
    basis = "nothing" if ends is None else "covered" if missing else "exact"
    return (
        _final_answer(ends, terms, basis, missing or None, higher=higher),
        AbilityAnswer(
            verdict=mean_ability(oriented and Interval(*map(float, oriented)), terms.max_drop),
            worse=None,
            needed=float(1 / terms.alpha),
            interval=_ends(interval),
        ),
    )


def _uncovered(matched: Matched, ours: Values, theirs: Values, metric: str) -> str:
    """How many trials of the common tasks have a metric; "": all of them."""
    both = [task for task in matched.tasks if task in ours and task in theirs]
    if not both:
        return f"no common task where both sides know {metric}"
    planned = [sum(side.planned for side in sides) for sides in zip(*matched.tasks.values(), strict=True)]
    known = [sum(len(side.get(task, ())) for task in matched.tasks) for side in (ours, theirs)]
    if known == planned:
        return ""
    counted = (f"{have:,} of {of:,}" for have, of in zip(known, planned, strict=True))
    return (
        f"{metric} is known for {' candidate and '.join(counted)} baseline trials; "
        f"compared on {len(both):,} of {len(matched.tasks):,} tasks"
    )


def _target_answer(ours: Contestant, terms: Terms) -> TargetAnswer | None:
    if terms.target is None:
        return None
    reach = ours.reach()
    return TargetAnswer(
        verdict=reaches(reach, terms.target) if reach else GateVerdict.UNDECIDED,
        target=float(terms.target),
        low=reach and float(reach.low),
        high=reach and float(reach.high),
    )


def _saved(ours: Contestant) -> GateSaved | None:
    if ours.over or ours.declared is None:
        return None
    trials, each = ours.declared - ours.known, ours.mean_cost()
    return GateSaved(trials=trials, cost_usd=None if each is None else trials * each)


def _side(entrant: Entrant) -> GateSide:
    trials = entrant.trials
    return GateSide(
        source=entrant.source,
        run_id=trials.run.run_id if trials else entrant.run_id,
        agent_model=trials.group.agent_model if trials else None,
        planned=trials.declared if trials else None,
        known=trials.known if trials else 0,
        passed=trials.passed if trials else 0,
        over=trials is not None and trials.over,
    )


def _pairs(matched: Matched) -> GatePairs:
    won, lost = [pair.won() for pair in matched.pairs], [pair.lost() for pair in matched.pairs]
    known = sum(None not in pair for pair in matched.pairs)
    wins, losses = won.count(True), lost.count(True)
    return GatePairs(
        planned=0 if matched.unmatched else matched.planned,
        wins=wins,
        ties=known - wins - losses,
        losses=losses,
        unknown=0 if matched.unmatched else matched.planned - known,
        tasks=matched.planned_tasks,
        only_candidate=[task_key(*task) for task in matched.only_ours],
        only_baseline=[task_key(*task) for task in matched.only_theirs],
    )


def _higher_is_better(metric: str, sides: Iterable[Contestant]) -> bool:
    """Direction of a metric; of a named one as a plan says (R30), the candidate's first."""
    if not metric.startswith(NAMED):
        return metric not in LOWER_IS_BETTER
    name = metric.removeprefix(NAMED)
    plans = (planned_metrics(side.run.plan).get(name) for side in sides)
    directions = (plan.direction for plan in plans if plan and plan.direction)
    return next(directions, "higher") == "higher"


def _oriented(ends: Ends | None, *, higher: bool) -> Ends | None:
    """The same difference, positive where the candidate is better."""
    return ends if ends is None or higher else Ends(-ends.high, -ends.low)


def _ends(found: Ends | Interval | None) -> GateEnds | None:
    return None if found is None else GateEnds(low=float(found.low), high=float(found.high))
