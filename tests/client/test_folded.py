"""A run folded from the log answers as the summaries of a worker would, at its end and as of a position."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import NotInLog
from streamer.client.folded import FollowedRuns, NothingYet, PastRuns, RunLog, answers_of, fold_run, fold_runs
from streamer.client.queries import BoardRun
from streamer.folding.fold import CannotBeFolded
from streamer.folding.prices import PriceTable
from streamer.folding.run import Run
from streamer.schemas.wire import BadPosition, Position, Record
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing, partition_of
from streamer.storage.log import LogRecord, read_topic
from streamer.worker.process import ensure_topics
from tests.client.publish.publishing import PARTITIONS, make_topics, settings_of
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
    publish(settings, EVENTS, partition=partition_of("run-1", PARTITIONS))
    return settings


def publish(settings: Settings, events: list[Event], start: int = 0, partition: int | None = None) -> None:
    """Records a minute apart, into the partitions of their runs, or all into one."""

    async def send() -> None:
        topic = Names(settings.namespace).trial_events
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for number, event in enumerate(events, start):
                at = int((START + timedelta(minutes=number)).timestamp() * 1000)
                place = partition_of(event["run_id"], PARTITIONS) if partition is None else partition
                await producer.send_and_wait(topic, orjson.dumps(event), partition=place, timestamp_ms=at)

    asyncio.run(send())


def test_it_answers_what_the_summaries_say(log: Settings) -> None:
    result = fold_run(log, "run-1", PRICES)
    expected = folded(EVENTS)[0].run("run-1").summaries()
    digests = {change.kind: change.digest for change in expected}
    snapshot, compared = result.answers, result.answers.compared
    assert (snapshot.run.digest, compared.run.digest) == (digests["run"], digests["run"])
    assert [agent.agent_model for agent in snapshot.agents] == ["b:gpt-5", "terminus:gpt-5"]
    assert [trial.task_id for trial in snapshot.in_flight] == ["t9"]
    assert compared.comparison is not None
    assert compared.comparison.digest == digests["comparison"]
    assert list(compared.tasks) == ["t1", "t9"]
    assert [orjson.loads(value)["agent"] for value in result.scored_trials()] == ["b", "terminus"]
    assert (result.log.begins_at, result.log.moment) == (0, START + timedelta(minutes=4))
    assert [record.offset for record in RunLog(log, "run-1").records()] == [1, 2, 3, 4]


def test_as_of_a_position_later_records_do_not_count_and_its_time_is_known(log: Settings) -> None:
    by_offset = fold_run(log, "run-1", PRICES, Position(offset=3))
    assert (by_offset.answers.run.trials, by_offset.log.moment) == (1, START + timedelta(minutes=3))
    assert by_offset.answers.comparison is None
    at = START + timedelta(minutes=2, seconds=30)
    by_time = fold_run(log, "run-1", PRICES, Position(at=at))
    assert (by_time.answers.run.trials, by_time.log.moment) == (0, at)


def test_before_its_first_event_nothing_stands_and_the_first_is_named(log: Settings) -> None:
    for position in (Position(offset=0), Position(at=START + timedelta(seconds=59))):
        with pytest.raises(NothingYet, match=r"first event is at offset 1 \(2026-01-01T00:01:00Z\)"):
            fold_run(log, "run-1", PRICES, position)


def test_of_a_run_that_is_nowhere_the_log_holds_nothing(log: Settings) -> None:
    for position in (None, Position(offset=3)):
        with pytest.raises(NotInLog, match="holds nothing for run 'run-2'"):
            fold_run(log, "run-2", PRICES, position)


def test_after_its_deletion_nothing_stands_and_before_it_everything(log: Settings) -> None:
    publish(log, [a_deletion()], len(EVENTS))
    with pytest.raises(NothingYet, match="run 'run-1' has no events as of 5"):
        fold_run(log, "run-1", PRICES, Position(offset=5))
    assert fold_run(log, "run-1", PRICES, Position(offset=4)).answers.run.trials == 2


def test_nothing_is_known_beyond_the_end_or_in_the_future(log: Settings) -> None:
    with pytest.raises(BadPosition, match="the last record is at 4"):
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
    stored = [
        Record(orjson.dumps(event), offset, timestamp=time)
        for offset, (event, time) in enumerate(zip(events, times, strict=True))
    ]
    monkeypatch.setattr("streamer.client.folded.read_topic", lambda *_, **__: iter(stored))
    now = fold_run(Settings(), "run-1", PRICES)
    assert (now.answers.run.trials, now.log.moment) == (2, at)
    then = fold_run(Settings(), "run-1", PRICES, Position(at=at))
    assert (then.answers.run.trials, then.log.moment) == (1, at)
    with pytest.raises(NothingYet, match=r"first event is at offset 1$"):
        fold_run(Settings(), "other", PRICES, Position(at=at))


def board_of(run: Run, **wanted: bool) -> BoardRun:
    return answers_of(run, whole=False, **wanted).board


def test_a_run_has_its_tasks_once_it_is_over_and_if_they_are_wanted() -> None:
    events = [a_plan(tasks=2, attempts=1), a_trial(task_id="t1")]
    assert board_of(folded(events)[0].run("run-1")).tasks == {}
    over = folded([*events, a_trial(task_id="t2")])[0].run("run-1")
    result, without = board_of(over), board_of(over, tasks=False)
    assert sorted(result.tasks) == ["t1", "t2"]
    assert (without.tasks, without.run, without.agents) == ({}, result.run, result.agents)


# -----------------------------------------------------------------------------
# All runs folded from the log as of a time: partition by partition, and each run where it lives.


RUNS = ["run-1", "run-2", "run-3", "run-4"]


@pytest.fixture
def logs(embedded_broker: str, namespace: str) -> Settings:
    """A log whose records are a minute apart, in the partitions of their runs."""
    settings = make_topics(settings_of(embedded_broker, namespace))
    assert len({partition_of(run, PARTITIONS) for run in RUNS}) > 1
    publish(settings, [a_trial(run_id=run) for run in RUNS])
    return settings


def minute(number: float) -> Position:
    return Position(at=START + timedelta(minutes=number))


def ids(result: PastRuns) -> list[str]:
    return sorted(run.run_id for run in result.runs())


def test_the_runs_of_all_partitions_stand_as_of_the_time(logs: Settings) -> None:
    for number in range(len(RUNS)):
        result = fold_runs(logs, PRICES, minute(number + 0.5))
        assert ids(result) == RUNS[: number + 1]
        assert result.moment == START + timedelta(minutes=number + 0.5)
        assert (result.truncated, list(result.failed)) == ({}, [])
    assert ids(fold_runs(logs, PRICES, minute(-1))) == []


def test_a_run_that_was_deleted_later_still_stands(logs: Settings) -> None:
    publish(logs, [a_deletion(run_id="run-2")], 10)
    assert ids(fold_runs(logs, PRICES, minute(9))) == RUNS
    assert ids(fold_runs(logs, PRICES, minute(10))) == ["run-1", "run-3", "run-4"]


def test_an_event_in_a_wrong_partition_does_not_count(logs: Settings) -> None:
    elsewhere = (partition_of("run-1", PARTITIONS) + 1) % PARTITIONS
    publish(logs, [a_trial(run_id="run-1", task_id="other")], 10, elsewhere)
    result = fold_runs(logs, PRICES, minute(11))
    assert ids(result) == RUNS
    assert result.run("run-1").trials == 1


def test_an_offset_is_of_one_run(logs: Settings) -> None:
    with pytest.raises(BadPosition, match="offset 0 is a position in one partition"):
        fold_runs(logs, PRICES, Position(offset=0))
    one = fold_runs(logs, PRICES, Position(offset=0), "run-1")
    assert (ids(one), one.moment) == (["run-1"], START)
    with pytest.raises(NothingYet):
        fold_runs(logs, PRICES, minute(0.5), "run-2")


def test_the_future_is_refused(logs: Settings) -> None:
    with pytest.raises(BadPosition, match="in the future"):
        fold_runs(logs, PRICES, Position(at=datetime.now(UTC) + timedelta(hours=1)))


def test_what_loses_its_beginning_while_it_is_read_is_named(
    logs: Settings, monkeypatch: pytest.MonkeyPatch
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
    result = fold_runs(logs, PRICES, minute(9))
    assert ids(result) == RUNS
    assert result.truncated == {f"partition {number}": 7 for number in range(PARTITIONS)}


def test_what_lost_its_beginning_and_what_cannot_be_folded_is_named(
    logs: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise ArithmeticError("broken")

    async def begins_later(*_: object) -> dict[int, int]:
        return dict.fromkeys(range(PARTITIONS), 0) | {0: 7}

    monkeypatch.setattr("streamer.client.folded.beginnings_of", begins_later)
    assert fold_runs(logs, PRICES, minute(9)).truncated == {"partition 0": 7}
    monkeypatch.setattr("streamer.folding.run.Run.summaries", broken)
    result = fold_runs(logs, PRICES, minute(9))
    assert (ids(result), sorted(failure.run_id for failure in result.failed)) == ([], RUNS)


# -----------------------------------------------------------------------------
# Runs followed in the event log: folded once, then event by event.


SECONDS = 30


@pytest.fixture
async def log_of_followed_runs(embedded_broker: str, namespace: str) -> Settings:
    settings = settings_of(embedded_broker, namespace)
    await ensure_topics(settings)
    return settings


async def written(settings: Settings, *runs: str, task: str) -> None:
    topic = Names(settings.namespace).trial_events
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for run in runs:
            value = json.dumps(a_trial(run_id=run, task_id=task)).encode()
            partition = partition_of(run, PARTITIONS)
            await producer.send_and_wait(topic, value, key=run.encode(), partition=partition)


async def test_the_first_look_has_what_the_log_held_and_later_ones_what_came(
    log_of_followed_runs: Settings,
) -> None:
    await written(log_of_followed_runs, "one", "two", "other", task="x")
    followed = FollowedRuns(log_of_followed_runs, ["one", "two", "absent"], PriceTable.default())
    async with asyncio.timeout(SECONDS), aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        assert {run: len(state.slots) for run, state in followed.states().items()} == {"one": 1, "two": 1}
        await written(log_of_followed_runs, "two", "other", task="y")
        while len(followed.states()["two"].slots) < 2:
            await anext(looks)
    assert set(followed.states()) == {"one", "two"}


async def test_nothing_is_told_of_other_runs(log_of_followed_runs: Settings) -> None:
    followed = FollowedRuns(log_of_followed_runs, ["one"], PriceTable.default())
    async with aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        waiting = asyncio.ensure_future(anext(looks))
        await written(log_of_followed_runs, *(f"other-{number}" for number in range(9)), task="x")
        await written(log_of_followed_runs, "one", task="x")
        await asyncio.wait_for(waiting, SECONDS)
        assert set(followed.states()) == {"one"}


async def test_without_a_topic_it_says_so(embedded_broker: str, namespace: str) -> None:
    settings = settings_of(embedded_broker, namespace)
    with pytest.raises(TopicMissing):
        await anext(FollowedRuns(settings, ["one"], PriceTable.default()).looks(1))
    with pytest.raises(TopicMissing):
        await asyncio.to_thread(RunLog, settings, "run-1", Position(offset=0))
