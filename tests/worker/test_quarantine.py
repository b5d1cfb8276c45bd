"""What goes wrong with one run stays with that run: real workers, a real broker, a real Redis."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from typing import Any

import orjson
import pytest
import redis
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.client.reader import StateReader
from streamer.client.results import UnknownRun
from streamer.kafka.partitioner import partition_of
from streamer.ops.health import read_health
from streamer.ops.verify import Verification
from streamer.schemas.identity import encode_id
from streamer.score import PriceTable
from streamer.worker.process.topics import ensure_topics
from tests.support.cli import streamer
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, folded, trial_events
from tests.worker.poisoned import POISON
from tests.worker.test_lost_pages import delete_records

SICK = "run 1"
"""One of the six runs of `trial_events`."""

EVERYWHERE = ["score", "cut", "page"]


def sick_trial(task: str = POISON, **fields: Any) -> bytes:
    """A trial of the run that gets sick."""
    event = {"type": "trial_result", "run_id": SICK, "task_id": task, "agent": "a", "model": "m"}
    return orjson.dumps(event | {"resolved": True, "cost_usd": 1.0} | fields)


def of_run(run_id: str, events: list[bytes]) -> list[bytes]:
    """The events of one run."""
    return [event for event in events if orjson.loads(event)["run_id"] == run_id]


def without(run_id: str, found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Digests of all other runs, by topic and key."""
    mine = encode_id(run_id)
    return {
        topic: {key: digest for key, digest in digests.items() if key.split("|")[0] != mine}
        for topic, digests in found.items()
    }


def poisoned(deployment: Deployment, place: str) -> WorkerProcess:
    """A worker that fails at the poison, at that place."""
    return deployment.worker(module="tests.worker.poisoned", environment={"POISON": place})


def summaries_of(deployment: Deployment, run_id: str) -> list[dict[str, Any]]:
    """The run's summaries in the topics."""
    mine = encode_id(run_id)
    return [
        orjson.loads(value)
        for topic in ("run-summaries", "agent-model-summaries", "tier-summaries")
        for key, value in deployment.latest(topic).items()
        if key.split("|")[0] == mine
    ]


def run_cli(deployment: Deployment, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A command against the deployment."""
    settings = deployment.settings
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    return streamer(
        *arguments, environment={f"STREAMER_{name.upper()}": str(getattr(settings, name)) for name in names}
    )


def degraded(deployment: Deployment, run_id: str) -> bool:
    """True if every summary of the run says that it is degraded."""
    found = summaries_of(deployment, run_id)
    return bool(found) and all(summary["degraded"] for summary in found)


def in_quarantine(deployment: Deployment) -> dict[str, str]:
    """Runs in quarantine and why, as the workers' heartbeats say."""
    with StateReader(deployment.settings) as reader:
        told = [worker.status for worker in reader.workers()]
    return {run: reason for status in told for run, reason in status.get("quarantined", {}).items()}


def owners(deployment: Deployment) -> list[str]:
    """Workers that have partitions."""
    with StateReader(deployment.settings) as reader:
        return [worker.worker_id for worker in reader.workers() if worker.status["partitions"]]


def others_are_current(deployment: Deployment) -> bool:
    """True if topics and Redis say of all other runs what a fold says."""
    wanted = without(SICK, folded(deployment.published))
    return wanted == without(SICK, deployment.in_topics()) == deployment.in_redis(wanted)


def fall_sick(deployment: Deployment, place: str) -> tuple[WorkerProcess, list[bytes]]:
    """A worker with six runs, one of which fell sick; and that one's events before."""
    worker = poisoned(deployment, place).start()
    events = trial_events(300)
    deployment.publish(events)
    deployment.wait_until_equal(worker)
    deployment.publish([sick_trial(), *trial_events(600)[300:]])
    worker.wait_until(lambda: SICK in in_quarantine(deployment), "it is set apart")
    worker.wait_until(lambda: others_are_current(deployment), "all other runs are current")
    worker.wait_until(lambda: degraded(deployment, SICK), "its summaries say so")
    return worker, of_run(SICK, events)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_run_that_fails_is_set_apart_and_all_others_go_on(on_both: Deployment, place: str) -> None:
    worker, before = fall_sick(on_both, place)
    assert in_quarantine(on_both) == {SICK: "Poisoned: cannot be divided"}
    good = folded(before)
    mine = {k: d for topic in good for k, d in on_both.in_topics()[topic].items()}
    assert {k: mine[k] for topic in good for k in good[topic]} == {
        k: d for found in good.values() for k, d in found.items()
    }, "the last good summaries stand"
    in_redis = on_both.in_redis(good)
    assert in_redis == good
    second = poisoned(on_both, place).start()
    second.wait_until(lambda: len(owners(on_both)) == 2, "both have partitions")
    on_both.publish([sick_trial("later"), *trial_events(660)[600:]])
    second.wait_until(lambda: others_are_current(on_both), "all other runs go on after a rebalance")
    worker.kill()
    on_both.publish([sick_trial("still later"), *trial_events(720)[660:]])
    second.wait_until(lambda: others_are_current(on_both), "and after the other worker was killed")
    second.wait_until(lambda: SICK in in_quarantine(on_both), "who has the run holds it back")
    assert on_both.in_redis(good) == good
    assert degraded(on_both, SICK)


def test_a_run_that_was_never_published_gets_the_summaries_of_when_it_was_well(on_both: Deployment) -> None:
    asyncio.run(ensure_topics(on_both.settings))
    on_both.publish([*trial_events(300), sick_trial(), sick_trial("later")])
    worker = poisoned(on_both, "score").start()
    worker.wait_until(lambda: degraded(on_both, SICK), "it has summaries, which say so")
    good = folded(of_run(SICK, trial_events(300)))
    worker.wait_until(lambda: on_both.in_redis(good) == good, "those of all that came before")
    worker.wait_until(lambda: others_are_current(on_both), "all other runs are current")


def test_the_event_at_which_a_run_failed_is_rejected_with_its_bytes(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    [rejection] = [orjson.loads(record.value) for record in on_embedded.records("trial-rejections")]
    assert (rejection["code"], rejection["run_id"]) == ("quarantined", SICK)
    assert base64.b64decode(rejection["source_value_base64"]) == sick_trial()
    assert "streamer runs repair" in rejection["message"]


@pytest.mark.parametrize("place", EVERYWHERE)
def test_repair_folds_the_run_again_from_the_log(on_both: Deployment, place: str) -> None:
    worker, _ = fall_sick(on_both, place)
    again = run_cli(on_both, "runs", "repair", SICK)
    assert again.returncode == 1
    assert "Poisoned: cannot be divided" in again.stderr.decode()
    assert degraded(on_both, SICK)
    worker.stop()
    upgraded = on_both.worker().start()
    assert run_cli(on_both, "runs", "repair", SICK).returncode == 0
    on_both.publish([sick_trial("after")])
    on_both.wait_until_equal(upgraded)
    assert not any(summary["degraded"] for summary in summaries_of(on_both, SICK))
    assert in_quarantine(on_both) == {}
    upgraded.stop()
    third = on_both.worker().start()
    on_both.publish([sick_trial("at last")])
    on_both.wait_until_equal(third)


def test_a_run_in_good_order_can_be_folded_again_too(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(300))
    on_embedded.wait_until_equal(worker)
    before = {record.key for record in on_embedded.records("trials-changelog")}
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    assert {record.key for record in on_embedded.records("trials-changelog")} > before
    on_embedded.publish(trial_events(360)[300:])
    on_embedded.wait_until_equal(worker)
    worker.kill()
    second = on_embedded.worker().start()
    on_embedded.publish(trial_events(420)[360:])
    on_embedded.wait_until_equal(second)
    unknown = run_cli(on_embedded, "runs", "repair", "run 77")
    assert unknown.returncode == 1
    assert "There is no run 'run 77'" in unknown.stderr.decode()


def test_a_request_to_repair_waits_for_the_next_worker(on_embedded: Deployment) -> None:
    worker, _ = fall_sick(on_embedded, "score")
    worker.kill()
    asked = run_cli(on_embedded, "runs", "repair", SICK, "--wait", "0")
    assert asked.returncode == 1
    assert "no worker has done it" in asked.stderr.decode()
    on_embedded.publish([sick_trial("later")])
    on_embedded.wait_until_equal(on_embedded.worker().start())


@pytest.mark.kafka
def test_a_repair_that_the_log_does_not_allow_changes_nothing(on_kafka: Deployment) -> None:
    worker, before = fall_sick(on_kafka, "score")
    place = TopicPartition(on_kafka.names.trial_events, partition_of(SICK, on_kafka.partitions))
    asyncio.run(delete_records(on_kafka, {place: RecordsToDelete(3)}))
    refused = run_cli(on_kafka, "runs", "repair", SICK)
    assert refused.returncode == 1
    assert "the log has lost its events before offset 3" in refused.stderr.decode()
    assert degraded(on_kafka, SICK)
    good = folded(before)
    assert on_kafka.in_redis(good) == good
    assert worker.alive


def test_a_rebuild_keeps_the_last_good_summaries_and_an_upgraded_worker_replaces_them(
    on_embedded: Deployment,
) -> None:
    worker, before = fall_sick(on_embedded, "cut")
    worker.stop()
    assert run_cli(on_embedded, "rebuild", "--switch").returncode == 0
    good = folded(before)
    assert on_embedded.in_redis(good) == good
    assert degraded(on_embedded, SICK)
    still = poisoned(on_embedded, "cut").start()
    still.wait_until(lambda: SICK in in_quarantine(on_embedded), "it fails again")
    still.wait_until(lambda: others_are_current(on_embedded), "all other runs are folded again")
    assert on_embedded.in_redis(good) == good
    still.stop()
    assert run_cli(on_embedded, "rebuild", "--switch").returncode == 0
    on_embedded.wait_until_equal(on_embedded.worker().start())


def test_a_run_in_quarantine_can_be_deleted(on_embedded: Deployment) -> None:
    worker, _ = fall_sick(on_embedded, "score")
    assert run_cli(on_embedded, "delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: summaries_of(on_embedded, SICK) == [], "its summaries are gone from the topics")
    mine = encode_id(SICK)
    scored = lambda: [key for key in on_embedded.latest("scored-trials") if key.startswith(f"{mine}|")]  # noqa: E731
    worker.wait_until(lambda: scored() == [], "and its scored trials")
    with StateReader(on_embedded.settings) as reader, pytest.raises(UnknownRun):
        reader.run(SICK)
    assert in_quarantine(on_embedded) == {}
    verification = Verification(
        on_embedded.settings, prices=PriceTable.default(), wait_seconds=9, topics=True
    )
    assert {verdict.outcome for verdict in verification.verify(None)} == {"equal"}


def test_a_run_that_failed_at_its_first_event_can_be_deleted(on_embedded: Deployment) -> None:
    worker = poisoned(on_embedded, "score").start()
    on_embedded.publish([sick_trial()])
    worker.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    assert run_cli(on_embedded, "delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: in_quarantine(on_embedded) == {}, "it is forgotten")


def test_a_page_that_cannot_be_loaded_sets_its_run_apart(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish([sick_trial(), *trial_events(300)])
    on_embedded.wait_until_equal(worker)
    worker.kill()
    second = poisoned(on_embedded, "load").start()
    second.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    on_embedded.publish(trial_events(330)[300:])
    second.wait_until(lambda: others_are_current(on_embedded), "all other runs are current")
    second.wait_until(lambda: degraded(on_embedded, SICK), "its last good summaries stand and say so")
    second.kill()
    third = on_embedded.worker().start()
    third.wait_until(lambda: SICK in in_quarantine(on_embedded), "it stays apart until somebody repairs it")
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(third)


def test_redis_that_lost_its_data_gets_the_degraded_summaries_back(
    on_embedded: Deployment,
) -> None:
    worker, before = fall_sick(on_embedded, "score")
    good = folded(before)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: on_embedded.in_redis(good) == good, "Redis has the last good summaries")
    with StateReader(on_embedded.settings) as reader:
        assert reader.run(SICK).degraded == "Poisoned: cannot be divided"


def test_topic_and_redis_say_degraded_in_the_same_bytes(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "cut")
    value = on_embedded.latest("run-summaries")[encode_id(SICK)]
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        assert client.get(on_embedded.keys.of_run(SICK, "run")) == value


def values(deployment: Deployment, run_id: str) -> tuple[list[bytes], list[bytes]]:
    """The run's summaries in the topics and in Redis, as bytes."""
    mine, keys = encode_id(run_id), deployment.keys
    in_topics = [
        value
        for topic in ("run-summaries", "agent-model-summaries", "tier-summaries")
        for key, value in deployment.latest(topic).items()
        if key.split("|")[0] == mine
    ]
    with redis.Redis.from_url(deployment.redis_url) as client:
        suffixes = [field.decode() for field in client.hkeys(keys.versions(run_id))]
        found = [client.get(keys.of_run(run_id, suffix)) for suffix in suffixes]
    return sorted(in_topics), sorted(value for value in found if value is not None)


def same_bytes(deployment: Deployment, run_id: str) -> bool:
    """True if topics and Redis hold the same summaries of the run, byte for byte."""
    in_topics, in_redis = values(deployment, run_id)
    return bool(in_topics) and in_topics == in_redis


def test_an_emptied_redis_gets_the_bytes_of_the_topics_back_in_quarantine_and_after_the_repair(
    on_embedded: Deployment,
) -> None:
    poisoned_worker, _ = fall_sick(on_embedded, "score")
    poisoned_worker.kill()
    worker = on_embedded.worker().start()
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert degraded(on_embedded, SICK)
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(worker)
    assert same_bytes(on_embedded, SICK)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert not any(orjson.loads(value)["degraded"] for value in values(on_embedded, SICK)[1])
    verification = Verification(
        on_embedded.settings, prices=PriceTable.default(), wait_seconds=30, topics=True
    )
    assert [v.differences for v in verification.verify(None) if v.outcome != "equal"] == []


def test_verify_with_topics_tells_of_a_run_in_quarantine(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    prices, settings = PriceTable.default(), on_embedded.settings
    verdicts = Verification(settings, prices=prices, wait_seconds=9, topics=True).verify(None)
    assert [verdict.run_id for verdict in verdicts if verdict.outcome != "equal"] == [SICK]
    [sick] = [verdict for verdict in verdicts if verdict.run_id == SICK]
    assert sick.outcome == "unverifiable"
    assert "in quarantine (Poisoned: cannot be divided)" in (sick.reason or "")


def test_status_query_and_verify_tell_of_a_run_in_quarantine(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    said = run_cli(on_embedded, "query", "run", SICK, "--json").stderr.decode()
    assert "in quarantine (Poisoned: cannot be divided)" in said
    problems = read_health(on_embedded.settings).problems
    assert any(SICK in problem and "streamer runs repair" in problem for problem in problems)
    verification = Verification(on_embedded.settings, prices=PriceTable.default(), wait_seconds=9)
    verdicts = {verdict.run_id: verdict for verdict in verification.verify(None)}
    assert verdicts[SICK].outcome == "unverifiable"
    assert "quarantine" in (verdicts[SICK].reason or "")
    assert {verdict.outcome for run, verdict in verdicts.items() if run != SICK} == {"equal"}
