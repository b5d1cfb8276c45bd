"""The story of the demo, read off the fold of its events: nothing of it may be left to chance."""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile

import pytest

from streamer.client.queries import ComparedRun, RunSnapshot
from streamer.schemas.summaries import RunComparison
from streamer.sources.simulate import EXCEPTIONS
from streamer.sources.simulate.layouts import CRASH
from streamer.terminal.demo import AGENTS, AT_ONCE, TASKS
from streamer.views.compare import PairStanding, pair_standings
from tests.support.demo_story import Event, events_of, looks

STEP = 24
LEAST = 5
"""Results of each agent from which on one of them is called the leader."""

Look = tuple[RunSnapshot, ComparedRun]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return events_of(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def prefixes(events: list[Event]) -> list[Look]:
    return list(looks(events, STEP))


def leader(look: Look) -> str:
    return max(look[0].agents, key=lambda agent: agent.statistics["pass_rate"].mean or 0.0).agent_model


def the_pair(look: Look, first: str, second: str) -> PairStanding:
    return next(pair for pair in pair_standings(look[1]) if {pair.a, pair.b} == {first, second})


def slot_of(event: Event) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("shard", "task_id", "attempt", "agent", "model"))


def test_six_agents_try_the_same_tasks_once_in_a_shuffled_order_for_about_a_minute(
    events: list[Event], prefixes: list[Look]
) -> None:
    run = prefixes[-1][0].run
    assert (run.agent_models, run.tasks, run.progress.done) == (6, TASKS, len(AGENTS) * TASKS)
    assert run.progress.planned == run.progress.done
    assert run.started_at is not None
    assert run.finished_at is not None
    assert 45 <= (run.finished_at - run.started_at).total_seconds() <= 60
    comparison = prefixes[-1][1].comparison
    assert isinstance(comparison, RunComparison)
    assert comparison.order_kind == "shuffled"


def test_trials_start_before_anything_else_happens(events: list[Event]) -> None:
    started = list(takewhile(lambda event: event["type"] == "trial_started", events[1:]))
    assert events[0]["type"] == "run_started"
    assert len(started) == AT_ONCE


def test_the_agent_that_leads_at_first_is_overtaken(prefixes: list[Look]) -> None:
    early = [look for look in prefixes if min(agent.trials for agent in look[0].agents) >= LEAST]
    assert leader(early[0]) == "birch:simulated/large"
    assert leader(prefixes[-1]) == "aspen:simulated/large"


def test_a_trial_crashes_and_its_second_try_counts(events: list[Event], prefixes: list[Look]) -> None:
    modes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for event in events:
        if event["type"] == "trial_result" and "score" not in event:
            modes[slot_of(event)].append(event["failure_mode"])
    retried = [tries for tries in modes.values() if len(tries) > 1]
    assert retried
    assert all(tries[0] == EXCEPTIONS[CRASH] != tries[1] for tries in retried)
    assert EXCEPTIONS[CRASH] not in prefixes[-1][0].run.failure_modes
    assert any(EXCEPTIONS[CRASH] in look[0].run.failure_modes for look in prefixes)


def test_the_judge_comes_after_the_verdict_of_every_trial(events: list[Event], prefixes: list[Look]) -> None:
    verdicts: set[tuple[str, ...]] = set()
    for event in events:
        if event["type"] == "trial_result" and "score" in event:
            assert slot_of(event) in verdicts
        elif event["type"] == "trial_result":
            verdicts.add(slot_of(event))
    assert any(agent.grade_provisional for look in prefixes for agent in look[0].agents)
    last = prefixes[-1][0]
    assert last.run.coverage["impl_rate"] == last.run.trials
    assert not any(agent.grade_provisional for agent in last.agents)


def test_the_two_best_are_told_apart_before_the_end_and_not_at_once(prefixes: list[Look]) -> None:
    by_rate = sorted(prefixes[-1][0].agents, key=lambda agent: -(agent.statistics["pass_rate"].mean or 0.0))
    first, second = (agent.agent_model for agent in by_rate[:2])
    words = [the_pair(look, first, second).words[0] for look in prefixes if len(look[0].agents) == 6]
    certain = [said.startswith(first) for said in words]
    began = certain.index(True)
    assert words[0].startswith("Nothing separates")
    assert 0.5 < began / len(words) < 0.95
    assert all(certain[began:])
