"""Trials: read from the log once, then on; pages, filters, payloads, comparisons; bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.views.compare import compare, worse_by
from streamer.views.models import TrialRow
from streamer.views.trial_rows import outcome_of
from streamer.web import trial_log
from streamer.web.models import TrialsQuery
from streamer.web.trial_list import page_of
from streamer.web.trial_log import TooManyTrials, TrialLog, TrialMoved
from tests.support.events import a_retraction, a_trial
from tests.web.feeding import Feed

PAIR = (("r", None), ("r", "b:m"))


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def logging_feed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(logged: Settings, clock: Clock) -> TrialLog:
    return TrialLog(logged, clock)


def a_row(**fields: Any) -> TrialRow:
    """A passed trial."""
    nulls = dict.fromkeys(TrialRow.model_fields)
    basic = {"id": "0" * 24, "shard": "", "task_id": "t", "attempt": 1, "agent_model": "a:m"}
    return TrialRow(**nulls | basic | {"success": True, "resolved": True, "outcome": "passed"} | fields)


async def test_only_what_is_new_is_read_again_and_not_all_the_time(
    logging_feed: Feed, log: TrialLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    read = trial_log.read_batches

    def counted(*args: Any, **kwargs: Any) -> Any:
        starts.append(kwargs["start"])
        return read(*args, **kwargs)

    monkeypatch.setattr(trial_log, "read_batches", counted)
    await logging_feed.take([a_trial(task_id="task-1"), a_trial(task_id="task-2")])
    assert len(await log.trials("run-1")) == 2
    await logging_feed.take([a_trial(task_id="task-3", resolved=False)])
    assert len(await log.trials("run-1")) == 2
    clock.now += trial_log.FRESH_SECONDS
    found = list((await log.trials("run-1")).values())
    assert [trial.row.task_id for trial in found] == ["task-1", "task-2", "task-3"]
    assert starts == [0, 2]


async def test_a_correction_replaces_and_a_retraction_removes(
    logging_feed: Feed, log: TrialLog, clock: Clock
) -> None:
    await logging_feed.take([a_trial(resolved=False), a_trial(task_id="task-2")])
    await log.trials("run-1")
    await logging_feed.take([a_trial(revision=1), a_retraction(task_id="task-2", revision=5)])
    clock.now += trial_log.FRESH_SECONDS
    [trial] = (await log.trials("run-1")).values()
    assert (trial.row.task_id, trial.row.outcome) == ("task-1", "passed")


async def test_the_payload_is_what_was_published(logging_feed: Feed, log: TrialLog) -> None:
    await logging_feed.take([a_trial(task_id=f"task-{number}", cost_usd=number) for number in range(9)])
    held = await log.trials("run-1")
    for trial_id, trial in held.items():
        payload = await log.payload("run-1", trial_id)
        assert payload is not None
        assert canonical_json({"task_id": trial.row.task_id})[1:-1] in payload
    assert await log.payload("run-1", "nothing") is None


async def test_a_payload_that_moved_meanwhile_is_found_at_the_second_attempt(
    logging_feed: Feed, log: TrialLog
) -> None:
    await logging_feed.take([a_trial(), a_trial(task_id="task-2")])
    held = await log.trials("run-1")
    (first, stale), (_, other) = held.items()
    held[first] = trial_log.HeldTrial(stale.row, stale.key, other.offset)
    with pytest.raises(TrialMoved):
        await log.payload("run-1", first)


async def test_memory_is_bounded_the_run_asked_for_last_stays(
    logging_feed: Feed, log: TrialLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "MAX_TRIALS", 10)
    for run in ("a", "b", "c"):
        await logging_feed.take(a_trial(run_id=run, task_id=f"t{number}") for number in range(4))
    for run in ("a", "b", "c"):
        assert len(await log.trials(run)) == 4
    assert set(log._runs) == {"b", "c"}
    await logging_feed.take(a_trial(run_id="c", task_id=f"u{number}") for number in range(7))
    clock.now += trial_log.FRESH_SECONDS
    with pytest.raises(TooManyTrials, match="query trials"):
        await log.trials("c")
    assert set(log._runs) == {"b"}


ROWS = [
    a_row(id="a" * 24, task_id="build", cost_usd=2.0, tier="T0"),
    a_row(id="b" * 24, task_id="test", agent_model="b:m", success=False, outcome="failed", tier="T1"),
    a_row(
        id="c" * 24, task_id="<b>", cost_usd=1.0, failure_mode="Timeout", outcome="fell_back", success=False
    ),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, "cba"),
        ({"descending": True}, "abc"),
        ({"sort": "cost_usd"}, "cab"),
        ({"sort": "cost_usd", "descending": True}, "acb"),
        ({"sort": "task"}, "cab"),
        ({"outcome": "failed"}, "b"),
        ({"agent": "a"}, "ca"),
        ({"agent": "b:m"}, "b"),
        ({"tier": "T0"}, "a"),
        ({"task": "build"}, "a"),
        ({"search": "TIMEOUT"}, "c"),
        ({"search": "<B>"}, "c"),
        ({"search": ""}, "cba"),
        ({"offset": 1, "limit": 1}, "b"),
        ({"offset": 9}, ""),
    ],
)
def test_a_page_holds_what_was_asked_for_in_its_order(query: dict[str, Any], found: str) -> None:
    page = page_of(ROWS, TrialsQuery(**query))
    assert "".join(row.id[0] for row in page.trials) == found
    assert page.total == 3


def test_sides_are_compared_on_the_tasks_of_the_tiers_that_both_have_done() -> None:
    first = [
        a_row(task_id="x", tier="T0", cost_usd=1.0),
        a_row(task_id="x", tier="T0", attempt=2, success=False, cost_usd=3.0),
        a_row(task_id="y", tier="T0", cost_usd=9.0),
        a_row(task_id="z", tier="T0"),
    ]
    second = [
        a_row(task_id="x", tier="T0", cost_usd=1.0),
        a_row(task_id="y", tier="T1"),
        a_row(task_id="z", tier="T0", success=False, cost_usd=5.0),
        a_row(task_id="w", tier="T0"),
    ]
    found = compare(first, second, PAIR, 0, 10)
    assert (found.tasks, found.a_better, found.b_better, found.equal) == (2, 1, 1, 0)
    assert (found.a.only_here, found.b.only_here) == (1, 2)
    assert [(pair.task_id, pair.a.pass_rate, pair.b.pass_rate) for pair in found.pairs] == [
        ("z", 1.0, 0.0),
        ("x", 0.5, 1.0),
    ]
    assert (found.a.pass_rate, found.b.pass_rate) == (0.75, 0.5)  # means of (1, 1/2) and (0, 1)
    assert (found.a.cost_usd, found.b.cost_usd) == (2.0, 1.0)  # of x alone: z has no known cost on one side
    assert (found.a.trials, found.b.trials) == (3, 2)


def test_a_task_is_passed_by_a_side_that_succeeds_in_more_than_half_of_its_trials() -> None:
    halves = [a_row(task_id="x", success=True), a_row(task_id="x", success=False, attempt=2)]
    both = compare([a_row(task_id="x")], [*halves, a_row(task_id="x", attempt=3)], PAIR, 0, 10)
    assert (both.both_passed, both.only_a, both.only_b, both.neither) == (1, 0, 0, 0)
    half = compare([a_row(task_id="x")], halves, PAIR, 0, 10)
    assert (half.both_passed, half.only_a, half.only_b, half.neither) == (0, 1, 0, 0)


def test_a_difference_is_over_the_tasks_where_both_know_the_metric_and_knows_what_is_better() -> None:
    first = [a_row(task_id=f"t{n}", cost_usd=1.0, task_speedup=2.0) for n in range(4)]
    second = [a_row(task_id=f"t{n}", cost_usd=1.5, success=n > 0) for n in range(4)]
    second[3] = a_row(task_id="t3", cost_usd=0.5, task_speedup=1.5)
    found = compare(first, second, PAIR, 0, 10).differences
    cost, speedup, passes = found["cost_usd"], found["task_speedup"], found["pass_rate"]
    assert (cost.tasks, cost.mean, cost.a_better, cost.b_better) == (4, 0.25, 3, 1)
    assert (speedup.tasks, speedup.mean, speedup.a_better, speedup.p_value) == (1, -0.5, 1, 1.0)
    assert (passes.mean, passes.a_better, passes.b_better, passes.equal) == (-0.25, 1, 0, 3)
    assert (worse_by(cost), worse_by(speedup), worse_by(passes)) == (0.25, 0.5, 0.25)
    assert worse_by(found["agent_advantage"]) is None


def test_with_nothing_in_common_every_mean_is_unknown() -> None:
    found = compare([a_row(task_id="x")], [a_row(task_id="y")], (("r", None), ("s", None)), 0, 10)
    assert (found.tasks, found.pairs, found.a.pass_rate, found.b.cost_usd) == (0, [], None, None)
    assert (found.a.only_here, found.b.only_here) == (1, 1)


def test_a_trial_that_fell_back_has_not_passed() -> None:
    trial = {"success": True, "resolved": True, "formulacode": {"fallback_to_baseline": True}}
    assert outcome_of(trial) == "fell_back"
    assert outcome_of(trial | {"formulacode": None}) == "passed"
    assert outcome_of({"success": False, "resolved": None, "formulacode": None}) == "no_verdict"
    assert outcome_of({"success": False, "resolved": False, "formulacode": None}) == "failed"
