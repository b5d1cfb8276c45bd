"""What a gate knows, in sentences (inference 8). Names in them are not escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamer.aggregate.matching import Unmatched
from streamer.inference.comparisons import GateVerdict
from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.text import counted, percent, points
from streamer.views.formatting import of_planned
from streamer.views.gate_verdict import (
    AbilityAnswer,
    FinalAnswer,
    GateEnds,
    GateResult,
    GateSide,
    TargetAnswer,
)

POINTS = " points"
"""Unit of a difference of pass rates."""

LISTED = 10
"""Tasks of one side alone that are named; the JSON has all."""

UNMATCHED: dict[Unmatched, str] = {
    Unmatched.NOTHING_IN_COMMON: "no task is planned on both sides",
    Unmatched.PLAN_EXCEEDED: "a side has more trials than planned; compared at the end only",
    Unmatched.TASKS_UNNAMED: "the plan of a side does not name all its tasks; compared at the end only",
    Unmatched.ATTEMPTS_DIFFER: "the attempts at some task differ; compared at the end only",
}
"""Why there is no early verdict, for people."""


def words(result: GateResult) -> list[str]:
    """What is known, a sentence for each answer."""
    said = list(_answers(result))
    return said or [f"{side}: no trial is known yet" for side in _not_begun(result)]


def counts(result: GateResult) -> str:
    """How far both sides are."""
    if result.pairs is None or not result.pairs.planned:
        sides = [side for side in (result.candidate, result.baseline) if side]
        return "; ".join(f"{_called(side)}: {of_planned(side.known, side.planned)} trials" for side in sides)
    pairs = result.pairs
    known = of_planned(pairs.planned - pairs.unknown, pairs.planned)
    return (
        f"{known} pairs: only the candidate passed {pairs.wins}, "
        f"only the baseline {pairs.losses}, the same {pairs.ties}"
    )


def verdict_line(result: GateResult) -> str:
    """The verdict in one line: what was asked, and whether it is met."""
    asked = []
    if result.baseline is not None:
        drop = _amount(result.max_drop, result.metric)
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
    return [f"only in the {side}: {_listed_tasks(tasks)}" for side, tasks in sides if tasks]


def saved_line(result: GateResult) -> str | None:
    """What stopping now saves, as an estimate; None: nothing."""
    if result.saved is None or not result.saved.trials:
        return None
    cost = result.saved.cost_usd
    money = "" if cost is None else f", and {cost:,.2f} USD if each costs the mean so far"
    return f"estimate: stopping now saves up to {counted(result.saved.trials, 'trial')}{money}"


def _answers(result: GateResult) -> Iterable[str]:
    level = f"{100 * result.level:g} %"
    if result.final is not None:
        yield f"final: {_final_words(result.final, result.metric, level)}"
    if result.ability is not None:
        yield f"ability: {_ability_words(result.ability, result.metric, level)}"
    if result.target is not None:
        yield f"target: {_target_words(result.target)}"


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
        told += f"; {_range(answer.unrelated, metric)} if the order has nothing to do with difficulty"
    return f"{answer.verdict}, candidate minus baseline {told}"


def _ability_words(answer: AbilityAnswer, metric: str, level: str) -> str:
    told = []
    if answer.interval is not None:
        told.append(f"candidate minus baseline {_range(answer.interval, metric)}, {level}")
    if answer.worse is not None:
        told.append(
            f"e-value that the candidate is worse {_evidence(answer.worse)}, {answer.needed:g} needed"
        )
    return (
        f"{answer.verdict}, on tasks like these: {'; '.join(told) or 'nothing before all trials are final'}"
    )


def _target_words(answer: TargetAnswer) -> str:
    if answer.low is None or answer.high is None:
        return f"{answer.verdict}, no plan says what is still possible"
    if answer.verdict is not GateVerdict.UNDECIDED and answer.low == answer.high:
        return f"{answer.verdict}, pass rate {percent(answer.low)}, {percent(answer.target)} wanted"
    return (
        f"{answer.verdict}, pass rates of {percent(answer.low)} to {percent(answer.high)} still possible, "
        f"{percent(answer.target)} wanted"
    )


def _not_begun(result: GateResult) -> list[str]:
    sides = (result.candidate, result.baseline)
    return [side.source for side in sides if side and side.agent_model is None]


def _listed_tasks(tasks: Sequence[str]) -> str:
    left = len(tasks) - LISTED
    return ", ".join(tasks[:LISTED]) + (f" and {left:,} more" if left > 0 else "")


def _called(side: GateSide) -> str:
    """What a side is called: its agent and run, where they are known."""
    return side.source if side.agent_model is None else f"{side.agent_model} of {side.run_id}"


def _evidence(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _range(ends: GateEnds, metric: str) -> str:
    low = _signed(ends.low, metric).removesuffix(POINTS)
    return f"{low} to {_signed(ends.high, metric)}"


def _signed(value: float, metric: str) -> str:
    return points(value) if metric == PRIMARY_METRIC else f"{value:+.4g}"


def _amount(value: float, metric: str) -> str:
    return f"{100 * value:g}{POINTS}" if metric == PRIMARY_METRIC else f"{value:g}"
