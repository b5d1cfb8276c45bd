"""docs/semantics.md: its worked examples are what the code computes."""

from __future__ import annotations

import doctest
from typing import Any

from tests.conformance.ruling_examples import AGENT, RUN
from tests.house.citations import SEMANTICS
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_trials import published

Json = dict[str, Any]


def scored(event: Event) -> Json:
    """The scored trial that is published of one event."""
    (held,) = published(event).scored.values()
    return held


def agent(*events: Event) -> Json:
    """The summary of the agent:model that `trial()` belongs to."""
    return summarised(events)[f"agent_model run-1|{AGENT}"]


def tier(name: str, *events: Event) -> Json:
    """The pooled summary of a tier."""
    return summarised(events)[f"tier run-1|{name}"]


def run(*events: Event) -> Json:
    """The summary of the run."""
    return summarised(events)[RUN]


def test_the_worked_examples_are_what_the_code_computes() -> None:
    names = {"trial": a_trial, "plan": a_plan, "scored": scored, "agent": agent, "tier": tier, "run": run}
    done = doctest.testfile(str(SEMANTICS), module_relative=False, globs=names, encoding="utf-8")
    assert done.attempted >= 35
    assert done.failed == 0
