"""Following a topic: what comes, in the order of its versions, from where it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from types import SimpleNamespace

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import Feed, NotInLog, ScoredTrialReader, Update, scored_trials, subscribe
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing, partition_of
from tests.client.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.client.writing import send
from tests.support.builders import a_run_change, an_agent_model_change
from tests.support.events import a_trial, folded
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online

SECONDS = 20


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


async def take(
    settings: Settings,
    feed: Feed,
    count: int,
    *,
    from_beginning: bool,
    on_ready: Callable[[], None] = lambda: None,
    run_id: str | None = None,
) -> list[Update]:
    result: list[Update] = []
    updates = subscribe(feed, settings, run_id=run_id, from_beginning=from_beginning, on_ready=on_ready)
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
async def test_it_tells_once_when_all_that_was_there_has_come(
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


# -----------------------------------------------------------------------------
# What a record of the topic of scored trials changes in one run.


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
    deletion = changes[3]
    assert deletion
    assert (deletion.trial, deletion.version) == (None, None)


def test_only_the_run_itself_is_read() -> None:
    reader, keys = ScoredTrialReader("r/1"), ("r%2F1|slot", "r%2F1x|slot", "r|slot", None)
    read = [reader.change(a_scored_trial((1, 1), key)) is not None for key in keys]
    assert read == [True, False, False, False]


def test_slots_are_guarded_apart_and_a_change_says_where_it_stands() -> None:
    reader = ScoredTrialReader("r")
    assert reader.change(a_scored_trial((1, 5), "r|one"))
    change = reader.change(a_scored_trial((1, 4), "r|other", offset=7))
    assert change
    assert (change.key, change.offset, change.version) == (b"r|other", 7, (1, 4))


async def test_of_one_run_no_other_is_told_and_without_a_run_everything(settings: Settings) -> None:
    changes = [a_run_change(run, version=version) for version in (1, 2) for run in ("one", "two")]
    topic = Names(settings.namespace).run_summaries
    await send(settings, topic, [(change.key.encode(), change.value) for change in changes])
    for run_id, told in (("two", {"two"}), (None, {"one", "two"})):
        updates = await take(settings, "run", 2 * len(told), run_id=run_id, from_beginning=True)
        assert {update.run_id for update in updates} == told


# -----------------------------------------------------------------------------
# Single trials come from the log: the latest of each slot, and none that was withdrawn.


@pytest.fixture
def log_of_trials(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


def publish(settings: Settings, *records: tuple[str, bytes | None]) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for key, value in records:
                place = partition_of("run-1", PARTITIONS)
                topic = Names(settings.namespace).scored_trials
                await producer.send_and_wait(topic, value, key=key.encode(), partition=place)

    asyncio.run(send())


def scored(task: str, **fields: object) -> tuple[str, bytes | None]:
    [change] = folded([a_trial(task_id=task, **fields)])[0].run("run-1").take_scored()
    return change.key, change.value


def test_the_latest_of_each_slot_counts_and_what_was_withdrawn_is_gone(log_of_trials: Settings) -> None:
    first, second = scored("a", resolved=False), scored("a")
    other, missing = scored("b"), scored("c")
    publish(log_of_trials, first, missing, other, (missing[0], None))
    assert scored_trials(log_of_trials, "run-1") == [first[1], other[1]]
    publish(log_of_trials, second)
    result = scored_trials(log_of_trials, "run-1")
    assert len(result) == 2
    assert other[1] in result


def test_a_run_of_which_the_log_holds_nothing_is_said_with_what_to_do(log_of_trials: Settings) -> None:
    with pytest.raises(NotInLog, match=r"holds nothing for run 'run-1'\. `streamer query runs`"):
        scored_trials(log_of_trials, "run-1")
