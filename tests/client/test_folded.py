"""What is read from the log: runs folded, at its end and as of a position, and topics followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import Feed, NotInLog, ScoredTrialReader, Update, scored_trials, subscribe
from streamer.client.folded import FollowedRuns, NothingYet, PastRuns, RunLog, answers_of, fold_run, fold_runs
from streamer.client.queries import BoardRun
from streamer.folding.fold import CannotBeFolded
from streamer.folding.prices import PriceTable
from streamer.folding.run import Run
from streamer.schemas.wire import BadPosition, Position, Record
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing, partition_of
from streamer.storage.log import LogRecord, read_topic
from tests.client.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.support.builders import a_run_change, an_agent_model_change, present
from tests.support.events import Event, a_deletion, a_plan, a_start, a_trial, folded
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online

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
def topics(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


@pytest.fixture
def log(topics: Settings) -> Settings:
    """A log whose records are a minute apart; all runs lie in one partition."""
    publish(topics, EVENTS, partition=partition_of("run-1", PARTITIONS))
    return topics


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
    assert present(compared.comparison).digest == digests["comparison"]
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


@pytest.mark.parametrize(
    ("run", "position", "error", "said"),
    [
        ("run-1", Position(offset=0), NothingYet, r"first event is at offset 1 \(2026-01-01T00:01:00Z\)"),
        ("run-1", Position(at=START + timedelta(seconds=59)), NothingYet, "first event is at offset 1"),
        ("run-2", None, NotInLog, "holds nothing for run 'run-2'"),
        ("run-2", Position(offset=3), NotInLog, "holds nothing for run 'run-2'"),
        ("run-1", Position(offset=5), BadPosition, "the last record is at 4"),
        ("run-1", Position(at=datetime(9999, 1, 1, tzinfo=UTC)), BadPosition, "in the future"),
    ],
    ids=["offset before", "time before", "no run", "no run, offset", "beyond the end", "future"],
)
def test_where_nothing_stands_it_is_said_why(
    log: Settings, run: str, position: Position | None, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        fold_run(log, run, PRICES, position)


def test_after_its_deletion_nothing_stands_and_before_it_everything(log: Settings) -> None:
    publish(log, [a_deletion()], len(EVENTS))
    with pytest.raises(NothingYet, match="run 'run-1' has no events as of 5"):
        fold_run(log, "run-1", PRICES, Position(offset=5))
    assert fold_run(log, "run-1", PRICES, Position(offset=4)).answers.run.trials == 2


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


RUNS = ["run-1", "run-2", "run-3", "run-4"]


@pytest.fixture
def logs(topics: Settings) -> Settings:
    """A log whose records are a minute apart, in the partitions of their runs."""
    assert len({partition_of(run, PARTITIONS) for run in RUNS}) > 1
    publish(topics, [a_trial(run_id=run) for run in RUNS])
    return topics


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


def test_a_run_that_was_deleted_later_still_stands_and_a_wrong_partition_counts_for_nothing(
    logs: Settings,
) -> None:
    publish(logs, [a_deletion(run_id="run-2")], 10)
    assert ids(fold_runs(logs, PRICES, minute(9))) == RUNS
    assert ids(fold_runs(logs, PRICES, minute(10))) == ["run-1", "run-3", "run-4"]
    elsewhere = (partition_of("run-1", PARTITIONS) + 1) % PARTITIONS
    publish(logs, [a_trial(run_id="run-1", task_id="other")], 11, elsewhere)
    result = fold_runs(logs, PRICES, minute(12))
    assert ids(result) == ["run-1", "run-3", "run-4"]
    assert result.run("run-1").trials == 1


def test_an_offset_is_of_one_run_and_the_future_is_refused(logs: Settings) -> None:
    with pytest.raises(BadPosition, match="offset 0 is a position in one partition"):
        fold_runs(logs, PRICES, Position(offset=0))
    one = fold_runs(logs, PRICES, Position(offset=0), "run-1")
    assert (ids(one), one.moment) == (["run-1"], START)
    with pytest.raises(NothingYet):
        fold_runs(logs, PRICES, minute(0.5), "run-2")
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


SECONDS = 30


async def written(settings: Settings, *runs: str, task: str) -> None:
    await asyncio.to_thread(publish, settings, [a_trial(run_id=run, task_id=task) for run in runs])


async def test_the_first_look_has_what_the_log_held_and_later_ones_what_came(topics: Settings) -> None:
    await written(topics, "one", "two", "other", task="x")
    followed = FollowedRuns(topics, ["one", "two", "absent"], PRICES)
    async with asyncio.timeout(SECONDS), aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        assert {run: len(state.slots) for run, state in followed.states().items()} == {"one": 1, "two": 1}
        await written(topics, "two", "other", task="y")
        while len(followed.states()["two"].slots) < 2:
            await anext(looks)
    assert set(followed.states()) == {"one", "two"}


async def test_nothing_is_said_of_other_runs(topics: Settings) -> None:
    followed = FollowedRuns(topics, ["one"], PRICES)
    async with aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        waiting = asyncio.ensure_future(anext(looks))
        await written(topics, *(f"other-{number}" for number in range(9)), "one", task="x")
        await asyncio.wait_for(waiting, SECONDS)
        assert set(followed.states()) == {"one"}


async def test_without_a_topic_it_says_so(embedded_broker: str, namespace: str) -> None:
    settings = settings_of(embedded_broker, namespace)
    with pytest.raises(TopicMissing):
        await anext(FollowedRuns(settings, ["one"], PRICES).looks(1))
    with pytest.raises(TopicMissing):
        await asyncio.to_thread(RunLog, settings, "run-1", Position(offset=0))


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    directory = tmp_path_factory.mktemp("subscribe")
    engine = request.param
    stack: Online
    with online(directory, bootstrap_of(request, engine), engine, worker=False) as stack:
        yield stack.settings


def a_record(version: int, *, epoch: int = 1, agent: str = "claude") -> tuple[bytes, bytes | None]:
    change = an_agent_model_change(agent=agent, version=version, epoch=epoch)
    return change.key.encode(), change.value


async def send(settings: Settings, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    """All in one record batch of one partition."""
    async with AIOKafkaProducer(**settings.kafka_options(), linger_ms=50) as producer:
        sent = [await producer.send(topic, value, key=key, partition=1) for key, value in records]
        await asyncio.gather(*sent)


async def take(settings: Settings, feed: Feed, count: int, **options: Any) -> list[Update]:
    result: list[Update] = []
    updates = subscribe(feed, settings, **options)
    async with asyncio.timeout(SECONDS), aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            result.append(update)
            if len(result) == count:
                break
    return result


async def test_what_is_older_than_what_was_seen_of_its_key_is_dropped(settings: Settings) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    other = a_record(3, agent="codex")
    told = [a_record(5), a_record(5), other, a_record(0, epoch=2), a_record(1, epoch=2)]
    await send(settings, topic, [told[0], a_record(4), *told[1:4], a_record(9), told[4]])
    result = await take(settings, "agent-model", 5, from_beginning=True)
    assert [update.version for update in result] == [(1, 5), (1, 5), (1, 3), (2, 0), (2, 1)]
    assert [update.value for update in result] == [value for _, value in told]
    assert {update.run_id for update in result} == {"r1"}


async def test_a_deletion_is_told_and_old_writers_stay_out_after_it(settings: Settings) -> None:
    (key, value), topic = a_record(5), Names(settings.namespace).agent_model_summaries
    await send(settings, topic, [(key, value), (key, None), a_record(4), a_record(6)])
    first, deleted, last = await take(settings, "agent-model", 3, from_beginning=True)
    assert (deleted.key, deleted.value, deleted.run_id) == (key.decode(), None, "r1")
    assert (first.version, last.version) == ((1, 5), (1, 6))


async def test_from_now_on_means_nothing_that_was_there_before(settings: Settings) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    await send(settings, topic, [a_record(n) for n in range(5)])
    ready = asyncio.Event()
    taking = asyncio.create_task(take(settings, "agent-model", 2, from_beginning=False, on_ready=ready.set))
    async with asyncio.timeout(SECONDS):
        await ready.wait()
    await send(settings, topic, [a_record(7), a_record(8)])
    assert [update.version for update in await taking] == [(1, 7), (1, 8)]


@pytest.mark.parametrize("from_beginning", [True, False])
async def test_it_says_once_when_all_that_was_there_has_come(
    settings: Settings, from_beginning: bool
) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    await send(settings, topic, [a_record(n) for n in range(1, 6)])
    seen: list[object] = []
    updates = subscribe(
        "agent-model",
        settings,
        from_beginning=from_beginning,
        on_ready=lambda: seen.append("ready"),
        on_caught_up=lambda: seen.append("caught up"),
    )
    async with asyncio.timeout(SECONDS), aclosing(updates) as following:  # type: ignore[type-var]
        first = asyncio.ensure_future(anext(following))
        while not seen:
            await asyncio.sleep(0.01)
        await send(settings, topic, [a_record(7)])
        seen.append((await first).version)
        while seen[-1] != (1, 7):
            seen.append((await anext(following)).version)
    before = [(1, n) for n in range(1, 6)] if from_beginning else []
    assert seen == ["ready", *before, "caught up", (1, 7)]


async def test_without_following_it_ends_once_all_that_was_there_has_come(settings: Settings) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    await send(settings, topic, [a_record(n) for n in range(1, 6)])
    async with asyncio.timeout(SECONDS):
        updates = subscribe("agent-model", settings, from_beginning=True, follow=False)
        assert [update.version async for update in updates] == [(1, n) for n in range(1, 6)]
        missing = subscribe("agent-model", settings, run_id="nothing", from_beginning=True, follow=False)
        assert [update async for update in missing] == []


async def test_what_is_no_json_object_and_what_has_no_key_is_handed_on_as_it_is(settings: Settings) -> None:
    topic = Names(settings.namespace).trial_rejections
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for value in (b"\xff", b"[1]"):
            await producer.send_and_wait(topic, value, partition=0)
    result = await take(settings, "rejections", 2, from_beginning=True)
    assert [(u.key, u.value, u.message) for u in result] == [("", b"\xff", None), ("", b"[1]", None)]


async def test_a_missing_topic_is_an_error(settings: Settings) -> None:
    with pytest.raises(TopicMissing):
        await take(settings.model_copy(update={"namespace": "nobody"}), "run", 1, from_beginning=True)


def a_scored_trial(
    version: tuple[int, int] | None, key: str | None = "r|slot", offset: int = 0
) -> SimpleNamespace:
    """Its record; None: a tombstone."""
    value = version and orjson.dumps({"epoch": version[0], "state_version": version[1]})
    return SimpleNamespace(key=key and key.encode(), offset=offset, value=value)


def test_a_late_writers_trial_changes_nothing_also_after_a_deletion() -> None:
    reader = ScoredTrialReader("r")
    versions = ((1, 5), (1, 4), (1, 5), None, (1, 4), (1, 6), (2, 0), (1, 9))
    changes = [reader.change(a_scored_trial(version)) for version in versions]
    assert [change is not None for change in changes] == [True, False, True, True, False, True, True, False]
    deletion = present(changes[3])
    assert (deletion.trial, deletion.version) == (None, None)


def test_only_the_run_itself_is_read_and_slots_are_guarded_apart() -> None:
    reader, keys = ScoredTrialReader("r/1"), ("r%2F1|slot", "r%2F1x|slot", "r|slot", None)
    read = [reader.change(a_scored_trial((1, 1), key)) is not None for key in keys]
    assert read == [True, False, False, False]
    reader = ScoredTrialReader("r")
    assert reader.change(a_scored_trial((1, 5), "r|one"))
    change = present(reader.change(a_scored_trial((1, 4), "r|other", offset=7)))
    assert (change.key, change.offset, change.version) == (b"r|other", 7, (1, 4))


async def test_of_one_run_no_other_is_told_and_without_a_run_everything(settings: Settings) -> None:
    changes = [a_run_change(run, version=version) for version in (1, 2) for run in ("one", "two")]
    topic = Names(settings.namespace).run_summaries
    await send(settings, topic, [(change.key.encode(), change.value) for change in changes])
    for run_id, told in (("two", {"two"}), (None, {"one", "two"})):
        updates = await take(settings, "run", 2 * len(told), run_id=run_id, from_beginning=True)
        assert {update.run_id for update in updates} == told


def publish_trials(settings: Settings, *records: tuple[str, bytes | None]) -> None:
    async def send() -> None:
        topic, place = Names(settings.namespace).scored_trials, partition_of("run-1", PARTITIONS)
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for key, value in records:
                await producer.send_and_wait(topic, value, key=key.encode(), partition=place)

    asyncio.run(send())


def scored(task: str, **fields: object) -> tuple[str, bytes | None]:
    [change] = folded([a_trial(task_id=task, **fields)])[0].run("run-1").take_scored()
    return change.key, change.value


def test_the_latest_of_each_slot_counts_and_what_was_withdrawn_is_gone(topics: Settings) -> None:
    with pytest.raises(NotInLog, match=r"holds nothing for run 'run-1'\. `streamer query runs`"):
        scored_trials(topics, "run-1")
    first, second = scored("a", resolved=False), scored("a")
    other, missing = scored("b"), scored("c")
    publish_trials(topics, first, missing, other, (missing[0], None))
    assert scored_trials(topics, "run-1") == [first[1], other[1]]
    publish_trials(topics, second)
    result = scored_trials(topics, "run-1")
    assert len(result) == 2
    assert other[1] in result
