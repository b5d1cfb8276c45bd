"""A run folded from the log answers as the summaries of a worker would, at its end and as of a position."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import NotInLog
from streamer.client.folded import NothingYet, board_run_of, fold_run
from streamer.folding.fold import CannotBeFolded
from streamer.folding.score.prices import PriceTable
from streamer.schemas.wire import BadPosition, Position, Record
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from tests.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.support.events import Event, a_deletion, a_plan, a_start, a_trial, folded

START = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = PriceTable.default()
EVENTS = [
    a_trial(run_id="before"),
    a_plan(tasks=4),
    a_start(task_id="t9"),
    a_trial(task_id="t1", resolved=False),
    a_trial(task_id="t1", agent="b"),
]


@pytest.fixture
def log(embedded_broker: str, namespace: str) -> Settings:
    """A log whose records are a minute apart; all runs lie in one partition."""
    settings = make_topics(settings_of(embedded_broker, namespace))
    publish(settings, EVENTS)
    return settings


def publish(settings: Settings, events: list[Event], start: int = 0) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for number, event in enumerate(events, start):
                at = int((START + timedelta(minutes=number)).timestamp() * 1000)
                topic, place = Names(settings.namespace).trial_events, partition_of("run-1", PARTITIONS)
                await producer.send_and_wait(topic, orjson.dumps(event), partition=place, timestamp_ms=at)

    asyncio.run(send())


def test_it_answers_what_the_summaries_say(log: Settings) -> None:
    found = fold_run(log, "run-1", PRICES)
    expected = folded(EVENTS)[0].run("run-1").summaries()
    digests = {change.kind: change.digest for change in expected}
    snapshot, compared = found.snapshot(), found.comparison()
    assert (snapshot.run.digest, compared.run.digest) == (digests["run"], digests["run"])
    assert [agent.agent_model for agent in snapshot.agents] == ["b:gpt-5", "terminus:gpt-5"]
    assert [trial.task_id for trial in snapshot.in_flight] == ["t9"]
    assert compared.comparison is not None
    assert compared.comparison.digest == digests["comparison"]
    assert list(compared.tasks) == ["t1", "t9"]
    assert [orjson.loads(value)["agent"] for value in found.scored_trials()] == ["b", "terminus"]
    assert (found.log.begins_at, found.log.moment) == (0, START + timedelta(minutes=4))


def test_as_of_a_position_later_records_do_not_count_and_its_time_is_known(log: Settings) -> None:
    by_offset = fold_run(log, "run-1", PRICES, Position(offset=3))
    assert (by_offset.snapshot().run.trials, by_offset.log.moment) == (1, START + timedelta(minutes=3))
    assert by_offset.comparison().comparison is None
    at = START + timedelta(minutes=2, seconds=30)
    by_time = fold_run(log, "run-1", PRICES, Position(at=at))
    assert (by_time.snapshot().run.trials, by_time.log.moment) == (0, at)


def test_before_its_first_event_nothing_stands_and_the_first_is_named(log: Settings) -> None:
    for position in (Position(offset=0), Position(at=START + timedelta(seconds=59))):
        with pytest.raises(NothingYet, match=r"first event is at offset 1 \(2026-01-01T00:01:00Z\)"):
            fold_run(log, "run-1", PRICES, position)


def test_of_a_run_that_is_nowhere_the_log_holds_nothing(log: Settings) -> None:
    for position in (None, Position(offset=3)):
        with pytest.raises(NotInLog, match="holds nothing of run 'run-2'"):
            fold_run(log, "run-2", PRICES, position)


def test_after_its_deletion_nothing_stands_and_before_it_everything(log: Settings) -> None:
    publish(log, [a_deletion()], len(EVENTS))
    with pytest.raises(NothingYet, match="nothing stands of run 'run-1' as of 5"):
        fold_run(log, "run-1", PRICES, Position(offset=5))
    assert fold_run(log, "run-1", PRICES, Position(offset=4)).snapshot().run.trials == 2


def test_nothing_is_known_beyond_the_end_or_in_the_future(log: Settings) -> None:
    with pytest.raises(BadPosition, match="the last record is at offset 4"):
        fold_run(log, "run-1", PRICES, Position(offset=5))
    with pytest.raises(BadPosition, match="in the future"):
        fold_run(log, "run-1", PRICES, Position(at=datetime.now(UTC) + timedelta(days=1)))


def test_a_run_that_an_exception_sets_apart_is_said_so(
    log: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("broken")

    monkeypatch.setattr("streamer.folding.run.Run.join", broken)
    with pytest.raises(CannotBeFolded, match="broken"):
        fold_run(log, "run-1", PRICES)


def test_a_record_of_the_partition_with_a_time_in_microseconds_stops_no_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, milliseconds = START, int(START.timestamp() * 1000)
    times = (milliseconds, milliseconds * 1000, milliseconds * 1000)
    events = (a_trial(), a_trial(run_id="other"), a_trial(task_id="t2"))
    held = [
        Record(orjson.dumps(event), offset, timestamp=time)
        for offset, (event, time) in enumerate(zip(events, times, strict=True))
    ]
    monkeypatch.setattr("streamer.client.folded.read_topic", lambda *_, **__: iter(held))
    now = fold_run(Settings(), "run-1", PRICES)
    assert (now.snapshot().run.trials, now.log.moment) == (2, at)
    then = fold_run(Settings(), "run-1", PRICES, Position(at=at))
    assert (then.snapshot().run.trials, then.log.moment) == (1, at)
    with pytest.raises(NothingYet, match=r"first event is at offset 1$"):
        fold_run(Settings(), "other", PRICES, Position(at=at))


def test_a_run_has_its_tasks_once_it_is_over_and_if_they_are_wanted() -> None:
    events = [a_plan(tasks=2, attempts=1), a_trial(task_id="t1")]
    assert board_run_of(folded(events)[0].run("run-1")).tasks == {}
    over = folded([*events, a_trial(task_id="t2")])[0].run("run-1")
    found, without = board_run_of(over), board_run_of(over, tasks=False)
    assert sorted(found.tasks) == ["t1", "t2"]
    assert (without.tasks, without.run, without.agents) == ({}, found.run, found.agents)
