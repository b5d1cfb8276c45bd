"""How trials of harbor ended, in jobs that harbor 0.25.0 itself wrote (see harbor/record.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamer.sources.harbor import verdict
from tests.sources.builders import Event, converted, plan_of, trials_of
from tests.sources.harbor import unpack_jobs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_jobs(tmp_path_factory.mktemp("jobs"))


def trial_of(events: Iterable[Event], task: str, agent: str = "scripted") -> Event:
    (trial,) = [e for e in trials_of(events) if e["task_id"] == task and e["agent"] == agent]
    return trial


@pytest.mark.parametrize(
    ("task", "resolved", "failure_mode"),
    [
        ("easy", True, "unset"),
        ("hard", False, "unset"),
        ("half", False, "unset"),
        ("both", True, "unset"),
        ("named", True, "unset"),
        ("many", None, "unset"),
        ("acme/renamed", False, "unset"),
        ("steps", True, "unset"),
        ("flaky", False, "unset"),
        ("slow", False, "AgentTimeoutError"),
        ("exits", False, "NonZeroAgentExitCodeError"),
        ("crash", None, "RuntimeError"),
        ("unbuilt", None, "RuntimeError"),
        ("unrewarded", None, "RewardFileNotFoundError"),
    ],
)
def test_the_verdict_is_harbors_and_exceptions_are_failure_modes(
    recorded: Path, task: str, resolved: bool | None, failure_mode: str
) -> None:
    trial = trial_of(converted(recorded / "kinds")[0], task)
    assert (trial.get("resolved"), trial["failure_mode"]) == (resolved, failure_mode)
    assert "score" not in trial


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("easy", {"reward": 1.0}),
        ("half", {"reward": 0.5}),
        ("named", {"reward": 1.0}),
        ("both", {"reward": 1.0, "reward/style": 0.5}),
        ("many", {"reward/correctness": 1.0, "reward/style": 0.25}),
        ("crash", None),
        ("unrewarded", None),
    ],
)
def test_every_reward_is_a_metric(recorded: Path, task: str, metrics: Event | None) -> None:
    """The numbers are those of `REWARDS` in record.py, which harbor read from the verifier's files."""
    events, _ = converted(recorded / "kinds")
    assert trial_of(events, task).get("metrics") == metrics
    assert plan_of(events)["metrics"] == {"reward": {"direction": "higher"}}


def test_the_rewards_are_those_that_harbor_counted(recorded: Path) -> None:
    for job in ("kinds", "coins"):
        evals = json.loads((recorded / job / "result.json").read_text())["stats"]["evals"]
        counted = [
            (trial, float(value), name)
            for stats in evals.values()
            for name, values in stats["reward_stats"].items()
            for value, trials in values.items()
            for trial in trials
        ]
        found = [
            (event["shard"], value, name)
            for event in trials_of(converted(recorded / job)[0])
            for name, value in event.get("metrics", {}).items()
        ]
        assert len(counted) == len(found) > 0
        assert sorted(c[:2] for c in counted) == sorted(f[:2] for f in found)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("exits", "NonZeroAgentExitCodeError: exit code 3"),
        ("crash", "RuntimeError: boom"),
        ("unbuilt", "RuntimeError: no such image"),
        ("hard", None),
    ],
)
def test_the_message_is_the_exceptions(recorded: Path, task: str, message: str | None) -> None:
    assert trial_of(converted(recorded / "kinds")[0], task).get("message") == message


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ({"": 1}, (True, None)),
        ({"reward": 0, "style": 1}, (False, None)),
        ({"reward": None}, (None, "no verdict: the reward 'reward' is None, a number is needed")),
        ({"a": 1, "b": 1}, (None, "no verdict: of the rewards 'a', 'b' none is called 'reward'")),
        ({}, (None, None)),
    ],
)
def test_the_verdict_is_of_the_only_reward_whatever_its_name(
    rewards: Event, expected: tuple[bool | None, str | None]
) -> None:
    assert verdict({"verifier_result": {"rewards": rewards}}) == expected
