"""The two sides of a comparison: an agent's trials, or those of all but baselines."""

from __future__ import annotations

import pytest

from streamer.web.report import RunData, UnknownAgent, from_events, rows_of
from tests.report.reporting import NOW
from tests.support.events import a_trial, records


def a_run() -> RunData:
    agents = ("alpha", "beta", "nop")
    events = [a_trial(task_id=f"t{n}", agent=agent, model="m") for n in range(2) for agent in agents]
    data, _ = from_events(records(events), None, now=NOW)
    return data


def test_a_side_is_one_agent_or_all_but_baselines() -> None:
    assert {row.agent_model for row in rows_of(a_run(), "beta:m")} == {"beta:m"}
    assert {row.agent_model for row in rows_of(a_run(), None)} == {"alpha:m", "beta:m"}
    assert len(rows_of(a_run(), None)) == 4


def test_an_agent_that_the_run_does_not_have_is_answered_with_those_like_it() -> None:
    with pytest.raises(UnknownAgent, match=r"has no agent:model 'alhpa:m'\. Did you mean alpha:m"):
        rows_of(a_run(), "alhpa:m")
    assert "It has no results yet." in str(UnknownAgent("r", "a:m", []))
