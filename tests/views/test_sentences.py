"""Sentences that misled: what each surface said of an input before, and what it says now (inference, R19)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
import pytest
from click.testing import CliRunner

from streamer.terminal import cli

Event = dict[str, Any]


class Case(NamedTuple):
    """One misleading input.

    Attributes:
        events: of one run; ids and types are filled in.
        command: what reads them.
        before: what was said, and was not true.
        now: what is said in its place.
    """

    events: list[Event]
    command: list[str]
    before: str
    now: str


def trials(count: int, passes: int, **fields: Any) -> list[Event]:
    return [{"task_id": f"t{at}", "resolved": at < passes, **fields} for at in range(count)]


def plan(**fields: Any) -> Event:
    return {"type": "run_started", **fields}


def scored(at: int) -> Event:
    return {"type": "trial_scored", "task_id": f"t{at}", "score": 0.2}


ENDED: Event = {"type": "run_finished"}

TIERS = [{**one, "tier": tier} for tier in ("T0", "T1") for one in trials(10, 4)]

FOLD = ["fold", "-"]

CASES = {
    "a tiered run without a plan, all assumed trials in": Case(
        TIERS, FOLD, "has not said how many trials it plans", "the run has declared no complete plan"
    ),
    "a plan that is still growing": Case(
        [plan(tasks=20, attempts=1, plan_complete=False), *trials(5, 2)],
        FOLD,
        "has not said how many trials it plans",
        "the run has declared no complete plan",
    ),
    "one agent in two tiers": Case(TIERS, FOLD, "pass@k by agent only", "pass@k within tiers"),
    "numbers without verdicts beside verdicts": Case(
        [*trials(8, 8), *({"task_id": f"n{at}", "metrics": {"x": 1.0}} for at in range(11)),
         *trials(1, 0, agent="b")],
        FOLD,
        "all trials",
        "9 with a verdict resolved: all agents",
    ),
    "an end that is called what the state says": Case(
        [plan(tasks=2, attempts=1), *trials(2, 1), {**ENDED, "status": "completed"}],
        FOLD,
        "complete (completed)",
        "· complete",
    ),
    "a run that ended short of its plan, in an undeclared order": Case(
        [plan(tasks=9, attempts=1), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "so far",
        "40.0 % incomplete",
    ),
    "a run that ended short of its plan: its footnote": Case(
        [plan(tasks=9, attempts=1), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "results are still missing",
        "incomplete: the run ended without all planned trials",
    ),
    "one judged trial of ten, after the end": Case(
        [plan(tasks=10, attempts=1), *trials(10, 6), scored(0), ENDED],
        FOLD,
        " F composite",
        "F (1 of 10 judged)",
    ),
    "a complete run that waits for all its scores": Case(
        [plan(tasks=10, attempts=1, judged=True), *trials(10, 6), ENDED],
        FOLD,
        "a:m 60.0 % F",
        "A judge has scored 0 of 10 trials",
    ),
    "a pass rate without tiers and judge": Case(trials(10, 3), FOLD, "F", "30.0 %"),
    "bounds of a run that was broken off": Case(
        [plan(tasks=9, attempts=1, order_kind="chosen"), *trials(5, 2), {**ENDED, "status": "cancelled"}],
        FOLD,
        "the final pass rate cannot leave this range",
        "once all planned trials have results, the pass rate lies in this range",
    ),
}  # fmt: skip


def ndjson(events: Iterable[Event]) -> bytes:
    slot = {"type": "trial_result", "run_id": "r", "agent": "a", "model": "m"}
    return b"\n".join(orjson.dumps(slot | event) for event in events)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_said_of_a_misleading_input_is_no_longer_said(case: Case) -> None:
    output = CliRunner().invoke(cli, case.command, input=ndjson(case.events), env={"COLUMNS": "300"})
    assert output.exit_code == 0, output.output
    said = " ".join(output.output.split())
    assert case.before not in said
    assert case.now in said
