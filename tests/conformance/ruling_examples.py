"""Short ways to the numbers that the tests by ruling number look at."""

from __future__ import annotations

from typing import Any

from tests.support.events import Event, a_trial, summarised
from tests.support.formulacode_trials import a_suite

Json = dict[str, Any]
AGENT, ORACLE = "terminus:gpt-5", "oracle:oracle"
RUN = "run run-1"
FINISHED = {"type": "run_finished", "run_id": "run-1"}
TIMEOUT: Json = {"resolved": None, "failure_mode": "agent_timeout"}
OF_ORACLE = {"m.f": {"agent/nop": 1.5, "oracle/nop": 1.5}}
OF_AGENT = {"m.f": {"agent/nop": 1.2, "oracle/nop": 1.5}}


def passes(count: int, of: int, **fields: Any) -> list[Event]:
    return [a_trial(task_id=f"t{n}", resolved=n < count, **fields) for n in range(of)]


def summary(*events: Event, key: str = f"agent_model run-1|{AGENT}") -> Json:
    """A summary by its kind and topic key; the agent's unless said."""
    stored: Json = summarised(events)[key]
    return stored


def numbers(*events: Event, agent_model: str = AGENT) -> Json:
    stored: Json = summary(*events, key=f"agent_model run-1|{agent_model}")["formulacode"]
    return stored


def the_oracle(**fields: Any) -> Event:
    """A sub-trial of the oracle, which measured 1.5."""
    known = {"agent": "oracle", "model": "oracle", "agent_index": 2, "tests": a_suite(0)}
    return a_trial(**known | {"benchmarks": OF_ORACLE} | fields)


def the_agent(**fields: Any) -> Event:
    """A sub-trial of the agent, which measured 1.2 beside the oracle's 1.5."""
    return a_trial(**{"agent_index": 3, "tests": a_suite(0), "benchmarks": OF_AGENT} | fields)
