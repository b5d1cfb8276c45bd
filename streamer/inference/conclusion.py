"""What may be said of a run's final pass rate, or why nothing may (inference 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from streamer.inference.checks import follows_difficulty, follows_outcome
from streamer.inference.finite_population import ALPHA, Outcome, Passes, final, final_without_order
from streamer.inference.order import OrderKind, Trial, attempts_together, in_order, sequence


class FinalMissing(StrEnum):
    """Why there is no interval of the final pass rate: the first reason here that applies."""

    NO_PLAN = "no_plan"
    """The run did not say how many trials it plans."""
    PLAN_UNDECLARED_TIERS = "plan_undeclared_tiers"
    """The plan leaves out tiers or subtests that have results."""
    PLAN_EXCEEDED = "plan_exceeded"
    """There are more trials than planned."""
    ORDER_CHOSEN = "order_chosen"
    """The order was chosen by something known about the tasks."""
    ORDER_UNKNOWN_IN_PART = "order_unknown_in_part"
    """Some trials have no place in the order, and the run declared no shuffle with a concurrency."""
    ATTEMPTS_TOGETHER = "attempts_together"
    """All attempts at a task run one after the other."""
    ORDER_FOLLOWS_DIFFICULTY = "order_follows_difficulty"
    """The check of the order against the declared difficulty failed."""
    ORDER_FOLLOWS_OUTCOME = "order_follows_outcome"
    """The check of the outcomes against the order failed."""
    NOTHING_YET = "nothing_yet"
    """No trial has a final value."""
    EMPTY = "empty"
    """No final pass rate agrees with all results: the order follows outcomes, or these changed over time."""


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What an agent:model plans, as far as the run said.

    Attributes:
        trials: of the first plan; None: unknown.
        kind: where the order comes from.
        concurrency: trials that run at once; None: unknown. With a declared shuffle it stands in for an order
            that is not known. Every listed trial without a final value then counts as unknown besides.
        difficulty: 0 to 1 by task, known before the run.
        others: places in the order that belong to other agents or to withdrawn trials.
        places: places in the queue of the plan; None: the order comes from elsewhere. With at most half
            as many places as trials, the attempts at a task share one: they run together.
    """

    trials: int | None
    kind: OrderKind = OrderKind.UNKNOWN
    concurrency: int | None = None
    difficulty: Mapping[str, float] = field(default_factory=dict)
    others: Collection[int] = ()
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """An interval, or the reason why there is none: exactly one of both is set."""

    passes: Passes | None
    missing: FinalMissing | None


def conclude(
    run: str,
    plan: TrialPlan,
    trials: Iterable[Trial],
    later: Sequence[Outcome] = (),
    alpha: Fraction = ALPHA,
) -> Conclusion:
    """The interval of the final pass rate, or why there is none.

    Args:
        run: its name, for ties.
        plan: the first plan.
        trials: of the first plan, if they have started, have a result, or have a place in the queue.
        later: outcomes of all trials that joined the plan after the run had begun.
        alpha: chance of an interval that ever misses.

    >>> trials = [Trial(f"t{n}", f"t{n}", outcome=n % 2 == 0, place=n) for n in range(10)]
    >>> conclude("r", TrialPlan(89, OrderKind.SHUFFLED), trials).passes
    Passes(low=15, high=76, planned=89)
    >>> conclude("r", TrialPlan(89, OrderKind.CHOSEN), trials).missing
    <FinalMissing.ORDER_CHOSEN: 'order_chosen'>
    """
    ordered = in_order(run, trials)
    missing = missing_before(plan, ordered)
    if missing or plan.trials is None:
        return Conclusion(None, missing)
    passes = _passes(plan, plan.trials, ordered, later, alpha)
    return Conclusion(None, FinalMissing.EMPTY) if passes.empty else Conclusion(passes, None)


MOST_TRIALS = 100_000
"""Trials of the largest plan with an interval. Factorials of more take too much memory: hard bounds stand."""


def missing_before(plan: TrialPlan, ordered: Sequence[Trial]) -> FinalMissing | None:
    """Why there can be no interval, before it is computed; None: there can.

    Args:
        plan: the first plan.
        ordered: its trials, in the order of `in_order`.
    """
    missing = missing_in_plan(plan, len(ordered), placed=_placed(ordered))
    if missing or plan.trials is None:
        return missing
    checked = _placed(ordered) and plan.trials <= MOST_TRIALS
    if checked and (failed := _failed_check(plan, plan.trials, ordered)):
        return failed
    if all(trial.outcome is None for trial in ordered):
        return FinalMissing.NOTHING_YET
    return None


def missing_in_plan(plan: TrialPlan, trials: int, *, placed: bool) -> FinalMissing | None:
    """Why the plan alone leaves no interval; None: it may leave one.

    Args:
        plan: the first plan.
        trials: so many of them have started, or have a result.
        placed: all of these have a place in the order.
    """
    if not plan.trials:
        return FinalMissing.NO_PLAN
    if trials > plan.trials:
        return FinalMissing.PLAN_EXCEEDED
    if plan.kind is OrderKind.CHOSEN:
        return FinalMissing.ORDER_CHOSEN
    if not placed and not _only_concurrency(plan):
        return FinalMissing.ORDER_UNKNOWN_IN_PART
    if plan.places is not None and plan.places < plan.trials:
        several = 2 * plan.places <= plan.trials
        return FinalMissing.ATTEMPTS_TOGETHER if several else FinalMissing.ORDER_UNKNOWN_IN_PART
    return None


def _failed_check(plan: TrialPlan, planned: int, ordered: Sequence[Trial]) -> FinalMissing | None:
    tasks = [trial.task for trial in ordered]
    if attempts_together(tasks):
        return FinalMissing.ATTEMPTS_TOGETHER
    if len(ordered) == planned and follows_difficulty(tasks, plan.difficulty):
        return FinalMissing.ORDER_FOLLOWS_DIFFICULTY
    if follows_outcome(sequence(ordered, planned, plan.others), planned):
        return FinalMissing.ORDER_FOLLOWS_OUTCOME
    return None


def _passes(
    plan: TrialPlan, planned: int, ordered: Sequence[Trial], later: Sequence[Outcome], alpha: Fraction
) -> Passes:
    outcomes = [trial.outcome for trial in ordered]
    passed, failed, stopped = (outcomes.count(outcome) for outcome in (True, False, None))
    if planned > MOST_TRIALS:
        return Passes(passed, planned - failed, planned).grown(later)
    if _placed(ordered):
        return final(sequence(ordered, planned, plan.others), planned, later, alpha)
    return final_without_order(passed, failed, planned, plan.concurrency or 1, stopped, alpha).grown(later)


def _placed(ordered: Sequence[Trial]) -> bool:
    return all(trial.place is not None for trial in ordered)


def _only_concurrency(plan: TrialPlan) -> bool:
    return plan.kind is OrderKind.SHUFFLED and plan.concurrency is not None
