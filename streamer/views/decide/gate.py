"""What a gate says of two agents as they stand: for CI, for a harness, for a comment. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field

from streamer.folding.pairs import Contestant
from streamer.folding.pairs.contest import Matched, Unmatched, worse_and_behind
from streamer.folding.state import RunState, agents_of, compared_agents
from streamer.folding.summaries import planned_metrics, primary_metric
from streamer.folding.uncertainty import MEANS
from streamer.schemas.base import NO_TIME, GroupId, Message, optional, task_key
from streamer.schemas.events import NAMED, PRIMARY_METRIC, MetricPlan
from streamer.statistics.ability import Clusters, Interval, mean_interval
from streamer.statistics.final import ALPHA, OrderKind
from streamer.statistics.pairs import (
    LEAST_TASKS_OF_A_MEAN,
    Ends,
    GateVerdict,
    Task,
    ability,
    ends_of,
    final_difference,
    hard_difference,
    mean_differences,
    no_further_behind,
    paired,
    reachable,
    reaches,
    together,
)
from streamer.text import counted, ends_in_points, percent, points, visible
from streamer.views.cells import REASONS, of_planned
from streamer.views.decide.comparable import (
    LOOKS,
    UNRELATED,
    Comparability,
    comparable,
    counts_as_complete,
    in_two_units,
    listed,
    not_comparable,
    overtaken,
    read_differently,
    too_few_tasks,
)
from streamer.views.models import NO_PREFIX, Comparison, name_of_key
from streamer.views.models import Ends as Range

Question = Literal["final", "ability"]
Basis = Literal["exact", "covered", "interval", "bounds", "nothing"]


class GateSide(Message):
    """One side: an agent of a run, as it stands."""

    source: str = Field(description="As it was given: a run, RUN/AGENT:MODEL, or a file.")
    run_id: str | None = Field(description="Its run; null: it has not begun.")
    agent_model: str | None = Field(description="Its agent:model; null: the run names none yet.")
    planned: int | None = Field(ge=0, description="Planned trials; null: not planned.")
    known: int = Field(ge=0, description="Trials with a final value.")
    passed: int | None = Field(ge=0, description="Known trials that passed; null: no verdicts (R31).")
    over: bool = Field(description="True if nothing more is awaited.")


class FinalAnswer(Message):
    """Whether this run ends at most `max_drop` worse."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    basis: Basis = Field(
        description="What it rests on. `exact`: everything is in. `covered`: all trials are in, some lack "
        "the metric, see `missing`. `interval`: holds however often you look. `bounds`: what is still "
        "possible, with no assumption. `nothing`: see `missing`."
    )
    ends: Range | None = Field(description="The final difference lies here; null: nothing is known.")
    unrelated: Range | None = Field(
        description="Interval if order and difficulty are unrelated, which nobody declared; decides nothing."
    )
    missing: str | None = Field(
        description="Why there is no interval, or which part is covered; null: there is one, or no need."
    )


class AbilityAnswer(Message):
    """Whether the agent is at most `max_drop` worse on tasks like these."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    worse: float | None = Field(
        ge=0, description="Evidence that the candidate is worse; null: of a mean, or too early."
    )
    needed: float = Field(
        gt=0, description="So much evidence fails the gate, whenever you look, if the mean agrees."
    )
    interval: Range | None = Field(
        description="Clustered interval of the difference; null before the end, and with under five tasks, "
        "of a mean under ten."
    )
    missing: str | None = optional("Why evidence rests on the whole plan alone; null: it need not.")


class TargetAnswer(Message):
    """Whether the final pass rate reaches the target."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    target: float = Field(ge=0, le=1, description="The wanted pass rate.")
    low: float | None = Field(
        ge=0, le=1, description="The lowest that is still possible; null: no plan, or no verdicts."
    )
    high: float | None = Field(
        ge=0, le=1, description="The highest that is still possible; null: no plan, or no verdicts."
    )


class GateSaved(Message):
    """An estimate of what stopping the candidate now saves."""

    trials: int = Field(ge=0, description="Planned trials without a final value; some may be running.")
    cost_usd: float | None = Field(
        ge=0, description="Their cost, USD, if each costs the mean so far; null: no cost is known."
    )


class GatePairs(Message):
    """The common trials and tasks."""

    planned: int = Field(ge=0, description="Pairs; 0: nothing matches before the end.")
    wins: int = Field(ge=0, description="Pairs that only the candidate passed.")
    ties: int = Field(ge=0, description="Pairs that both passed, or neither.")
    losses: int = Field(ge=0, description="Pairs that only the baseline passed.")
    unknown: int = Field(ge=0, description="Pairs without a final value on one side or both.")
    unpaired: int = optional(
        "Trials of common tasks that only one side plans: in no pair, but in the final difference.", 0, ge=0
    )
    tasks: int = Field(ge=0, description="Common tasks, with planned ones that have no name.")
    only_candidate: list[str] = Field(description="Tasks that the baseline does not have, if that is known.")
    only_baseline: list[str] = Field(description="Tasks that the candidate does not have, if that is known.")
    left_out: list[str] = optional("Tasks whose trials were made in different ways (R36).", [])


class GateResult(Message):
    """What a gate says. `words` say it in sentences, whose names are not escaped."""

    type: Literal["gate_verdict"] = optional("Always this.", "gate_verdict")
    verdict: GateVerdict = Field(description="Of the chosen question, and of the target if there is one.")
    question: Question = Field(description="Which answer decides: `final` or `ability`.")
    metric: str = Field(description="What is compared: pass_rate, another mean, or metrics/NAME.")
    higher_is_better: bool = Field(description="Direction of the metric.")
    max_drop: float = Field(ge=0, description="How much worse is allowed, in the metric's unit.")
    level: float = Field(gt=0, lt=1, description="Level of intervals; evidence of 1/(1 - level) is needed.")
    candidate: GateSide
    baseline: GateSide | None = Field(description="Null: only the target is judged.")
    pairs: GatePairs | None = Field(
        description="Null: there is no baseline, a side has not begun, or has no verdicts to compare by."
    )
    final: FinalAnswer | None = Field(description="Null: there is no baseline, or a side has not begun.")
    ability: AbilityAnswer | None = Field(description="Null: there is no baseline, or a side has not begun.")
    target: TargetAnswer | None = Field(description="Null: no target was given, or nothing has begun.")
    over: bool = Field(description="True if nothing more is awaited on either side.")
    refused: list[str] = optional(
        "What `--allow` has to name for an answer: `tasks`, or fields of provenance (R36).", []
    )
    saved: GateSaved | None = Field(description="Null: nothing is saved, or nothing is decided.")
    words: list[str] = Field(description="What is known, one sentence each.")
    judged_before: int | None = optional(
        "Other candidates that ledgers judge against this baseline; null: not known.", ge=0
    )


# -----------------------------------------------------------------------------
# What a gate knows, in sentences (inference 8). Names in them are not escaped.


POINTS = " points"

LISTED = 10
"""Tasks of one side alone that are named; the JSON has all."""

UNMATCHED: dict[Unmatched, str] = {
    Unmatched.NOTHING_IN_COMMON: "no task is planned on both sides",
    Unmatched.PLAN_EXCEEDED: "a side has more trials than planned; compared only at the end",
    Unmatched.TASKS_UNNAMED: "a side has no plan that names all its tasks; compared only at the end",
}
"""Why there is no early verdict, for people."""


def words(result: GateResult) -> list[str]:
    """What is known, a sentence for each answer."""
    metric, level = result.metric, f"{100 * result.level:g} %"
    said = [
        result.final and f"final: {_final_words(result.final, metric, level)}",
        result.ability and not result.refused and f"ability: {_ability_words(result, result.ability, level)}",
        result.target and f"target: {_target_words(result.target)}",
    ]
    return [one for one in said if one] or [
        f"{side.source}: no trials yet" for side in sides_of(result) if side.agent_model is None
    ]


def gate_lines(result: GateResult) -> list[str]:
    """The verdict, and what is known beside it, line by line."""
    many = counted(result.judged_before or 0, "other candidate")
    judged = f"ledgers judge {many} against this baseline, and the best of many equal ones looks better"
    said = (
        *(verdict_line(result), *result.words, counts(result)),
        *(*not_common(result), judged if result.judged_before else None, saved_line(result)),
    )
    return [line for line in said if line]


def sides_of(result: GateResult) -> list[GateSide]:
    return [side for side in (result.candidate, result.baseline) if side is not None]


def counts(result: GateResult) -> str:
    """How far both sides are."""
    if result.pairs is None or not result.pairs.planned:
        return "; ".join(f"{_called(side)}: {_trials_of(side, result.metric)}" for side in sides_of(result))
    pairs = result.pairs
    decided = of_planned(pairs.planned - pairs.unknown, pairs.planned)
    if result.metric != PRIMARY_METRIC:
        return f"{decided} pairs"
    unpaired = f"; {counted(pairs.unpaired, 'trial')} on only one side, in no pair" if pairs.unpaired else ""
    return (
        f"{decided} pairs: only the candidate passed {pairs.wins}, "
        f"only the baseline {pairs.losses}, the same {pairs.ties}{unpaired}"
    )


def verdict_line(result: GateResult) -> str:
    """The verdict in one line: what was asked, and whether it is met."""
    asked = []
    if result.baseline is not None:
        is_rate = result.metric == PRIMARY_METRIC
        drop = f"{(100 if is_rate else 1) * result.max_drop:g}"
        drop += "" if not is_rate else " point" if drop == "1" else POINTS
        what = "in this run" if result.question == "final" else "on tasks like these"
        asked.append(f"{result.metric} at most {drop} worse than {_called(result.baseline)}, {what}")
    if result.target is not None:
        asked.append(f"final pass rate of {percent(result.target.target)} or more")
    return f"{result.verdict.upper()}: {' and '.join(asked)}"


def not_common(result: GateResult) -> list[str]:
    """The tasks that only one side has, the first of them by name."""
    if result.pairs is None:
        return []
    sides = (("candidate", result.pairs.only_candidate), ("baseline", result.pairs.only_baseline))
    return [
        f"only in the {side}: {listed([*map(name_of_key, tasks)], LISTED)}" for side, tasks in sides if tasks
    ]


def saved_line(result: GateResult) -> str | None:
    """What stopping now saves, as an estimate; None: nothing."""
    if result.saved is None or not result.saved.trials:
        return None
    cost = result.saved.cost_usd
    money = "" if cost is None else f", and {cost:,.2f} USD if each costs the mean so far"
    return f"estimate: stopping now saves up to {counted(result.saved.trials, 'trial')}{money}"


def _final_words(answer: FinalAnswer, metric: str, level: str) -> str:
    ends, why = answer.ends, answer.missing
    if ends is None:
        return f"{answer.verdict}, {why}"
    if answer.basis == "exact":
        return f"candidate minus baseline {_signed(ends.low, metric)} in this run: {answer.verdict}"
    if answer.basis == "covered":
        return f"candidate minus baseline {_signed(ends.low, metric)} where known: {answer.verdict} ({why})"
    if answer.basis == "interval":
        told = f"{_range(ends, metric)} in the end, {level}, however often you look"
    else:
        told = f"{_range(ends, metric)} still possible, unless results are corrected ({why})"
    if answer.unrelated is not None:
        told += f"; {_range(answer.unrelated, metric)} {UNRELATED}"
    return f"{answer.verdict}, candidate minus baseline {told}"


def _ability_words(result: GateResult, answer: AbilityAnswer, level: str) -> str:
    told = []
    if answer.interval is not None:
        told.append(f"candidate minus baseline {_range(answer.interval, result.metric)}, {level}")
    if answer.worse is not None:
        worse = f"{answer.worse:.1f}" if answer.worse < 100 else f"{answer.worse:,.0f}"
        told.append(f"evidence that the candidate is worse {worse}, {answer.needed:g} needed")
    if result.over and answer.interval is None and told and answer.verdict is GateVerdict.UNDECIDED:
        told.append(too_few_tasks(result.metric))
    if answer.missing:
        told.append(f"only the whole plan counts, because {answer.missing}")
    if answer.verdict is GateVerdict.FAIL and answer.worse is not None:
        told.append("it is worse, but not by how much")
    return f"{answer.verdict}, on tasks like these: {'; '.join(told) or _unanswered(result)}"


def _unanswered(result: GateResult) -> str:
    """Why there is neither an interval nor evidence."""
    final = result.final
    if final and final.ends is None and final.missing and (result.over or result.pairs is None):
        return final.missing
    return too_few_tasks(result.metric) if result.over else "open until all trials are final"


def _target_words(answer: TargetAnswer) -> str:
    if answer.low is None or answer.high is None:
        return f"{answer.verdict}, because without a plan and verdicts, the bounds are unknown"
    if answer.verdict is not GateVerdict.UNDECIDED and answer.low == answer.high:
        return f"{answer.verdict}, pass rate {percent(answer.low)}, {percent(answer.target)} wanted"
    return (
        f"{answer.verdict}, pass rates of {percent(answer.low)} to {percent(answer.high)} still possible, "
        f"{percent(answer.target)} wanted"
    )


def _trials_of(side: GateSide, metric: str) -> str:
    if side.passed is None and metric == PRIMARY_METRIC:
        return "no verdicts"
    noun = "trial" if (side.planned or side.known) == 1 else "trials"
    return f"{of_planned(side.known, side.planned)} {noun}"


def _called(side: GateSide) -> str:
    return side.source if side.agent_model is None else f"{side.agent_model} of {side.run_id}"


def _range(ends: Range, metric: str) -> str:
    low = _signed(ends.low, metric).removesuffix(POINTS)
    return f"{low} to {_signed(ends.high, metric)}"


def _signed(value: float, metric: str) -> str:
    return points(value) if metric == PRIMARY_METRIC else f"{value:+.4g}"


# -----------------------------------------------------------------------------
# What a gate says of two agents as they stand: the numbers of `statistics`, put into a verdict. Pure.


Values = Mapping[Task, Sequence[float]]
AnyEnds = TypeVar("AnyEnds", Ends, Interval)

LOWER_IS_BETTER = frozenset({"cost_usd", "duration_seconds"})
GATED = (PRIMARY_METRIC, *MEANS)
"""The built-in metrics that a gate can judge; named ones are `metrics/NAME` (R30)."""

NOTHING_COMMON = UNMATCHED[Unmatched.NOTHING_IN_COMMON]
NOT_FINAL = "trials have no final value"


@dataclass(frozen=True, slots=True)
class Terms:
    """The question that a gate answers; all numbers exact.

    Without a `metric` the pass rate decides, or without verdicts the plan's primary metric (R31). `max_drop`
    is in the metric's unit. `allowed` has fields of provenance that may differ (R36), and `tasks`.
    """

    question: Question = "final"
    metric: str | None = None
    max_drop: Fraction = Fraction("0.02")
    alpha: Fraction = ALPHA
    target: Fraction | None = None
    allowed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Entrant:
    """A side and what it was called; `trials` None: it has not begun, or names no agent yet."""

    source: str
    trials: Contestant | None
    run_id: str | None = None


def judge(candidate: Entrant, baseline: Entrant | None, terms: Terms) -> GateResult:
    """The verdict on two sides as they stand, or on the target alone."""
    ours, theirs = candidate.trials, baseline and baseline.trials
    metric = terms.metric or _leading([side for side in (theirs, ours) if side])
    terms = replace(terms, metric=metric)
    if metric != PRIMARY_METRIC:
        ours, theirs = ours and ours.on_numbers(), theirs and theirs.on_numbers()
    made, matched = Comparability(), None
    if ours and theirs:
        matched, made = matched_as_made(ours, theirs, terms.allowed)
    directions, units = _readings(metric, [side for side in (theirs, ours) if side])
    higher = metric not in LOWER_IS_BETTER and next(filter(None, directions), "higher") == "higher"
    final, ability_, why = None, None, ""
    refused: Mapping[str, str] = {}
    if matched is not None and ours and theirs:
        if metric == PRIMARY_METRIC and not (ours.has_verdicts and theirs.has_verdicts):
            why, matched = no_verdicts(sorted(ours.named_metrics & theirs.named_metrics)), None
        elif refused := made.refused:
            why = not_comparable(refused)
        elif two_units := in_two_units(metric, units[::-1]):
            why = two_units
        elif metric == PRIMARY_METRIC:
            final, ability_ = _final_of(matched, terms), _ability_answer(matched, terms)
        else:
            final, ability_ = _of_mean(matched, ours, theirs, metric, terms, higher=higher)
        if why:
            final = _final_answer(None, terms, "nothing", why)
            ability_ = _ability(GateVerdict.UNDECIDED, terms)
    target = _target_answer(candidate.trials, terms) if candidate.trials else None
    chosen = final if terms.question == "final" else ability_
    parts = ([chosen] if baseline else []) + ([target] if terms.target is not None else [])
    verdict = together(part.verdict if part else GateVerdict.UNDECIDED for part in parts)
    result = GateResult(
        verdict=verdict,
        question=terms.question,
        metric=metric,
        higher_is_better=higher,
        max_drop=float(terms.max_drop),
        level=float(1 - terms.alpha),
        candidate=_side(candidate, metric),
        baseline=None if baseline is None else _side(baseline, metric),
        pairs=None if matched is None else _pairs(matched, made.left_out),
        refused=list(refused),
        final=final,
        ability=ability_,
        target=target,
        over=bool(ours and ours.over and (baseline is None or (theirs and theirs.over))),
        saved=None if verdict is GateVerdict.UNDECIDED or ours is None else _saved(ours),
        words=[],
    )
    said = [said for said in made.words if said not in refused.values()]
    as_it_stands = [side.run.run_id for side in (ours, theirs) if side and _has_no_plan_and_no_end(side)]
    said += map(counts_as_complete, dict.fromkeys(as_it_stands))
    if matched is not None:
        said += read_differently(metric, ("the baseline", "the candidate"), directions)
    if metric == PRIMARY_METRIC or terms.target is not None:
        every = [side.trials for side in (candidate, baseline) if side and side.trials]
        said += filter(None, map(_numbers_alone, every))
    return result.model_copy(update={"words": words(result) + said})


def _has_no_plan_and_no_end(side: Contestant) -> bool:
    """Whether it is judged as it stands, as from a file."""
    plan = side.run.plan
    is_planned = side.declared is not None or side.exceeded or plan.is_incomplete
    return side.over and plan.finished is None and not is_planned


def matched_as_made(
    ours: Contestant, theirs: Contestant, allowed: Collection[str] = ()
) -> tuple[Matched, Comparability]:
    """A candidate and its baseline without the tasks that were made in different ways, and what differs."""
    every, names = Matched(ours, theirs), ("the candidate", "the baseline")
    finished = ours.run.plan.finished is not None and theirs.run.plan.finished is not None
    planned = 0 if finished else every.planned_tasks  # tasks without a name never come then
    a, b = (side.made(one for one in side.tasks if side.attempts(one).known) for side in (ours, theirs))
    made = comparable(a, b, names, allowed, planned)
    left_out = {task for task in ours.tasks if task_key(*task) in made.left_out}
    matched = Matched(ours, theirs, left_out) if left_out else every
    common, alone = len(matched.tasks), (len(matched.only_ours), len(matched.only_theirs))
    if common and any(alone) and "tasks" not in allowed:
        starts = [None if side.began == NO_TIME else side.began for side in (ours, theirs)]
        made = made.of_tasks(common, (common + alone[0], common + alone[1]), starts)
    return matched, made


def _leading(sides: Sequence[Contestant]) -> str:
    """The metric that decides unless one is named: the pass rate, without verdicts the primary one (R31)."""
    if all(side.has_verdicts for side in sides):
        return PRIMARY_METRIC
    common = set.intersection(*(side.named_metrics for side in sides))
    names = (primary_metric(side.run.plan, has_verdicts=False) for side in sides)
    return next((name for name in names if name in common), PRIMARY_METRIC)


def no_verdicts(names: Sequence[str]) -> str:
    """Why pass rates are not compared, and which metrics both sides have instead.

    >>> no_verdicts(["metrics/match"])
    'no verdicts; --metric metrics/match'
    """
    if not names:
        return "no verdicts, and no metric on both sides"
    return f"no verdicts; --metric {' or '.join(names[:SHOWN])}"


def _final_of(matched: Matched, terms: Terms) -> FinalAnswer:
    if matched.ended or (matched.over and matched.unmatched):
        ends = reachable(matched.every_task())
        missing = None if matched.ended else NOT_FINAL if ends else NOTHING_COMMON
        return _final_answer(ends, terms, "exact" if matched.ended else "bounds", missing)
    if matched.unmatched:
        return _final_answer(None, terms, "nothing", UNMATCHED[matched.unmatched])
    if matched.unpaired:
        return _final_answer(reachable(matched.every_task()), terms, "bounds", "the attempts differ")
    hard = hard_difference(matched.pairs, matched.planned).ends()
    if matched.order_missing or matched.ordered is None:
        why = NOT_FINAL if matched.over else REASONS[matched.order_missing or "order_unknown_in_part"]
        return _final_answer(hard, terms, "bounds", why)
    difference = final_difference(matched.ordered, matched.planned, terms.alpha, matched.pairs)
    if difference.empty:
        return _final_answer(hard, terms, "bounds", REASONS["empty"])
    if matched.kind is OrderKind.SHUFFLED:
        return _final_answer(difference.ends(), terms, "interval")
    answer = _final_answer(hard, terms, "bounds", "the order is not declared as shuffled")
    return answer.model_copy(update={"unrelated": Range.of(difference.ends())})


def _final_answer(
    ends: Ends | None, terms: Terms, basis: Basis, missing: str | None = None, *, higher: bool = True
) -> FinalAnswer:
    verdict, known = no_further_behind(_oriented(ends, higher=higher), terms.max_drop), Range.of(ends)
    basis = "nothing" if known is None else basis
    return FinalAnswer(verdict=verdict, basis=basis, ends=known, unrelated=None, missing=missing)


def _ability_answer(matched: Matched, terms: Terms) -> AbilityAnswer:
    result = paired(matched.every_task(), terms.alpha, complete=matched.over, over=matched.over)
    worse, interval = None, result.interval
    if matched.unmatched:
        verdict = no_further_behind(interval, terms.max_drop)
    else:
        worse, behind = worse_and_behind(matched.in_order, matched.pairs, matched.planned)
        if matched.ended:
            behind = (result.difference or 0.0) < 0
        verdict = ability(worse, interval, terms.max_drop, terms.alpha, behind=behind)
    missing = None if matched.over else matched.evidence_missing
    said = {"missing": NO_PREFIX[missing]} if missing else {}
    return _ability(verdict, terms, interval, worse).model_copy(update=said)


def _ability(
    verdict: GateVerdict, terms: Terms, interval: Interval | None = None, worse: float | None = None
) -> AbilityAnswer:
    needed = float(1 / terms.alpha)
    return AbilityAnswer(verdict=verdict, worse=worse, needed=needed, interval=Range.of(interval))


def _of_mean(
    matched: Matched, ours: Contestant, theirs: Contestant, metric: str, terms: Terms, *, higher: bool
) -> tuple[FinalAnswer, AbilityAnswer]:
    """Both answers about a metric other than the pass rate, which only the end can give."""
    values, missing = Clusters(), f"{metric} is compared only at the end"
    if matched.over:
        missing = NOT_FINAL if matched.tasks else NOTHING_COMMON
    if matched.ended:
        first, second = ours.values(metric) or {}, theirs.values(metric) or {}
        missing = _uncovered(matched, first, second, metric)
        plans = (side.run.plan for side in (ours, theirs))
        if missing and metric == "impl_rate" and any(plan.judged and plan.awaits_scores for plan in plans):
            missing = "trials wait for a judge's score"
        else:
            values = mean_differences((first.get(task, []), second.get(task, [])) for task in matched.tasks)
    ends, interval = ends_of(values), None
    if values.tasks >= LEAST_TASKS_OF_A_MEAN:
        interval = mean_interval(values, terms.alpha)
    verdict = no_further_behind(_oriented(interval, higher=higher), terms.max_drop)
    answer = _final_answer(ends, terms, "covered" if missing else "exact", missing or None, higher=higher)
    return answer, _ability(verdict, terms, interval)


def _uncovered(matched: Matched, ours: Values, theirs: Values, metric: str) -> str:
    """How many trials of the common tasks have a metric; "": all of them."""
    both = [task for task in matched.tasks if task in ours and task in theirs]
    if not both:
        return f"no common task where both sides have {metric}"
    planned = [sum(side.planned for side in sides) for sides in zip(*matched.tasks.values(), strict=True)]
    decided = [sum(len(side.get(task, ())) for task in matched.tasks) for side in (ours, theirs)]
    if decided == planned:
        return ""
    counted = (f"{have:,} of {of:,}" for have, of in zip(decided, planned, strict=True))
    return (
        f"{metric} is known for {' candidate and '.join(counted)} baseline trials; "
        f"compared on {len(both):,} of {len(matched.tasks):,} tasks"
    )


def _target_answer(ours: Contestant, terms: Terms) -> TargetAnswer | None:
    if terms.target is None:
        return None
    reach = ours.reach() if ours.has_verdicts else None
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


def _side(entrant: Entrant, metric: str) -> GateSide:
    """A side as it stands: its trials with a verdict where pass rates are judged, else all (R31)."""
    trials = entrant.trials
    is_numeric = bool(trials and trials.evidence.numeric and not trials.has_verdicts)
    if trials and (is_numeric or metric != PRIMARY_METRIC):
        trials = trials.on_numbers()
    return GateSide(
        source=entrant.source,
        run_id=trials.run.run_id if trials else entrant.run_id,
        agent_model=trials.group.agent_model if trials else None,
        planned=trials.declared if trials else None,
        known=trials.known if trials else 0,
        passed=None if is_numeric else trials.passed if trials else 0,
        over=trials is not None and trials.over,
    )


def _numbers_alone(side: Contestant) -> str | None:
    """The trials that no pass rate has, because they have no verdict (R31); None: there are none."""
    numeric = side.evidence.numeric if side.has_verdicts else 0
    who = f"{side.label} of {side.run.run_id}"
    return f"{counted(numeric, 'trial')} of {who} with numbers alone, no verdict" if numeric else None


def _pairs(matched: Matched, left_out: Iterable[str]) -> GatePairs:
    won, lost = [pair.won() for pair in matched.pairs], [pair.lost() for pair in matched.pairs]
    decided = sum(None not in pair for pair in matched.pairs)
    wins, losses = won.count(True), lost.count(True)
    return GatePairs(
        planned=0 if matched.unmatched else matched.planned,
        wins=wins,
        ties=decided - wins - losses,
        losses=losses,
        unknown=0 if matched.unmatched else matched.planned - decided,
        unpaired=matched.unpaired,
        tasks=matched.planned_tasks,
        only_candidate=[task_key(*task) for task in matched.only_ours],
        only_baseline=[task_key(*task) for task in matched.only_theirs],
        left_out=sorted(left_out),
    )


def _readings(metric: str, sides: Iterable[Contestant]) -> tuple[list[str | None], list[str | None]]:
    """Direction and unit of a named metric as each plan says them (R30); None: it does not."""
    name = metric.removeprefix(NAMED) if metric.startswith(NAMED) else ""
    plans = [planned_metrics(side.run.plan).get(name, MetricPlan()) for side in sides]
    return [plan.direction for plan in plans], [plan.unit for plan in plans]


def _oriented(ends: AnyEnds | None, *, higher: bool) -> AnyEnds | None:
    """The same difference, positive where the candidate is better."""
    return ends if ends is None or higher else ends._replace(low=-ends.high, high=-ends.low)


# -----------------------------------------------------------------------------
# Which agent of which run a text names: RUN, RUN/AGENT:MODEL, or in a file with one run AGENT:MODEL.


SHOWN = 5


class NoSuchSide(Exception):
    """There is no such run or agent, or a text names several."""

    @classmethod
    def unknown_agent(cls, run_id: str, label: str, agents: Collection[str]) -> NoSuchSide:
        close, names = get_close_matches(label, agents, n=SHOWN, cutoff=0.4), listed(sorted(agents), SHOWN)
        hint = f"It has {names}." if names else "It has no results yet."
        hint = f"Did you mean {listed(close, SHOWN)}?" if close else hint
        return cls(f"run {run_id!r} has no agent:model {label!r}. {hint}")


def slashes(text: str) -> list[int]:
    """The places of the slashes in a text, the last first: names of runs, files and models may have some."""
    return [at for at in range(len(text) - 1, 0, -1) if text[at] == "/"]


def possible_runs(text: str) -> list[str]:
    """Every run that a text may name, the longest id first; a label has a colon.

    >>> possible_runs("nightly/terminus:openai/gpt-5")
    ['nightly/terminus:openai/gpt-5', 'nightly']
    """
    return [text, *(text[:at] for at in slashes(text) if ":" in text[at:])]


def entrant(source: str, text: str, runs: Mapping[str, RunState], *, fixed: bool) -> Entrant:
    """The side that a text names; NoSuchSide if it may be several agents, or a `fixed` file lacks it."""
    name = next((name for name in possible_runs(text) if name in runs), None)
    label = text if name is None else text[len(name) + 1 :]
    if name is None and fixed:
        name = run_of(source, "" if ":" in text and len(runs) == 1 else text, runs)
    return Entrant(source, None) if name is None else _entrant_of(source, runs[name], label, fixed=fixed)


def run_of(source: str, text: str, runs: Mapping[str, RunState]) -> str:
    """The run of a file that a text names; "" names its only run. NoSuchSide if there is no such run."""
    if text in runs:
        return text
    run_ids = sorted(runs)
    names = listed(run_ids, SHOWN)
    if text:
        raise NoSuchSide(f"{source} has no run or agent {text!r}. Its runs: {names or 'none'}")
    if not run_ids:
        raise NoSuchSide(f"{source} has no run. `streamer fold {source}` says what is wrong with its lines")
    if len(run_ids) > 1:
        raise NoSuchSide(f"{source} holds {len(run_ids)} runs; name one: {source}/RUN, of {names}")
    return run_ids[0]


def _entrant_of(source: str, run: RunState, label: str | None, *, fixed: bool) -> Entrant:
    group = _agent(source, run, label, fixed=fixed)
    return Entrant(source, None if group is None else Contestant(run, group, fixed=fixed), run.run_id)


def _agent(source: str, run: RunState, label: str | None, *, fixed: bool) -> GroupId | None:
    """The agent of that label, or the only one that is not a baseline; None: it may still come."""
    run.count()
    over = fixed or run.plan.finished is not None
    if label:
        seen = (group for group in run.scores.roster.groups() if group.agent and group.tier is None)
        planned = (GroupId(None, *one) for one in run.plan.agent_models())
        named = {group.agent_model: group for group in (*seen, *planned)}
        if label not in named and over:
            raise NoSuchSide.unknown_agent(run.run_id, label, [name for name in named if name])
        return named.get(label)
    agents = agents_of(run) if over else compared_agents(run)
    if len(agents) > 1 or (over and not agents):
        names = [group.agent_model or "" for group in agents]
        raise NoSuchSide(
            f"{visible(source)} has {len(agents)} agents that are not baselines"
            + (f"; name one: {source}/AGENT:MODEL, of {listed(names, SHOWN)}" if names else "")
        )
    return agents[0] if agents else None


# -----------------------------------------------------------------------------
# Sentences about two agents of different runs while one goes on: pairs in order, from both logs. Pure.


class Live(NamedTuple):
    """What the order of the trials says while some are missing: in words, and which side is shown worse."""

    words: list[str]
    worse: Literal["a", "b"] | None


def with_order(
    comparison: Comparison, a: RunState | None, b: RunState | None, allowed: Collection[str] = ()
) -> Comparison:
    """A comparison with what the order of the trials says; unchanged without the log of both runs."""
    if a is None or b is None or not needs_order(comparison):
        return comparison
    return with_live(comparison, in_order(a, b, comparison.a.agent_model, comparison.b.agent_model, allowed))


def with_live(comparison: Comparison, live: Live) -> Comparison:
    """A comparison with what may be said before the end; each sentence stands once."""
    words = list(dict.fromkeys([*live.words, *comparison.words]))
    return comparison.model_copy(update={"words": words, "worse": live.worse})


def needs_order(comparison: Comparison) -> bool:
    """Whether there may be something to say: results are missing, and the tasks are the same."""
    return not comparison.ended and comparison.not_comparable is None


def in_order(
    a: RunState, b: RunState, a_agent: str | None, b_agent: str | None, allowed: Collection[str] = ()
) -> Live:
    """What may be said of two sides before the end, B minus A; of one run `between` has the words."""
    try:
        ours = _entrant_of(a.run_id, a, a_agent, fixed=False)
        theirs = _entrant_of(b.run_id, b, b_agent, fixed=False)
    except NoSuchSide:
        return Live([], None)
    terms = Terms(metric=PRIMARY_METRIC, max_drop=Fraction(), allowed=allowed)
    opposite = replace(terms, alpha=ALPHA / 2)  # B worse is the question; the other direction takes more
    of_a, of_b = judge(ours, theirs, opposite), judge(theirs, ours, terms)
    a_worse, b_worse = (of.ability and of.ability.verdict is GateVerdict.FAIL for of in (of_a, of_b))
    words = [] if a.run_id == b.run_id else _words_in_order(of_b)
    return Live(words, "a" if a_worse else "b" if b_worse else None)


def _words_in_order(result: GateResult) -> list[str]:
    final, other = result.final, result.baseline
    if other is None or final is None or final.basis == "exact" or final.ends is None:
        return []
    a, b, ends = _called(result.candidate), _called(other), final.ends
    ahead, behind = (a, b) if ends.low > 0 else (b, a)
    is_separated = ends.low > 0 or ends.high < 0
    if final.basis == "interval" and is_separated:
        of_ahead = ends if ahead == a else Range(low=-ends.high, high=-ends.low)
        return [f"{ahead} ahead of {behind} in the final pass rate: {_in_the_end(of_ahead)}; {LOOKS}"]
    if final.basis == "interval":
        return [f"{a} minus {b}: {_in_the_end(ends)}; {LOOKS}"]
    said = [overtaken(ahead, behind)] if is_separated else []
    if final.unrelated is not None:
        said.append(f"{a} minus {b}: {_in_the_end(final.unrelated)}, {UNRELATED}")
    return said


def _in_the_end(ends: Range) -> str:
    return f"{ends_in_points(ends.low, ends.high)} points in the end"
