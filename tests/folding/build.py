"""Builders of events for the tests of scoring."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

from streamer.folding.groups import FormulaCodeSums, GroupState
from streamer.folding.prices import Price, PriceTable
from streamer.folding.score import Scored, ScoringRules, score_trial
from streamer.folding.score.formulacode import FormulaCodeScore, task_payload
from streamer.folding.state import RunState
from streamer.folding.summaries import FORMULACODE, NO_ERROR, Measured, Moment, Subject, computed
from streamer.schemas.base import GroupId
from streamer.schemas.events import EVENT, FormulaCodePayload, TrialResult
from tests.support.events import Event, summarised

AGENT, RUN = "agent_model run-1|terminus:gpt-5", "run run-1"
TIER, WITHIN = "tier run-1|T0", "tier run-1|T0|terminus:gpt-5"
"""Kind and key of the summaries of the events that tests.support.events builds."""

RULES = ScoringRules(PriceTable.default())
"""The rules of a run without a plan."""

BROKEN = {"status": "failed"}
"""A snapshot section that makes its trial fail."""

Json = dict[str, Any]


def a_trial(**fields: Any) -> TrialResult:
    """A trial result of run r, task t; read from JSON, like one from the topic."""
    content = {"type": "trial_result", "run_id": "r", "task_id": "t", **fields}
    event = EVENT.validate_json(json.dumps(content))
    assert isinstance(event, TrialResult)
    return event


def scored(**fields: Any) -> Scored:
    """A trial with these fields, scored."""
    return score_trial(a_trial(**fields), RULES)


def counts(failed: int | None = None, error: int | None = None, status: str = "ok") -> dict[str, Any]:
    """A tests section."""
    return {"status": status, "failed": failed, "error": error}


def ratio(agent: Any, oracle: Any) -> dict[str, Any]:
    return {"agent/nop": agent, "oracle/nop": oracle}


def score(**fields: Any) -> FormulaCodeScore:
    """Score of a trial that carries some of FormulaCode's sections."""
    result = score_trial(a_trial(**fields), RULES).formulacode
    assert result is not None
    return result


def payload(**fields: Any) -> dict[str, Any]:
    """Payload of a trial as it stands in the scored trial, checked against the published schema."""
    event = a_trial(**fields)
    scored = score_trial(event, RULES)
    assert scored.formulacode is not None
    made = task_payload(
        event,
        [event],
        scored.formulacode,
        success=scored.success,
        cost_usd=scored.cost_usd,
        trajectory_length=scored.trajectory_length,
    )
    FormulaCodePayload.model_validate(made, extra="forbid")
    return made


def per_million(price: Price | None) -> tuple[float, float]:
    assert price is not None
    return float(price.input * 10**6), float(price.output * 10**6)


def formulacode_numbers(
    sums: FormulaCodeSums, group: GroupState | None = None, agent: str = "a"
) -> dict[str, Any]:
    """What a summary says of an agent:model whose trials have these sums."""
    at = Moment(RunState("r", PriceTable.default()))
    of = Subject(at, GroupId(None, agent, "m"), group or GroupState())
    return computed(FORMULACODE, Measured(of, sums, NO_ERROR))


def formulacode_of(group: GroupState, agent: str) -> dict[str, Any]:
    """What a summary says of an agent:model with these trials, none of which is missing."""
    unmeasured = 0 if agent == "nop" else group.failures - group.formulacode.failures
    return formulacode_numbers(group.formulacode.plus(FormulaCodeSums(), unmeasured), group, agent)


def shown(key: str, names: str, events: Sequence[Event]) -> tuple[Any, ...]:
    """Fields of a summary by their paths (`names`, between blanks), the same in all orders of few events.

    More than four are folded forwards and backwards.
    """
    orders: Iterable[Sequence[Event]] = permutations(events) if len(events) <= 4 else (events, events[::-1])
    seen = []
    for order in orders:
        summary = summarised(order)[key]
        seen.append(tuple(_at(summary, name.split(".")) for name in names.split()))
    assert all(one == seen[0] for one in seen)
    return seen[0]


def _at(value: Any, path: list[str]) -> Any:
    return _at(value[path[0]], path[1:]) if path else value
