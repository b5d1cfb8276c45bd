"""Idle runs leave memory and come back whole."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.operate.health import read_health
from streamer.schemas.base import decode_id
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import KafkaError, Names
from streamer.worker import partition
from streamer.worker.partition import StateLost
from streamer.worker.recovery import Fencing
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.worker.deployment import KINDS, Deployment, summaries_of_fold, trial_events
from tests.worker.processor_bench import Bench, a_batch

IDLE = 60.0
SESSION = 6.0
"""Longer than a busy machine may keep a worker from running."""

EVENTS = trial_events(1_200)


def published(bench: Bench) -> list[tuple[str, bytes | None, bytes | None]]:
    """Every summary and scored trial that was written, runs in the order of their names."""
    outs = [out for outs in bench.broker.writes for out in outs if out.topic != "trials-changelog"]
    return sorted(((out.topic, out.key, out.value) for out in outs), key=str)


def digests(bench: Bench) -> dict[tuple[str, str], str]:
    return {
        (change.kind, change.key): change.digest for change in bench.current() if change.value is not None
    }


def folded_digests(values: list[bytes]) -> dict[tuple[str, str], str]:
    return {(change.kind, change.key): change.digest for change in summaries_of_fold(values)}


async def close_all(bench: Bench) -> None:
    """Let the time pass that makes every run idle."""
    bench.seconds += IDLE
    await bench.processor.publish_due()
    while bench.processor.idle.close_due(bench.partition):
        pass
    assert bench.partition.pipeline.runs() == []


async def test_a_run_is_closed_as_soon_as_it_was_idle_for_the_time_set() -> None:
    bench = Bench()
    await bench.handle(a_batch(0, EVENTS[:60]))
    bench.seconds = 50.0
    await bench.handle(a_batch(60, [event for event in EVENTS[60:120] if b'"run 1"' in event]))
    before = {(change.kind, change.key): change.value for change in bench.current() if change.value}
    bench.seconds = 59.9
    assert bench.processor.idle.close_due(bench.partition) == 0
    bench.seconds = 60.0
    assert bench.processor.idle.close_due(bench.partition) == 5
    assert bench.partition.pipeline.runs() == ["run 1"]
    bench.seconds = 110.0
    assert bench.processor.idle.close_due(bench.partition) == 1
    assert sorted(bench.partition.registry.closed) == [f"run {n}" for n in range(6)]
    assert digests(bench) == {key: orjson.loads(value)["digest"] for key, value in before.items()}


async def test_a_run_that_is_not_open_is_never_due_for_closing() -> None:
    bench = Bench()
    await bench.handle(a_batch(0, EVENTS[:60]))
    await close_all(bench)
    bench.partition.pipeline.fail("run 1", ArithmeticError("a page cannot be read"))
    bench.processor.idle.touch(bench.partition, ["run 1", "none"])
    bench.seconds += IDLE
    assert bench.processor.idle.close_due(bench.partition) == 0


async def test_nothing_is_closed_while_the_partition_catches_up_or_owes_summaries() -> None:
    bench = Bench(catch_up_to=80, caught_up=False)
    await bench.handle(a_batch(0, EVENTS[:40]))
    bench.seconds = 2 * IDLE
    assert bench.processor.idle.close_due(bench.partition) == 0
    bench = Bench()
    bench.behind = True
    await bench.handle(a_batch(0, EVENTS[:40]))
    await bench.handle(a_batch(40, EVENTS[40:80]))
    bench.seconds = 2 * IDLE
    assert bench.partition.publish_queue.runs
    assert bench.processor.idle.close_due(bench.partition) == 0


async def test_after_a_recovery_runs_count_as_idle_since_their_last_event_happened() -> None:
    bench = Bench(caught_up=False)
    midnight = 1_767_225_600.0
    bench.seconds = midnight + 1_000.0
    finished = {"old": "2026-01-01T00:01:00Z", "young": "2026-01-01T00:16:00Z"}
    events = [
        {"type": "trial_result", "run_id": run, "task_id": "t", "finished_at": at}
        for run, at in finished.items()
    ]
    bench.partition.pipeline.fold(Record(orjson.dumps(event), n) for n, event in enumerate(events))
    await bench.processor.publish_passed()
    assert bench.partition.heard == {"old": midnight + 60.0, "young": midnight + 960.0}
    assert bench.processor.idle.close_due(bench.partition) == 1
    assert list(bench.partition.registry.closed) == ["old"]
    bench.seconds += IDLE
    assert bench.processor.idle.close_due(bench.partition) == 1


async def test_a_worker_that_closes_runs_publishes_to_the_byte_what_one_does_that_never_closes() -> None:
    rng = random.Random(4)
    closing, keeping = Bench(), Bench()
    at = 0
    while at < len(EVENTS):
        values = EVENTS[at : at + rng.randrange(1, 120)]
        for bench in (closing, keeping):
            await bench.handle(a_batch(at, values))
        at += len(values)
        closing.seconds += rng.choice([1.0, 30.0, IDLE])
        keeping.seconds = closing.seconds
        closing.processor.idle.close_due(closing.partition)
    assert closing.partition.openings > 10
    assert published(closing) == published(keeping)
    await close_all(closing)
    assert digests(closing) == digests(keeping) == folded_digests(EVENTS)


async def test_pages_of_a_run_that_came_back_are_joined_after_a_restart() -> None:
    bench = Bench()
    for at in range(0, 900, 100):
        await bench.handle(a_batch(at, EVENTS[at : at + 100]))
        await close_all(bench)
    pages = dict(bench.tables.trials.of_partition(0))
    assert len({key.split("/")[1] for key in pages}) > 5
    rebuilt = Pipeline(writer="next")
    for key, value in pages.items():
        rebuilt.load_page(key, value)
    changes = [change for run_id in rebuilt.runs() for change in rebuilt.run(run_id).summaries()]
    assert {(change.kind, change.key): change.digest for change in changes} == folded_digests(EVENTS[:900])


async def test_a_run_whose_pages_are_gone_is_folded_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    await bench.handle(a_batch(0, EVENTS[:600]))
    await close_all(bench)
    missing = next(key for key, _ in bench.tables.trials.of_partition(0) if key.startswith("run 2/"))
    bench.tables.written("trials-changelog", 0, 0, [bench.tables.trials.put(0, missing, None)])
    asked = []

    async def log(_: Any, place: Any, start: Any, stop: int) -> AsyncGenerator[list[Any]]:
        asked.append((place.topic, place.partition, start, stop))
        yield a_batch(0, EVENTS[:stop]).records

    monkeypatch.setattr(partition, "records_between", log)
    await bench.handle(a_batch(600, EVENTS[600:660]))
    assert asked == [("trial-events", 0, None, 600)]
    assert not bench.app.crashes
    await bench.settle()
    assert digests(bench) == folded_digests(EVENTS[:660])
    written = [out.key for outs in bench.broker.writes for out in outs if out.topic == "trials-changelog"]
    assert b"run 2/w." in b"".join(key or b"" for key in written)


async def test_with_pages_and_log_gone_nothing_less_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    await bench.handle(a_batch(0, EVENTS[:60]))
    await close_all(bench)
    missing = next(key for key, _ in bench.tables.trials.of_partition(0) if key.startswith("run 2/"))
    bench.tables.written("trials-changelog", 0, 0, [bench.tables.trials.put(0, missing, None)])

    async def log(*_: Any) -> AsyncGenerator[list[Any]]:
        yield a_batch(7, EVENTS[7:8]).records

    monkeypatch.setattr(partition, "records_between", log)
    with pytest.raises(StateLost, match="begins at offset 7"):
        await bench.processor.idle.open(bench.partition, "run 2")
    assert "run 2" in bench.partition.registry.closed


async def test_trials_in_flight_stay_known_while_a_run_is_closed() -> None:
    bench = Bench()
    start = {"type": "trial_started", "run_id": "run 1", "task_id": "slow", "agent": "a", "model": "m"}
    await bench.handle(a_batch(0, [*EVENTS[:60], orjson.dumps(start)]))
    before = bench.processor.current("run 1").in_flight
    assert before is not None
    assert list(before.trials) == ["|slow|1|a|m||"]
    await close_all(bench)
    assert bench.processor.current("run 1").in_flight == before
    late = [event for event in EVENTS[60:600] if b'"run 1"' in event][:1]
    await bench.handle(a_batch(61, late))
    after = bench.processor.current("run 1").in_flight
    assert after is not None
    assert after.trials == before.trials
    assert after.state_version >= before.state_version


async def test_a_deleted_run_stays_deleted_when_it_is_closed_and_opened_again() -> None:
    bench = Bench()
    await bench.handle(a_batch(0, EVENTS[:60]))
    await bench.handle(a_batch(60, [b'{"type":"run_deleted","run_id":"run 1","revision":9}']))
    await close_all(bench)
    tombstones = [c for c in bench.current() if c.value is None]
    assert [(c.kind, c.key, c.state_version) for c in tombstones] == [("run", "run 1", 60)]
    bench.broker.writes.clear()
    late = [event for event in EVENTS[60:600] if b'"run 1"' in event]
    await bench.handle(a_batch(61, late))
    assert bench.partition.pipeline.run("run 1").state.exists is False
    assert all(out.topic not in KINDS for outs in bench.broker.writes for out in outs)
    await close_all(bench)
    newer = orjson.dumps({"type": "trial_result", "run_id": "run 1", "task_id": "t", "revision": 10})
    await bench.handle(a_batch(900, [newer]))
    await bench.settle()
    assert {key for _, key in digests(bench) if decode_id(key.split("|")[0]) == "run 1"} == {
        "run 1",
        "run 1|unknown:unknown",
    }


def runs_in_memory(deployment: Deployment) -> tuple[int, int]:
    """Open and closed runs of the workers that live, as their heartbeats say."""
    health = read_health(deployment.settings)
    told = [worker.status for worker in health.live_workers() if worker.status["partitions"]]
    return sum(status["open_runs"] for status in told), sum(status["closed_runs"] for status in told)


@pytest.mark.slow
def test_closed_runs_come_back_whole(on_both: Deployment, redis_server: RedisServer) -> None:
    """The life of runs that are closed after a second."""
    on_both.session = SESSION
    worker = on_both.go_on(
        on_both.worker(environment={"STREAMER_RUN_IDLE_SECONDS": "1"}).start(), trial_events(400)
    )
    current = {topic: on_both.latest(topic) for topic in KINDS}
    worker.wait_until(lambda: runs_in_memory(on_both) == (0, 6), "every run is closed")
    assert {topic: on_both.latest(topic) for topic in KINDS} == current
    late = [event for event in trial_events(400, seed=2) if b'"run 1"' in event or b'"run 3"' in event]
    on_both.go_on(worker, [*late, b'{"type":"run_deleted","run_id":"run 2","revision":9}'])
    worker.wait_until(lambda: runs_in_memory(on_both) == (0, 6), "every run is closed again")
    redis_server.restart_empty()
    worker.wait_until(lambda: on_both.redis_keys("run 0"), "Redis hears of closed runs")
    on_both.wait_until_equal(worker)
    worker.restart()
    worker.wait_until(lambda: runs_in_memory(on_both) == (0, 6), "every run is closed after a restart")
    on_both.go_on(worker, trial_events(100, seed=3))
    assert on_both.redis_keys("run 2") <= {"versions"}


@pytest.mark.slow
def test_closed_runs_whose_pages_are_gone_come_back_from_the_event_log(on_embedded: Deployment) -> None:
    on_embedded.session = SESSION
    environment = {"STREAMER_RUN_IDLE_SECONDS": "1", "FAULT": "loses_pages"}
    worker = on_embedded.go_on(
        on_embedded.worker(module="tests.worker.faulty", environment=environment).start(), trial_events(300)
    )
    worker.wait_until(lambda: runs_in_memory(on_embedded) == (0, 6), "every run is closed")
    on_embedded.go_on(worker, trial_events(60, seed=2))
    assert worker.output.count("folding it again from the event log") >= 6


# -----------------------------------------------------------------------------
# R32: a correction that lacks what an earlier event had is named once a run.


async def test_r32_the_log_says_once_a_run_that_a_result_lacks_what_an_earlier_event_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    whole = [orjson.dumps(a_trial(run_id=run, task_id=task, cost_usd=1.0)) for run in "ab" for task in "12"]
    poorer = [orjson.dumps(a_trial(run_id="a", task_id=task, resolved=None, revision=1)) for task in "12"]
    await bench.handle(a_batch(0, whole))
    assert caplog.messages == []
    for at, event in enumerate(poorer, 4):
        await bench.handle(a_batch(at, [event]))
        await bench.settle()
    [message] = caplog.messages
    assert message.startswith("run 'a': a result lacks the verdict or cost that an earlier event")
    assert "trial_scored" in message


# -----------------------------------------------------------------------------
# What an owner answers others with is cut and drained: if it cannot be written, the worker ends.


@pytest.fixture
async def answering(monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, Fencing]:
    """A late scored trial of the first event stands over the second one's, which rests, its page unsaved."""
    bench, topic = Bench(), Names().scored_trials
    await bench.handle(a_batch(0, [orjson.dumps(a_trial(resolved=False))]))
    [older] = [out for outs in bench.broker.writes for out in outs if out.topic == topic]
    await bench.handle(a_batch(1, [orjson.dumps(a_trial(resolved=True, revision=1))]))

    async def highwaters(*places: Any) -> dict[Any, int]:
        return {place: 9 for place in places if place.topic == topic}

    async def read(*_: Any) -> dict[str, bytes | None]:
        return {(older.key or b"").decode(): older.value}

    app: Any = SimpleNamespace(event_consumer=SimpleNamespace(highwaters=highwaters))
    producer: Any = SimpleNamespace(take_foreign_ranges=lambda *_: [(8, 9)])
    fencing = Fencing(app, Settings(), bench.tables, bench.processor, producer)
    monkeypatch.setattr(fencing, "_read", read)
    bench.broker.writes.clear()
    return bench, fencing


async def test_an_answer_to_a_late_scored_trial_that_cannot_be_written_ends_the_worker(
    answering: tuple[Bench, Fencing], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, fencing = answering

    async def fail(_records: Any) -> None:
        raise KafkaError("away")

    monkeypatch.setattr(bench.broker, "write", fail)
    with pytest.raises(TimeoutError):  # a worker that gave up waits for its end
        await asyncio.wait_for(fencing.republish_overwritten(), 1)
    assert [str(crash) for crash in bench.app.crashes] == ["KafkaError: away"]
    assert bench.partition.abandoned


async def test_an_answer_to_a_late_scored_trial_follows_the_page_that_it_rests_on(
    answering: tuple[Bench, Fencing],
) -> None:
    bench, fencing = answering
    await fencing.republish_overwritten()
    assert bench.broker.topics == [{"trials-changelog"}, {"scored-trials"}]
    await bench.settle()
    assert not bench.partition.publish_queue
