"""A repair folds a run again from the log."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.storage.kafka import partition_of
from tests.worker.deployment import Deployment, folded, trial_events
from tests.worker.sick_run import (
    EVERYWHERE,
    SICK,
    degraded,
    fall_sick,
    in_quarantine,
    others_are_current,
    poisoned,
    run_cli,
    sick_trial,
    summaries_of,
)
from tests.worker.test_partition_recovery import delete_records


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
