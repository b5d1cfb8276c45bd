"""All runs folded from the log as of a time: partition by partition, and each run where it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.folded import NothingYet, PastRuns, fold_runs
from streamer.folding.score.prices import PriceTable
from streamer.schemas.wire import BadPosition, Position
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import LogRecord, read_topic
from tests.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.support.events import Event, a_deletion, a_trial

START = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = PriceTable.default()
RUNS = ["run-1", "run-2", "run-3", "run-4"]


@pytest.fixture
def log(embedded_broker: str, namespace: str) -> Settings:
    """A log whose records are a minute apart, in the partitions of their runs."""
    settings = make_topics(settings_of(embedded_broker, namespace))
    assert len({partition_of(run, PARTITIONS) for run in RUNS}) > 1
    publish(settings, [a_trial(run_id=run) for run in RUNS])
    return settings


def publish(settings: Settings, events: list[Event], start: int = 0, partition: int | None = None) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for number, event in enumerate(events, start):
                at = int((START + timedelta(minutes=number)).timestamp() * 1000)
                place = partition_of(event["run_id"], PARTITIONS) if partition is None else partition
                topic = Names(settings.namespace).trial_events
                await producer.send_and_wait(topic, orjson.dumps(event), partition=place, timestamp_ms=at)

    asyncio.run(send())


def minute(number: float) -> Position:
    return Position(at=START + timedelta(minutes=number))


def ids(found: PastRuns) -> list[str]:
    return sorted(run.run_id for run in found.runs())


def test_the_runs_of_all_partitions_stand_as_of_the_time(log: Settings) -> None:
    for number in range(len(RUNS)):
        found = fold_runs(log, PRICES, minute(number + 0.5))
        assert ids(found) == RUNS[: number + 1]
        assert found.moment == START + timedelta(minutes=number + 0.5)
        assert (found.truncated, list(found.failed)) == ({}, [])
    assert ids(fold_runs(log, PRICES, minute(-1))) == []


def test_a_run_that_was_deleted_later_still_stands(log: Settings) -> None:
    publish(log, [a_deletion(run_id="run-2")], 10)
    assert ids(fold_runs(log, PRICES, minute(9))) == RUNS
    assert ids(fold_runs(log, PRICES, minute(10))) == ["run-1", "run-3", "run-4"]


def test_an_event_in_a_wrong_partition_does_not_count(log: Settings) -> None:
    elsewhere = (partition_of("run-1", PARTITIONS) + 1) % PARTITIONS
    publish(log, [a_trial(run_id="run-1", task_id="other")], 10, elsewhere)
    found = fold_runs(log, PRICES, minute(11))
    assert ids(found) == RUNS
    assert found.run("run-1").trials == 1


def test_an_offset_is_of_one_run(log: Settings) -> None:
    with pytest.raises(BadPosition, match="offset 0 is a place in one partition"):
        fold_runs(log, PRICES, Position(offset=0))
    one = fold_runs(log, PRICES, Position(offset=0), "run-1")
    assert (ids(one), one.moment) == (["run-1"], START)
    with pytest.raises(NothingYet):
        fold_runs(log, PRICES, minute(0.5), "run-2")


def test_the_future_is_refused(log: Settings) -> None:
    with pytest.raises(BadPosition, match="in the future"):
        fold_runs(log, PRICES, Position(at=datetime.now(UTC) + timedelta(hours=1)))


def test_what_loses_its_beginning_while_it_is_read_is_named(
    log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding many partitions takes a while, and what is deleted meanwhile is missing."""
    read: list[int] = []

    def reading(settings: Settings, topic: str, partitions: list[int]) -> Iterator[LogRecord]:
        read.extend(partitions)
        return read_topic(settings, topic, partitions)

    async def begins(*_: object) -> dict[int, int]:
        return {number: 7 * (number in read) for number in range(PARTITIONS)}

    monkeypatch.setattr("streamer.client.folded.read_topic", reading)
    monkeypatch.setattr("streamer.client.folded.beginnings_of", begins)
    found = fold_runs(log, PRICES, minute(9))
    assert (ids(found), found.truncated) == (RUNS, {f"partition {number}": 7 for number in range(PARTITIONS)})


def test_what_lost_its_beginning_and_what_cannot_be_folded_is_named(
    log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise ArithmeticError("broken")

    async def begins_later(*_: object) -> dict[int, int]:
        return dict.fromkeys(range(PARTITIONS), 0) | {0: 7}

    monkeypatch.setattr("streamer.client.folded.beginnings_of", begins_later)
    assert fold_runs(log, PRICES, minute(9)).truncated == {"partition 0": 7}
    monkeypatch.setattr("streamer.folding.run.Run.summaries", broken)
    found = fold_runs(log, PRICES, minute(9))
    assert (ids(found), sorted(failure.run_id for failure in found.failed)) == ([], RUNS)
