"""Two sides of a comparison, each with its run: numbers, intervals and words together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamer.client.results import ComparedRun
from streamer.schemas.summaries import AgentModelSummary
from streamer.views.compare import compare, has_ended
from streamer.views.comparisons import between
from streamer.views.models import Comparison, TrialRow


class ComparedSide(NamedTuple):
    """One side of a comparison.

    Attributes:
        run: its run, with the tasks.
        agents: of the run, baselines too.
        agent_model: whose trials are compared; None: of all but baselines.
        rows: these trials.
    """

    run: ComparedRun
    agents: Sequence[AgentModelSummary]
    agent_model: str | None
    rows: Sequence[TrialRow]


def compare_sides(a: ComparedSide, b: ComparedSide, offset: int, limit: int) -> Comparison:
    """Compare two sides, and say what may be said of them (inference 8).

    Args:
        a, b: the sides; of a named metric that both plans explain, the first one's words count.
        offset, limit: which of the tasks to list; the counts are of all.
    """
    found = compare(
        a.rows,
        b.rows,
        ((a.run.run.run_id, a.agent_model), (b.run.run.run_id, b.agent_model)),
        offset,
        limit,
        ended=all(has_ended(side.run, side.agents, side.agent_model) for side in (a, b)),
        readings={**b.run.run.metrics, **a.run.run.metrics},
    )
    words = between(a.run, b.run, a.agent_model, b.agent_model, ended=found.ended)
    return found.model_copy(update={"words": words, "in_common": _in_common(found)})


def _in_common(found: Comparison) -> str:
    return (
        f"{found.tasks:,} tasks in common: passed by both {found.both_passed:,}, by A alone "
        f"{found.only_a:,}, by B alone {found.only_b:,}, by neither {found.neither:,}; "
        f"only in A {found.a.only_here:,}, only in B {found.b.only_here:,}"
    )
