"""Sentences about two agents of different runs while one goes on: pairs in order, from both logs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from streamer.aggregate.run_state import RunState
from streamer.text import ends_in_points
from streamer.views.entrants import NoSuchSide, entrant
from streamer.views.gate import Entrant, Terms, judge
from streamer.views.gate_verdict import FinalAnswer, GateEnds, GateSide
from streamer.views.models import Comparison


def with_order(found: Comparison, a: RunState | None, b: RunState | None) -> Comparison:
    """A comparison, and what the order of the trials allows to say across two runs.

    Args:
        found: the two sides compared.
        a, b: their runs, folded; None: its log is not at hand, so nothing is added.
    """
    if a is None or b is None or not needs_order(found):
        return found
    return with_words(found, ordered_words(a, b, found.a.agent_model, found.b.agent_model))


def with_words(found: Comparison, said: Iterable[str]) -> Comparison:
    """A comparison with more sentences, before its own; each stands once."""
    return found.model_copy(update={"words": list(dict.fromkeys([*said, *found.words]))})


def needs_order(found: Comparison) -> bool:
    """Whether there may be something to say: two runs, and results are missing."""
    return not found.ended and found.a.run != found.b.run


def ordered_words(a: RunState, b: RunState, a_agent: str | None, b_agent: str | None) -> list[str]:
    """The sentences about the final pass rates (inference 8); [] once all is in, and of several agents.

    Args:
        a, b: two folded runs; of one and the same there is nothing to add, `between` has its words.
        a_agent, b_agent: agent:model of each; None: the only one that is no baseline.
    """
    if a.run_id == b.run_id:
        return []
    try:
        ours, theirs = _entrant_of(a, a_agent), _entrant_of(b, b_agent)
    except NoSuchSide:
        return []
    result = judge(ours, theirs, Terms(max_drop=Fraction()))
    final, other = result.final, result.baseline
    if other is None or final is None or final.basis == "exact" or final.ends is None:
        return []
    return _order_words(_name(result.candidate), _name(other), final, final.ends)


def _entrant_of(run: RunState, agent_model: str | None) -> Entrant:
    text = f"{run.run_id}/{agent_model}" if agent_model else run.run_id
    return entrant(run.run_id, text, {run.run_id: run}, fixed=False)


def _name(side: GateSide) -> str:
    return f"{side.agent_model} of {side.run_id}"


def _order_words(a: str, b: str, final: FinalAnswer, ends: GateEnds) -> list[str]:
    ahead, behind = (a, b) if ends.low > 0 else (b, a)
    apart = ends.low > 0 or ends.high < 0
    low, high = (ends.low, ends.high) if ahead == a else (-ends.high, -ends.low)
    if final.basis == "interval":
        whose = f"{ahead} ahead of {behind} in the final pass rate" if apart else f"{a} minus {b}"
        shown = (low, high) if apart else (ends.low, ends.high)
        return [f"{whose}: {_range_words(*shown)} in the end; 95 %, however often you look"]
    said = [f"{ahead} can no longer be overtaken by {behind}, unless results are corrected"] if apart else []
    if final.unrelated is not None:
        said.append(
            f"{a} minus {b}: {_range_words(final.unrelated.low, final.unrelated.high)} in the end, if the "
            "order has nothing to do with difficulty"
        )
    return said


def _range_words(low: float, high: float) -> str:
    return f"{ends_in_points(low, high)} points"
