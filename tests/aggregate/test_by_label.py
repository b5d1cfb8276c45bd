"""A run broken down by a label of its trials."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.folding.breakdowns import UnknownLabel, by_label
from tests.support.events import Event, a_plan, a_retraction, a_trial, folded, summarised

AGENT = "agent_model run-1|terminus:gpt-5"


def broken_down(
    *events: Event, label: str = "language"
) -> dict[tuple[str | None, str | None], dict[str, Any]]:
    pipeline, result = folded(events)
    assert result.rejections == []
    bodies = by_label(pipeline.run("run-1").state, label)
    return {(body["value"], body["agent_model"]): body for body in bodies}


def labelled(task: str, language: str | None, **fields: Any) -> Event:
    return a_trial(
        task_id=task, labels=None if language is None else {"language": language, "x": "y"}, **fields
    )


EVENTS = [
    labelled("t1", "python", resolved=True, cost_usd=1.0, metrics={"reward": 0.5}),
    labelled("t2", "python", resolved=False, cost_usd=3.0),
    labelled("t3", "rust", resolved=True),
    labelled("t3", "rust", resolved=False, agent="other"),
    labelled("t4", None, resolved=False),
    labelled("t1", "python", resolved=True, agent="nop"),
]


def test_each_value_has_the_numbers_of_its_trials() -> None:
    found = broken_down(*EVENTS)
    python, rust = found["python", "terminus:gpt-5"], found["rust", None]
    assert (python["trials"], python["accuracy"], python["mean_cost"]) == (2, 0.5, 2.0)
    assert python["metrics"]["reward"]["mean"] == 0.5
    assert (rust["trials"], rust["resolved"], rust["pass_at_k"]) == (2, 1, None)


def test_trials_without_the_label_come_last_and_baselines_are_not_pooled() -> None:
    found = broken_down(*EVENTS)
    assert [*found][-1] == (None, "terminus:gpt-5")
    assert found["python", "nop:gpt-5"]["trials"] == 1
    assert found["python", None]["trials"] == 2


def test_counts_of_the_values_sum_to_the_agent() -> None:
    found = broken_down(*EVENTS)
    agent = summarised(EVENTS)[AGENT]
    parts = [body for (_, who), body in found.items() if who == "terminus:gpt-5"]
    for name in ("trials", "resolved", "unresolved", "no_verdict"):
        assert sum(part[name] for part in parts) == agent[name], name


def test_a_single_value_says_the_same_as_the_agent() -> None:
    events = [a_plan(judged=True), labelled("t1", "c", score=0.5, resolved=True), labelled("t2", "c")]
    body, agent = broken_down(*events)["c", "terminus:gpt-5"], summarised(events)[AGENT]
    own = {"type", "label", "value", "runs_planned", "provisional"}
    assert body.keys() - own - agent.keys() == set()
    assert {k: body[k] for k in body.keys() - own} == {k: agent[k] for k in body.keys() - own} | {
        "statistics": body["statistics"],
        "pass_at_k": body["pass_at_k"],
    }
    assert body["statistics"]["pass_rate"]["mean"] == agent["statistics"]["pass_rate"]["mean"]


def test_a_correction_takes_its_labels_along() -> None:
    before = labelled("t1", "python", revision=1)
    after = labelled("t1", "rust", revision=2)
    assert {value for value, _ in broken_down(before, after)} == {"rust"}
    kept = labelled("t2", "go")
    assert {value for value, _ in broken_down(before, kept, a_retraction(task_id="t1", revision=1))} == {"go"}


def test_an_unknown_label_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownLabel, match=r"no trial of run 'run-1' has a label 'colour'\. Labels: 'language', 'x'"
    ):
        broken_down(*EVENTS, label="colour")
    with pytest.raises(UnknownLabel, match="no labels at all"):
        broken_down(a_trial())
