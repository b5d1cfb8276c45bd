"""A run broken down by a label of its trials."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding import slots
from streamer.folding.breakdowns import (
    BAND_POINTS,
    EndedTrials,
    JudgedScores,
    UnknownLabel,
    by_label,
    by_subtest,
    curves,
    evenly,
    keep_ended,
)
from streamer.folding.fold import Pipeline, fold_records
from streamer.folding.state import RunState, Scores
from streamer.schemas.wire import records_of_lines
from streamer.statistics.ability import JudgeError
from tests.folding.build import AGENT
from tests.golden.data import streams
from tests.golden.histories import HISTORIES, history
from tests.support.events import (
    Event,
    a_deletion,
    a_late_score,
    a_plan,
    a_retraction,
    a_start,
    a_trial,
    folded,
    records,
    summaries,
    summarised,
)
from tests.support.examples import any_of, examples


def broken_down(*events: Event, label: str = "language") -> dict[tuple[Any, Any], dict[str, Any]]:
    """What each value says of all agents and of each agent:model."""
    pipeline, result = folded(events)
    assert result.rejections == []
    bodies = by_label(pipeline.run("run-1").state, label)
    return {(body["value"], body["agent_model"]): body for body in bodies}


def labelled(task: str, language: str | None, **fields: Any) -> Event:
    return a_trial(task_id=task, labels=language and {"language": language, "x": "y"}, **fields)


EVENTS = [
    labelled("t1", "python", resolved=True, cost_usd=1.0, metrics={"reward": 0.5}),
    labelled("t2", "python", resolved=False, cost_usd=3.0),
    labelled("t3", "rust", resolved=True),
    labelled("t3", "rust", resolved=False, agent="other"),
    labelled("t4", None, resolved=False),
    labelled("t1", "python", resolved=True, agent="nop"),
]


def test_each_value_has_the_numbers_of_its_trials_and_they_sum_to_the_agent() -> None:
    """Baselines are not pooled, and trials without the label come last."""
    result = broken_down(*EVENTS)
    python, rust = result["python", "terminus:gpt-5"], result["rust", None]
    assert (python["trials"], python["accuracy"], python["mean_cost"]) == (2, 0.5, 2.0)
    assert python["metrics"]["reward"]["mean"] == 0.5
    assert (rust["trials"], rust["resolved"], rust["pass_at_k"]) == (2, 1, None)
    assert [*result][-1] == (None, "terminus:gpt-5")
    assert [result["python", agent]["trials"] for agent in ("nop:gpt-5", None)] == [1, 2]
    parts = [body for (_, who), body in result.items() if who == "terminus:gpt-5"]
    for name in ("trials", "resolved", "unresolved", "no_verdict"):
        assert sum(part[name] for part in parts) == summarised(EVENTS)[AGENT][name], name


def test_a_single_value_says_the_same_as_the_agent() -> None:
    events = [a_plan(judged=True), labelled("t1", "c", score=0.5, resolved=True), labelled("t2", "c")]
    body, agent = broken_down(*events)["c", "terminus:gpt-5"], summarised(events)[AGENT]
    own = {"type", "label", "value", "runs_planned", "provisional"}
    assert body.keys() - own - agent.keys() == set()
    same = body.keys() - own - {"statistics", "pass_at_k"}
    assert {k: body[k] for k in same} == {k: agent[k] for k in same}
    assert body["statistics"]["pass_rate"]["mean"] == agent["statistics"]["pass_rate"]["mean"]


def test_a_correction_takes_its_labels_along() -> None:
    before = labelled("t1", "python", revision=1)
    after = labelled("t1", "rust", revision=2)
    assert {value for value, _ in broken_down(before, after)} == {"rust"}
    kept = labelled("t2", "go")
    assert {value for value, _ in broken_down(before, kept, a_retraction(task_id="t1", revision=1))} == {"go"}


def test_an_unknown_label_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownLabel, match=r"no trial in run 'run-1' has a label 'colour'\. Labels: 'language', 'x'"
    ):
        broken_down(*EVENTS, label="colour")
    with pytest.raises(UnknownLabel, match="no labels at all"):
        broken_down(a_trial())


# -----------------------------------------------------------------------------
# Tiers broken down by subtest agree with the tiers.


TRIALS = st.lists(
    any_of(
        {"type": ["trial_result"], "run_id": ["r"], "task_id": "ab", "attempt": [1, 2], "revision": [0, 1, 2]}
        | {"agent": ["x", "y", "nop"], "tier": ["T0", "T1", None], "subtest": ["00", "01", None]}
        | {"resolved": [True, False, None], "score": [None, 0.25, 1.0], "cost_usd": [None, 0.1, 0.7]}
    ),
    min_size=1,
    max_size=25,
)

ADDED = ("trials", "resolved", "no_verdict", "superseded", "conflicts", "runs_completed")
NOT_OF_SUBTESTS = {"type", "run_id", "runs_planned", "provisional", "in_flight", "uncertainty", "subtest"}
NOT_OF_SUBTESTS |= {"digest", "epoch", "state_version", "last_event_at", "made_with", "degraded"}


def a_run(trials: list[dict[str, Any]]) -> tuple[RunState, dict[tuple[str, str | None], dict[str, Any]]]:
    """The run of these trials, and its tier summaries by tier and agent:model."""
    folding = fold_records(records_of_lines(map(orjson.dumps, trials)))
    tiers = [c.summary for c in folding.summaries() if c.kind == "tier" and c.summary]
    return folding.pipeline.run("r").state, {(tier["tier"], tier["agent_model"]): tier for tier in tiers}


@examples(60)
@given(TRIALS)
def test_counts_of_the_subtests_sum_to_the_tier(trials: list[dict[str, Any]]) -> None:
    run, tiers = a_run(trials)
    bodies = by_subtest(run)
    assert {(body["tier"], body["agent_model"]) for body in bodies} == tiers.keys()
    for place, tier in tiers.items():
        parts = [body for body in bodies if (body["tier"], body["agent_model"]) == place]
        assert len({part["subtest"] for part in parts}) == len(parts)
        for name in ADDED:
            assert sum(part[name] for part in parts) == tier[name], name


@examples(60)
@given(TRIALS)
def test_a_tier_with_one_subtest_says_the_same_as_that_subtest(trials: list[dict[str, Any]]) -> None:
    run, tiers = a_run([{**trial, "subtest": "00"} for trial in trials])
    for body in by_subtest(run):
        tier = tiers[(body["tier"], body["agent_model"])]
        shared = body.keys() - NOT_OF_SUBTESTS
        assert {k: body[k] for k in shared} == {k: tier[k] for k in shared}
        assert tier.keys() - NOT_OF_SUBTESTS == shared


@pytest.mark.parametrize(
    ("plan", "of_run", "of_agent"),
    [({}, None, None), ({"tasks": 3, "attempts": 2, "subtests": {"T1": 4}}, 12, 6)],
)
def test_runs_are_planned_per_subtest_only_where_the_plan_says_so(
    plan: dict[str, Any], of_run: int | None, of_agent: int | None
) -> None:
    """R26 plans 10 runs per tier, which says nothing of its subtests."""
    trials = [a_trial(run_id="r", tier="T1", subtest="01", agent=agent) for agent in ("x", "y", "nop")]
    run, _ = a_run([*trials, a_plan(run_id="r", **plan)])
    runs = {body["agent_model"]: body["runs_planned"] for body in by_subtest(run)}
    assert runs == dict.fromkeys(("x:gpt-5", "y:gpt-5", "nop:gpt-5"), of_agent) | {None: of_run}


# -----------------------------------------------------------------------------
# Learning curves: a bulk publish draws the run's own hours, and every curve ends where the board stands.


START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)
ORDER = [f"t{number:02}" for number in range(60)]


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def curves_of(events: list[Event], points: int = 60) -> dict[str, list[dict[str, Any]]]:
    """The points of each curve, by agent:model or tier."""
    pipeline, _ = folded(events)
    result = curves(pipeline.run("run-1").state, points)
    return {curve["tier"] or curve["agent_model"]: curve["points"] for curve in result}


def a_shuffled_run(done: int, **plan: Any) -> list[Event]:
    """Trials of 17 minutes each, the next one started when the one before has ended."""
    random = Random(3)
    declared = {"tasks": ORDER, "attempts": 1, "order": ORDER, "order_kind": "shuffled"} | plan
    events = [a_plan(**declared, agent_models=["terminus:gpt-5"], started_at=at(0))]
    for number, task in enumerate(ORDER[:done]):
        passed = random.random() < 0.6
        events.append(a_start(task_id=task, started_at=at(17 * number), position=number))
        events.append(a_trial(task_id=task, resolved=passed, finished_at=at(17 * (number + 1))))
    return events


def test_a_bulk_publish_of_a_finished_run_draws_the_hours_of_the_run_in_any_order() -> None:
    events = a_shuffled_run(60)
    [points] = curves_of(events).values()
    assert curves_of(Random(1).sample(events, len(events))) == {"terminus:gpt-5": points}
    assert (points[0]["at"], points[-1]["at"]) == ("2026-01-31T09:17:00Z", "2026-02-01T02:00:00Z")
    assert [point["trials"] for point in points] == list(range(1, 61))


def test_curves_read_each_event_once_whatever_the_points_and_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    event_of = slots.event_of

    def counted(raw: bytes) -> Any:
        read.append(raw)
        return event_of(raw)

    monkeypatch.setattr(slots, "event_of", counted)
    monkeypatch.setattr(Scores, "of", lambda *_: pytest.fail("a trial is read and scored a second time"))
    [points] = curves_of(a_shuffled_run(60)).values()
    assert sum(point["final"] is not None for point in points) == BAND_POINTS
    assert len(read) == len(set(read)) == 60


def test_trials_that_are_kept_while_a_run_is_folded_give_the_same_curves() -> None:
    number = 0
    histories = ((f"history {seed}", history(seed)) for seed in range(0, HISTORIES, 3))
    shuffled_run = ("shuffled", a_shuffled_run(60))  # the histories correct, retry, supersede and withdraw
    for name, events in chain(streams(), histories, [shuffled_run]):
        runs: dict[str, EndedTrials] = {}

        def after(pipeline: Pipeline, *_: object, runs: dict[str, EndedTrials] = runs) -> None:
            for run_id in pipeline.runs():
                keep_ended(runs.setdefault(run_id, {}), pipeline.run(run_id).state)

        shuffled = Random(7).sample(events, len(events))
        folding = fold_records(records(shuffled), step=50, after=after, takes_changes=True)
        whole = fold_records(records(shuffled)).pipeline
        for run_id in folding.runs():
            run = folding.pipeline.run(run_id).state
            assert curves(run, 60, runs[run_id]) == curves(whole.run(run_id).state), (name, run_id)
            number += len(runs[run_id])
    assert number > 1_000


def test_a_curve_ends_with_what_the_board_says_however_few_its_points() -> None:
    random = Random(5)
    events = [
        a_trial(task_id=f"t{number}", agent=f"a{number % 3}", tier=f"T{number % 2}", finished_at=at(number))
        | {"resolved": random.random() < 0.5, "cost_usd": random.random(), "score": random.random()}
        for number in range(90)
    ]
    stored = [body for key, body in summarised(events).items() if key.split()[0] in ("agent_model", "tier")]
    boards = {body.get("agent_model") or body["tier"]: body for body in stored if body.get("tier") is None}
    boards |= {body["tier"]: body for body in stored if body["agent_model"] is None}
    result = curves_of(events, points=7)
    assert set(result) == {"a0:gpt-5", "a1:gpt-5", "a2:gpt-5", "T0", "T1"}
    for label, points in result.items():
        assert len(points) == 7
        last, board = points[-1], boards[label]
        assert last["pass_rate"] == board["statistics"]["pass_rate"]["mean"]
        assert last["composite_score"] == board["statistics"]["composite_score"]["median"]
        names = ("trials", "accuracy", "total_cost", "mean_cost", "cost_of_pass")
        assert {name: last[name] for name in names} == {name: board[name] for name in names}


def four_at_a_time(count: int, **plan: Any) -> list[tuple[float, Event]]:
    """When each event of a shuffled run of four workers came, in minutes; failures take longer."""
    random = Random(7)
    declared = {"tasks": ORDER, "attempts": 1, "order_kind": "shuffled", "concurrency": 4} | plan
    came = [(0.0, a_plan(**declared, agent_models=["terminus:gpt-5"], started_at=at(0)))]
    free = [0.0] * 4
    for number, task in enumerate(ORDER[:count]):
        began = free.pop(0)
        passed = random.random() < 0.5
        ended = round(began + random.uniform(5, 20) + (0 if passed else 25), 2)
        came.append((began, a_start(task_id=task, started_at=at(began), position=number)))
        came.append((ended, a_trial(task_id=task, resolved=passed, finished_at=at(ended))))
        free = sorted([*free, ended])
    return sorted(came, key=lambda pair: pair[0])


def without_starts(event: Event) -> Event | None:
    return None if event["type"] == "trial_started" else event


def without_positions(event: Event) -> Event | None:
    return {name: value for name, value in event.items() if name != "position"}


@pytest.mark.parametrize(
    ("plan", "sent"),
    [
        ({"order": ORDER}, dict),
        ({"order": ORDER}, without_starts),
        ({"concurrency": None}, dict),
        ({}, without_positions),
        ({}, without_starts),
        ({"order_kind": "chosen", "order": ORDER}, dict),
        ({"tasks": None}, dict),
        ({"task_difficulty": {task: number / 60 for number, task in enumerate(ORDER)}, "order": ORDER}, dict),
    ],
    ids=[
        "order",
        "no starts",
        "positions",
        "concurrency",
        "concurrency alone",
        "chosen",
        "no plan",
        "difficulty",
    ],
)
@pytest.mark.parametrize("count", [45, 60])
def test_every_band_is_what_the_board_said_at_that_moment(
    plan: dict[str, Any], sent: Callable[[Event], Event | None], count: int
) -> None:
    came = [(time, event) for time, whole in four_at_a_time(count, **plan) if (event := sent(whole))]
    [points] = curves_of([event for _, event in came]).values()
    for size in evenly(count, BAND_POINTS):
        point = points[size - 1]
        moment = datetime.fromisoformat(point["at"])
        then, _ = folded([event for time, event in came if START + timedelta(minutes=time) <= moment])
        [board] = [s for s in summaries(then).values() if s["type"] == "agent_model_summary"]
        final = board["uncertainty"]["final"]
        assert board["trials"] == point["trials"] == size
        assert point["final"] == (final and {"low": final["low"], "high": final["high"]}), size


def test_one_wrong_clock_does_not_stretch_the_axis_and_its_trial_still_counts() -> None:
    events = [a_trial(task_id=f"t{number}", finished_at=at(number)) for number in range(60)]
    events.append(a_trial(task_id="wrong", resolved=False, finished_at="2003-01-01T00:00:00Z"))
    [points] = curves_of(events, points=100).values()
    assert {point["at"][:10] for point in points} == {"2026-01-31"}
    assert (points[-1]["trials"], points[-1]["accuracy"]) == (61, 60 / 61)


def test_the_time_of_a_copied_file_is_not_used_where_trials_have_times_of_their_own() -> None:
    years_later = 1_890_000_000_000_000_000
    events = [a_trial(task_id=f"t{n}", finished_at=at(n), revision=years_later) for n in range(20)]
    events.append(a_trial(task_id="timeless", revision=years_later))
    [points] = curves_of(events).values()
    assert points[-1]["at"] == "2026-01-31T09:19:00Z"


TIMELESS = [a_trial(task_id=f"t{n}", revision=10**18 + n) for n in range(3)]
ENDS_LATER = a_trial(task_id="t1", finished_at=at(1))


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        (TIMELESS, [None, None, None]),
        ([a_trial(started_at=at(0), duration_seconds=90.0)], ["2026-01-31T09:01:30Z"]),
        *(
            ([a_trial(started_at=at(0), duration_seconds=s), ENDS_LATER], ["2026-01-31T09:01:00Z"] * 2)
            for s in (3e11, 1e15, 6e9, 1e300)
        ),
    ],
    ids=["no time at all", "a start and a duration", *map(str, (3e11, 1e15, 6e9, 1e300))],
)
def test_a_trial_whose_end_is_unknown_still_counts(events: list[Event], ends: list[str | None]) -> None:
    """A duration beyond all years leaves it unknown too."""
    [points] = curves_of(events).values()
    assert [(point["at"], point["trials"]) for point in points] == [(end, n) for n, end in enumerate(ends, 1)]


def test_a_correction_moves_the_whole_curve() -> None:
    wrong = a_trial(task_id="t1", resolved=False, finished_at=at(1))
    corrected = wrong | {"resolved": True, "revision": 5}
    [points] = curves_of([wrong, a_trial(task_id="t2", finished_at=at(2)), corrected]).values()
    assert [point["pass_rate"] for point in points] == [1.0, 1.0]


# -----------------------------------------------------------------------------
# Every score that judges gave a trial.


def judged(events: list[Event]) -> dict[str, dict[str, JudgeError]]:
    scores = JudgedScores()
    folding = fold_records(records(events), after=scores.after, step=3)
    return scores.errors(folding.pipeline.run("run-1").state)


SCORED = [
    a_trial(task_id="a", revision=7),
    a_late_score(task_id="a", revision=8, score=0.5),
    a_late_score(task_id="a", revision=9, score=0.25, of_revision=7),
    a_trial(task_id="a", attempt=2, score=0.75),
    a_trial(task_id="b", score=1.0),
    a_trial(task_id="b", attempt=2, score=1.0),
]
"""Their mean is 0.75. The sums of both tasks are off 1.5 by 0.5, so the square of the error is
2 (0.25 + 0.25) / 4^2, which is 1 / 16. Chance at task a is 2 var(0.25, 0.75) / 4^2: a quarter of it. The
judge is 4 var(0.5, 0.25) / 4^2: an eighth."""

NOT_OF_THE_RESULT = [
    a_trial(task_id="a", revision=6, score=0.0),
    a_late_score(task_id="a", revision=9, score=0.0, of_revision=6),
    a_late_score(task_id="a", revision=8, score=8.5),
    a_late_score(task_id="a", revision=9, metrics={"style": 0.0}),
    a_late_score(task_id="a", revision=5, score=0.0),
    a_retraction(task_id="a", revision=5),
    a_late_score(task_id="b", revision=3, score=0.0, run_id="other"),
    a_late_score(task_id="b", attempt=3, revision=3, score=0.0),
]


def test_the_judge_s_part_is_worked_out_from_every_score_of_the_result_that_stands() -> None:
    assert judged(SCORED) == {"terminus:gpt-5": {"impl_rate": JudgeError(0.25, 0.25, 0.125, 1, 4)}}


@examples(60)
@given(order=st.permutations([*SCORED, *SCORED[:3], *NOT_OF_THE_RESULT]))
def test_order_duplicates_and_what_was_said_of_other_results_change_nothing(order: list[Event]) -> None:
    [of_agent] = judged(order).values()
    assert of_agent == {"impl_rate": JudgeError(0.25, 0.25, 0.125, 1, 4)}


def test_scores_that_a_deletion_took_are_none() -> None:
    again = [
        event | {"revision": event.get("revision", 0) + 20} for event in SCORED if "of_revision" not in event
    ]
    [of_agent] = judged([*SCORED, a_deletion(revision=10), *again]).values()
    assert of_agent["impl_rate"].judge is None
    assert (of_agent["impl_rate"].judged_again, of_agent["impl_rate"].judged) == (0, 4)


def test_verdicts_count_where_a_judge_decides_whether_a_trial_passed() -> None:
    """Tests of a trial, and a verdict of its own, stand whatever a judge says later (R20, R32)."""
    results = [a_trial(task_id=f"t{n}", attempt=k, resolved=None) for n in range(3) for k in (1, 2)]
    results[0] |= {"resolved": True}
    results[1] |= {"tests": {"status": "ok", "passed": 3}}
    slots = [{name: result[name] for name in ("task_id", "attempt")} for result in results]
    late = [
        a_late_score(**slot, revision=said, resolved=verdict == "+")
        for slot, verdicts in zip(slots, ("---", "---", "+++", "---", "+++", "--+"), strict=True)
        for said, verdict in enumerate(verdicts)
    ]
    # Passes 1 1, 1 0, 1 1: the sums are off 5/3 by 1/3, 2/3, 1/3, so the square of the error is
    # 3/2 (1 + 4 + 1) / 9 / 6^2 = 1/36. Chance is 2 var(1, 0) / 6^2, all of it; the judge, who decides on four
    # trials, 4 mean(0, 0, 0, 1/3) / 6^2
    [of_agent] = judged([*results, *late]).values()
    assert of_agent == {"pass_rate": JudgeError(1 / 6, 1.0, pytest.approx(1 / 3), 4, 4)}
