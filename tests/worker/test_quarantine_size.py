"""A record that is too large, for a worker or for the broker, sets its run apart."""

from __future__ import annotations

import random

import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import KINDS, Deployment, Digests, folded, redis_key, trial_events
from tests.worker.sick_run import (
    SICK,
    degraded,
    in_quarantine,
    of_run,
    others_are_current,
    poisoned,
    run_cli,
    sick_trial,
)

COMPARED = "run-comparisons"


def random_text(characters: int, seed: int) -> str:
    """Text that no codec makes much smaller."""
    return f"{random.Random(seed).getrandbits(4 * characters):0{characters}x}"


def many_agents() -> list[bytes]:
    """Trials of so many agents that the run's summary, which names all of them, is large."""
    return [sick_trial("t", agent=random_text(60, seed)) for seed in range(1000)]


def long_names() -> list[bytes]:
    """A trial that makes a large state page, by the names of its benchmarks."""
    return [sick_trial("t", benchmarks={random_text(4_000, seed): None for seed in range(15)})]


def get_too_large(deployment: Deployment, worker: WorkerProcess, topic: str, events: list[bytes]) -> None:
    """The run had records of usual size, and gets a large one in this topic."""
    before = trial_events(300)
    deployment.publish(before)
    deployment.wait_until_equal(worker)
    deployment.publish([*events, *trial_events(600)[300:]])
    worker.wait_until(lambda: SICK in in_quarantine(deployment), "it is set apart")
    worker.wait_until(lambda: others_are_current(deployment), "all other runs are current")
    worker.wait_until(lambda: degraded(deployment, SICK), "its last good summaries say so")
    assert f"a record for {deployment.names.topic(topic)} has" in in_quarantine(deployment)[SICK]
    everything = deployment.in_topics()
    last_good = only(SICK, everything)
    states = states_of(SICK, before, events)
    assert deployment.in_redis(last_good) == last_good
    compared = last_good.pop(COMPARED)  # at most once a second, so perhaps of an earlier state
    assert compared in [state.pop(COMPARED) for state in states]
    assert last_good in states, "the summaries are of one state"
    standing = {
        redis_key(deployment.keys, KINDS[topic], key) for topic in last_good for key in last_good[topic]
    }
    assert {deployment.keys.of_run(SICK, suffix) for suffix in summary_keys(deployment)} == standing


def only(run_id: str, found: dict[str, Digests]) -> dict[str, Digests]:
    """Digests of one run, by topic and key."""
    return {
        topic: {key: digest for key, digest in digests.items() if key.split("|")[0] == run_id}
        for topic, digests in found.items()
    }


def summary_keys(deployment: Deployment) -> set[str]:
    """Suffixes of the keys in Redis that hold a summary of the sick run."""
    kinds = ("run", "tier", "agent_model")
    found = {key for key in deployment.redis_keys(SICK) if key.split(":")[0] in kinds}
    return {key for key in found if not key.endswith(":agent_models")}


def states_of(run_id: str, before: list[bytes], events: list[bytes]) -> list[dict[str, Digests]]:
    """Digests of all of a run's summaries after `before`, and after each of the events that follow."""
    pipeline, found, standing = Pipeline(), [], dict[str, Digests]()
    pipeline.fold(Record(value, offset) for offset, value in enumerate(of_run(run_id, before)))
    standing = folded(of_run(run_id, before))
    topic_of = {kind: topic for topic, kind in KINDS.items()}
    pipeline.run(run_id).take_changes()
    for offset, event in enumerate([b"", *events], len(before)):
        pipeline.fold([Record(event, offset)] if event else [])
        for change in pipeline.run(run_id).take_summaries().summaries:
            standing[topic_of[change.kind]][change.key] = change.digest
        found.append({topic: dict(digests) for topic, digests in standing.items()})
    return found


LARGE = {"run-summaries": many_agents, "trials-changelog": long_names}
"""Topic -> events that make a large record there."""


@pytest.mark.parametrize("topic", LARGE)
def test_a_record_that_is_too_large_sets_its_run_apart(on_embedded: Deployment, topic: str) -> None:
    get_too_large(on_embedded, worker := poisoned(on_embedded, "size").start(), topic, LARGE[topic]())
    worker.stop()
    roomier = on_embedded.worker().start()
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(roomier)


@pytest.mark.kafka
@pytest.mark.parametrize("topic", LARGE)
def test_a_record_that_the_broker_refuses_for_its_size_sets_its_run_apart(
    on_kafka: Deployment, topic: str
) -> None:
    worker = on_kafka.worker().start()
    on_kafka.configure(topic, max_message_bytes=20_000)
    get_too_large(on_kafka, worker, topic, LARGE[topic]())
    on_kafka.configure(topic, max_message_bytes=4_000_000)
    assert run_cli(on_kafka, "runs", "repair", SICK).returncode == 0
    on_kafka.wait_until_equal(worker)
