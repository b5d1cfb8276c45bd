"""No events make a summary that cannot be published: plans, failure modes, labels, agents, tiers."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from streamer.folding.breakdowns import by_subtest
from streamer.folding.fold import Pipeline
from streamer.folding.summaries import MAX_FAILURE_MODES, MAX_SUMMARY_BYTES, OTHER
from streamer.schemas.base import MAX_COUNT, MAX_TASKS
from streamer.schemas.summaries import SUMMARY
from tests.support.events import Event, a_plan, a_retraction, a_trial, folded, records

AGENT, RUN = "run-1|terminus:gpt-5", "run-1"


def summaries_of(pipeline: Pipeline, run_id: str = "run-1") -> dict[str, dict[str, Any]]:
    """Every summary by key; asserts that each is one and is small enough."""
    found = {}
    for change in pipeline.run(run_id).summaries():
        assert change.value is not None
        assert len(change.value) < MAX_SUMMARY_BYTES
        SUMMARY.validate_json(change.value)
        found[change.key] = orjson.loads(change.value)
    return found


def distinct(number: int, characters: int = 128) -> str:
    """A name of so many characters, each of which takes 2 bytes in JSON."""
    return f"{number:05d}".ljust(characters, '"')


def test_a_plan_of_2_to_the_53_tasks_is_a_rejection_and_its_run_goes_on() -> None:
    pipeline, result = folded([a_plan(tasks=2**53, attempts=4096), a_trial()])
    assert [json.loads(item.value)["code"] for item in result.rejections] == ["invalid_field"]
    assert summaries_of(pipeline)[RUN]["progress"]["planned"] is None


def test_the_greatest_plan_says_how_many_trials_it_has() -> None:
    tiers = [f"T{n}" for n in range(100)]
    plan = a_plan(tasks=MAX_TASKS, attempts=10_000, tiers=tiers, subtests=dict.fromkeys(tiers, 1_000))
    pipeline, result = folded([plan, a_trial(tier="T0")])
    assert not result.rejections
    assert summaries_of(pipeline)[AGENT]["runs_planned"] == MAX_TASKS * 10_000 * 100 * 1_000


def test_a_plan_whose_product_exceeds_2_to_the_53_is_held_to_it() -> None:
    """The tiers and agents that were seen are factors, and have no limit."""
    agents = [f"a{n}:m" for n in range(5_000)]
    tiers = [f"T{n}" for n in range(100)]
    plan = a_plan(tasks=MAX_TASKS, attempts=10_000, tiers=tiers, subtests=dict.fromkeys(tiers, 1_000))
    pipeline, result = folded([plan, a_plan(revision=1, agent_models=agents), a_trial(tier="T0")])
    assert not result.rejections
    summary = summaries_of(pipeline)
    assert summary[RUN]["progress"]["planned"] == MAX_COUNT
    assert {body["runs_planned"] for key, body in summary.items() if "|T0" in key} <= {MAX_COUNT, 10**13}


def test_a_failure_mode_of_2_kb_is_a_rejection_with_its_bytes() -> None:
    event = a_trial(failure_mode="x" * 2048)
    pipeline, result = folded([event, a_trial(task_id="t2", failure_mode="y" * 128)])
    [rejected] = [json.loads(item.value) for item in result.rejections]
    assert (rejected["code"], rejected["source_value_bytes"]) == ("invalid_field", len(json.dumps(event)))
    assert rejected["source_value_base64"]
    assert summaries_of(pipeline)[AGENT]["failure_modes"] == {"y" * 128: 1}


def many_failure_modes() -> list[Event]:
    """3,500 trials: mode n of 0 to 149 ends n // 10 + 1 trials; the rest have a mode of their own."""
    modes = [distinct(n) for n in range(150) for _ in range(n // 10 + 1)]
    modes += [distinct(n) for n in range(1_000, 1_000 + 3_500 - len(modes))]
    return [a_trial(task_id=f"t{n}", failure_mode=mode) for n, mode in enumerate(modes)]


def test_a_summary_keeps_the_100_most_frequent_failure_modes_and_counts_the_rest_as_other() -> None:
    pipeline, _ = folded(many_failure_modes())
    for key in (AGENT, RUN):
        modes = summaries_of(pipeline)[key]["failure_modes"]
        assert len(modes) == MAX_FAILURE_MODES + 1
        assert sum(modes.values()) == 3_500
        # 11 to 15 trials each: modes 100 to 149; 6 to 10 trials each: modes 50 to 99
        assert modes.keys() == {distinct(n) for n in range(50, 150)} | {OTHER}


def test_of_equally_frequent_failure_modes_the_first_by_name_are_kept() -> None:
    names = [f"mode-{n:03d}" for n in range(150)]
    random.Random(3).shuffle(names)
    pipeline, _ = folded([a_trial(task_id=name, failure_mode=name) for name in names])
    kept = summaries_of(pipeline)[RUN]["failure_modes"]
    assert kept == {f"mode-{n:03d}": 1 for n in range(100)} | {OTHER: 50}


def test_trials_that_are_taken_back_bring_back_the_failure_modes_that_were_counted_as_other() -> None:
    events = many_failure_modes()
    gone = [a_retraction(task_id=event["task_id"]) for event in events[60:3_400]]
    pipeline, _ = folded(events)
    pipeline.fold(records(gone))
    alone, _ = folded([*events[:60], *events[3_400:]])
    left, expected = summaries_of(pipeline), summaries_of(alone)
    assert left[AGENT]["failure_modes"] == expected[AGENT]["failure_modes"]
    assert left[AGENT]["digest"] == expected[AGENT]["digest"]
    assert left[RUN]["digest"] == expected[RUN]["digest"]


def test_a_failure_mode_called_other_is_counted_with_the_rest() -> None:
    modes = [OTHER] * 3 + [f"m{n:03d}" for n in range(150)]
    pipeline, _ = folded([a_trial(task_id=f"t{n}", failure_mode=mode) for n, mode in enumerate(modes)])
    kept = summaries_of(pipeline)[RUN]["failure_modes"]
    assert (len(kept), kept[OTHER], sum(kept.values())) == (100, 3 + 51, 153)


def test_up_to_100_failure_modes_are_as_they_are() -> None:
    pipeline, _ = folded([a_trial(task_id=f"t{n}", failure_mode=f"m{n}") for n in range(100)])
    assert summaries_of(pipeline)[RUN]["failure_modes"] == {f"m{n}": 1 for n in range(100)}


def test_1_200_agents_in_a_run_all_have_their_cost() -> None:
    names = [f"agent-{n:04d}-with-a-name-of-an-ordinary-length" for n in range(1_200)]
    models = "openrouter/some-provider/some-model-of-2026-preview"
    trials = [a_trial(agent=name, model=models, cost_usd=n + 0.5) for n, name in enumerate(names)]
    pipeline, result = folded(trials)
    assert result.counted == 1_200
    run = summaries_of(pipeline)[RUN]
    costs = {f"{name}:{models}": n + 0.5 for n, name in enumerate(names)}
    assert (run["agent_models"], run["cost_by_agent_model"]) == (1_200, costs)


def test_of_7_000_agents_with_long_names_the_dearest_have_entries_and_the_rest_a_sum() -> None:
    trials = [a_trial(agent=distinct(n), model=distinct(n), cost_usd=n * 0.1) for n in range(7_000)]
    pipeline, result = folded(trials)
    assert result.counted == 7_000
    run = summaries_of(pipeline)[RUN]
    costs = run["cost_by_agent_model"]
    named = costs.keys() - {OTHER}
    lowest = 7_000 - len(named)
    assert len(named) > 200
    assert named == {f"{distinct(n)}:{distinct(n)}" for n in range(lowest, 7_000)}
    assert costs[OTHER] == pytest.approx(sum(n * 0.1 for n in range(lowest)))
    assert run["agent_models"] == 7_000


@pytest.mark.parametrize("costs", [None, 1.0])
def test_agents_without_a_known_cost_come_after_those_with_one(costs: float | None) -> None:
    known = [a_trial(agent="z", cost_usd=0.0)]
    unknown = [a_trial(agent=distinct(n), model=distinct(n), cost_usd=costs) for n in range(1_000)]
    pipeline, _ = folded([*known, *unknown])
    found = summaries_of(pipeline)[RUN]["cost_by_agent_model"]
    assert OTHER in found
    assert (found[OTHER] is None) == (costs is None)


def test_labels_of_many_plans_stay_within_the_summary() -> None:
    plans = [
        a_plan(revision=n, labels={distinct(100 * n + k): '"' * 512 for k in range(100)}) for n in range(20)
    ]
    pipeline, result = folded([*plans, a_trial()])
    assert not result.rejections
    labels = summaries_of(pipeline)[RUN]["labels"]
    assert list(labels) == [distinct(n) for n in range(len(labels))]
    assert 50 < len(labels) < 100


def test_the_100_labels_of_one_ordinary_plan_are_all_there() -> None:
    labels = {f"key-{n}".ljust(128, "k"): "v" * 512 for n in range(100)}
    pipeline, _ = folded([a_plan(labels=labels)])
    assert summaries_of(pipeline)[RUN]["labels"] == labels


def test_a_run_with_everything_at_its_limit_has_summaries_that_can_be_published() -> None:
    wide = "\N{MUSICAL SYMBOL G CLEF}"
    tiers = [f"{n:03d}".ljust(128, wide) for n in range(300)]
    plan = a_plan(
        **dict.fromkeys(("project", "benchmark_version", "display_name"), "\x01" * 1024),
        **dict.fromkeys(("harness",), "\x01" * 128),
        labels={distinct(n): "\x01" * 512 for n in range(100)},
        benchmark=wide * 128,
        baseline_tier=tiers[0],
    )
    end = {"type": "run_finished", "run_id": "run-1", "status": "\x01" * 1024}
    trials = [
        a_trial(
            task_id=f"t{n}",
            agent=f"{n:04d}".ljust(128, wide),
            model=f"{n:04d}".ljust(128, wide),
            tier=tiers[n % 300],
            failure_mode=f"{n:04d}".ljust(128, "\x01"),
            cost_usd=1.7e308,
            attempt=2**31,
        )
        for n in range(1_500)
    ]
    pipeline, result = folded([plan, end, *trials])
    assert not result.rejections
    assert len(summaries_of(pipeline)) == 2 * 1_500 + 300 + 1


def test_a_breakdown_by_subtest_keeps_the_100_most_frequent_failure_modes_too() -> None:
    pipeline, _ = folded([event | {"tier": "T0", "subtest": "s"} for event in many_failure_modes()])
    for body in by_subtest(pipeline.run("run-1").state):
        assert len(body["failure_modes"]) == MAX_FAILURE_MODES + 1


def test_cost_of_pass_is_rounded_once() -> None:
    costs = (0.1, 0.2, 0.3, 0.7, 0.9)
    pipeline, _ = folded([a_trial(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(costs)])
    assert summaries_of(pipeline)[AGENT]["cost_of_pass"] == 0.44
