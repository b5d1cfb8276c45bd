"""Metrics that harnesses name themselves: statistics, errors, how to read them (R30)."""

from __future__ import annotations

import random
from statistics import fmean, median, pstdev
from typing import Any

from streamer.folding.summaries import MOST_NAMED
from streamer.schemas.summaries import SUMMARY
from streamer.statistics.ability import Clusters, mean_interval
from tests.support.events import Event, a_plan, a_retraction, a_trial, digests, folded, summarised

AGENT, RUN, TIER = "agent_model run-1|terminus:gpt-5", "run run-1", "tier run-1|T0"
REWARDS = [0.5, 0.7, 0.7, 1.0, -2.0]
UNREAD = {"direction": "higher", "unit": None, "label": None, "planned": False}


def rewarded(*rewards: float, **fields: Any) -> list[Event]:
    """A trial of a task of its own for each."""
    return [
        a_trial(task_id=f"t{n}", metrics={"reward": reward}, **fields) for n, reward in enumerate(rewards)
    ]


def test_a_named_metric_has_the_statistics_of_the_built_in_ones() -> None:
    found = summarised([*rewarded(*REWARDS), a_trial(task_id="t9"), a_trial(task_id="t8", metrics={})])[AGENT]
    assert found["trials"] == 7
    error = Clusters.of_values(range(5), REWARDS)
    low, high = mean_interval(error) or (None, None)
    assert found["metrics"] == {
        "reward": UNREAD
        | {
            "median": median(REWARDS),
            "mean": fmean(REWARDS),
            "mode": 0.7,
            "min": -2.0,
            "max": 1.0,
            "std_dev": pstdev(REWARDS),
            "count": 5,
            "standard_error": error.standard_error(),
            "low": low,
            "high": high,
        }
    }


def test_the_error_is_clustered_by_task() -> None:
    """inference 6: two attempts at each task; one trial of the three tasks has no value."""
    values = {("a", 1): 0.25, ("a", 2): 0.75, ("b", 1): 3.0, ("b", 2): 1.0, ("c", 1): 2.0}
    events = [a_trial(task_id=t, attempt=n, metrics={"x": value}) for (t, n), value in values.items()]
    found = summarised([*events, a_trial(task_id="c", attempt=2)])[AGENT]["metrics"]["x"]
    clusters = Clusters.of_values([task for task, _ in values], list(values.values()))
    assert found["standard_error"] == clusters.standard_error() is not None
    assert (found["low"], found["high"]) == mean_interval(clusters)


def test_tiers_have_statistics_without_errors() -> None:
    found = summarised(rewarded(1.0, 2.0, tier="T0"))
    assert found[TIER]["metrics"]["reward"]["mean"] == found[AGENT]["metrics"]["reward"]["mean"] == 1.5
    assert found[TIER]["metrics"]["reward"]["standard_error"] is None
    assert found[AGENT]["metrics"]["reward"]["standard_error"] == 0.5


def test_the_plan_says_how_to_read_a_metric_and_what_orders_the_boards() -> None:
    plan = a_plan(
        metrics={"latency": {"direction": "lower", "unit": "seconds"}}, primary_metric="metrics/reward"
    )
    found = summarised([plan, *rewarded(0.5)])
    read = {"direction": "higher", "unit": None, "label": None}
    assert found[RUN]["primary_metric"] == "metrics/reward"
    assert found[RUN]["metrics"] == {
        "latency": read | {"direction": "lower", "unit": "seconds"},
        "reward": read,
    }
    latency, reward = found[AGENT]["metrics"]["latency"], found[AGENT]["metrics"]["reward"]
    assert (latency["count"], latency["mean"], latency["direction"]) == (0, None, "lower")
    assert (reward["count"], reward["mean"], reward["planned"]) == (1, 0.5, True)


def test_without_a_plan_boards_are_ordered_by_the_pass_rate() -> None:
    run = summarised([a_trial()])[RUN]
    assert (run["primary_metric"], run["metrics"]) == ("pass_rate", {})


def test_a_corrected_and_a_retracted_metric_leave_no_trace() -> None:
    kept = a_trial(task_id="t1", revision=2, metrics={"reward": 0.25})
    corrected = a_trial(task_id="t1", revision=1, metrics={"reward": 9.0, "gone": 1.0})
    withdrawn = a_trial(task_id="t2", revision=1, metrics={"reward": 5.0, "style": 1.0})
    left = summarised([corrected, withdrawn, kept, a_retraction(task_id="t2", revision=1)])
    assert left[AGENT]["metrics"] == summarised([kept])[AGENT]["metrics"]


def test_a_summary_has_the_planned_metrics_and_those_of_the_most_trials() -> None:
    events = [a_trial(task_id=f"t{n}", metrics={f"m{n % 3}.{k}": 1.0 for k in range(60)}) for n in range(8)]
    planned = a_plan(metrics={"zero": {}})
    metrics = summarised([planned, *events])[AGENT]["metrics"]
    assert len(metrics) == MOST_NAMED
    assert metrics["zero"]["count"] == 0
    assert [name[:2] for name, of in metrics.items() if of["count"] == 3].count("m0") == 60
    assert sum(of["count"] == 2 for of in metrics.values()) == 0  # m0 and m1 have three trials each, m2 two


def test_sums_are_exact_in_any_order() -> None:
    events = [
        a_trial(task_id=f"t{n}", metrics={"x": value})
        for n, value in enumerate([1e300, 1.0, -1e300, 1e-320, 0.1, 0.2])
    ]
    shuffled = random.Random(7).sample(events, len(events))
    assert digests(folded(events)[0]) == digests(folded(shuffled)[0])


def test_the_summary_is_read_as_it_was_written() -> None:
    for change in summarised([a_plan(metrics={"reward": {"label": "R"}}), *rewarded(*REWARDS)]).values():
        assert SUMMARY.validate_python(change).model_dump(mode="json", exclude_unset=True) == change
