"""With a backlog, the queue is published some runs at a time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.worker.partition import Partition, PublishQueue, PublishRate
from streamer.worker.transport import FetchedBatch
from tests.support.events import a_start, a_trial
from tests.worker.deployment import folded, trial_events
from tests.worker.processor_bench import Bench

RUNS = 6
"""Of `Bench.batch`; event n belongs to run n modulo 6."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two runs are published together, and a publication is due at every tenth of a second."""
    monkeypatch.setattr("streamer.worker.publisher.RUNS_PER_WRITE", 2)
    made = Bench()
    made.processor.publish_rate = PublishRate(now=lambda: made.seconds)
    made.partition.publish_queue = PublishQueue(now=lambda: made.seconds)
    made.behind = True
    return made


def published(bench: Bench) -> list[str]:
    """Runs whose summaries were written since the last call, in order."""
    keys = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    bench.broker.writes.clear()
    return [(key or b"").decode() for key in keys]


def names(*numbers: int) -> list[str]:
    return [f"run {number}" for number in numbers]


async def test_the_runs_that_waited_for_the_longest_time_are_published_first(bench: Bench) -> None:
    first, second = bench.batch(0, 4), bench.batch(4, 40)
    await bench.processor.handle(first)  # of runs 0 to 3
    at_once, left = set(published(bench)), bench.partition.publish_queue.runs
    assert (len(at_once), at_once | left) == (2, {*names(0, 1, 2, 3)})
    await bench.processor.handle(second)  # of all of them
    assert published(bench) == []  # not due yet
    bench.seconds += 10.0
    await bench.processor.flush()
    assert {*published(bench)} == left
    assert (first.done, second.done) == (True, False)
    assert bench.partition.publish_queue.runs == {*names(4, 5)} | at_once
    for _ in range(2):
        assert not second.done
        bench.seconds += 10.0
        await bench.processor.flush()
    assert {*published(bench)} == {*names(4, 5)} | at_once
    assert second.done
    assert not bench.partition.publish_queue


async def test_batches_are_done_though_each_touches_runs_that_wait_already(bench: Bench) -> None:
    batches = [bench.batch(at, 12) for at in range(0, 240, 12)]  # each of all six runs
    done = []
    for batch in batches:
        await bench.processor.handle(batch)
        bench.seconds += 10.0
        done.append(sum(one.done for one in batches))
    assert done[-1] >= len(batches) - 2 * (RUNS // 2)
    assert done == sorted(done)


async def test_without_a_backlog_everything_is_published_at_once(bench: Bench) -> None:
    bench.behind = False
    batch = bench.batch(0, 40)
    await bench.processor.handle(batch)
    assert sorted(published(bench)) == names(*range(RUNS))
    assert batch.done


async def test_a_backlog_that_forms_meanwhile_ends_a_publication(bench: Bench) -> None:
    write = bench.broker.write

    async def write_slowly(records: Any) -> None:
        await write(records)
        bench.behind = True

    bench.behind, bench.broker.write = False, write_slowly  # type: ignore[method-assign]
    batch = bench.batch(0, 40)
    await bench.processor.handle(batch)
    assert len(published(bench)) == 2
    assert not batch.done
    await bench.processor.flush(seconds=60.0)
    assert len(published(bench)) == RUNS - 2
    assert batch.done


async def test_partitions_take_turns(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    bench.behind = False
    theirs = bench.batch(0, 40)
    theirs.partition = 1
    bench.behind = True
    bench.processor.publish_rate.published(took_seconds=1.0)
    await bench.processor.handle(bench.batch(0, 40), theirs)
    assert (len(other.publish_queue.runs), len(bench.partition.publish_queue.runs)) == (RUNS, RUNS)
    bench.seconds += 20.0
    await bench.processor.flush()
    assert (len(other.publish_queue.runs), len(bench.partition.publish_queue.runs)) == (RUNS - 1, RUNS - 1)


async def test_what_is_published_in_parts_is_what_is_published_at_once(bench: Bench) -> None:
    for at in range(0, 400, 40):
        await bench.processor.handle(bench.batch(at, 40))
        bench.seconds += 3.0
    await bench.processor.flush(seconds=60.0)
    told = {
        (out.key or b"").decode(): orjson.loads(out.value)["digest"]
        for outs in bench.broker.writes
        for out in outs
        if out.value is not None and out.topic.endswith("-summaries")
    }
    pipeline = Pipeline()
    pipeline.fold(Record(value, offset) for offset, value in enumerate(trial_events(400)))
    wanted = [change for run_id in pipeline.runs() for change in pipeline.run(run_id).summaries()]
    assert told == {change.key: change.digest for change in wanted}


async def test_runs_that_wait_for_long_are_published_in_half_of_the_time(bench: Bench) -> None:
    await bench.processor.handle(bench.batch(0, 40))
    bench.processor.publish_rate.published(took_seconds=1.0)
    bench.seconds += 2.0
    assert not bench.processor.is_due()
    bench.seconds = 61.0
    bench.processor.publish_rate.published(took_seconds=1.0)
    bench.seconds += 2.0
    assert bench.processor.is_due()


async def test_scored_trials_do_not_pile_up_while_every_turn_publishes_some_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.processor.MOST_SCORED_WAITING", 20)
    monkeypatch.setattr("streamer.worker.processor.MOST_UNCOUNTED", 10)
    for at in range(0, 400, 40):
        await bench.processor.handle(bench.batch(at, 40))
        bench.seconds += 10.0
        waiting, pipeline = bench.partition.publish_queue.runs, bench.partition.pipeline
        assert sum(pipeline.run(run_id).scored_waiting for run_id in waiting) <= 20
        assert sum(pipeline.run(run_id).state.counts.waiting for run_id in waiting) <= 10


def batch_of(bench: Bench, at: int, *events: dict[str, Any]) -> FetchedBatch:
    """A batch of these events, from offset `at` on."""
    values = enumerate(map(orjson.dumps, events), at)
    return FetchedBatch("trial-events", 0, [bench.record(offset, value) for offset, value in values])


async def test_starts_alone_publish_once_a_second_and_no_batch_waits_for_them(bench: Bench) -> None:
    bench.behind = False
    starts = [a_start(task_id=f"t{number}") for number in range(30)]
    batches = [batch_of(bench, at, starts[at]) for at in range(30)]
    for batch in batches:
        await bench.processor.handle(batch)
        bench.seconds += 0.1
    assert len(published(bench)) == 3
    assert all(batch.done for batch in batches)
    await bench.processor.handle(batch_of(bench, 30, a_trial(task_id="t0")))
    assert published(bench) == ["run-1"]  # a result is published at once, and the last starts with it
    await bench.processor.flush()
    assert published(bench) == []
    [summary] = [u for u in bench.sink.updates[-1].summaries if u.kind == "run"]
    assert (summary.summary or {})["in_flight"] == 29


async def test_at_the_end_of_a_worker_what_rests_is_published_too(bench: Bench) -> None:
    bench.behind = False
    for at in (0, 120):
        await bench.processor.handle(bench.batch(at, 120))
    assert bench.partition.publish_queue.runs, "comparisons rest"
    await bench.processor.flush(seconds=60.0)
    assert bench.partition.publish_queue.empty
    standing = {change.key: change.digest for change in bench.standing() if change.kind == "comparison"}
    assert standing == folded(trial_events(240))["run-comparisons"]


async def test_after_the_last_publication_a_batch_is_not_done_before_all_that_follows_from_it_is_published(
    bench: Bench,
) -> None:
    bench.behind = False
    await bench.processor.flush(seconds=60.0)
    starts = [batch_of(bench, at, a_start(task_id=f"t{at}")) for at in range(240, 243)]
    for batch in (bench.batch(0, 120), bench.batch(120, 120), *starts[:2]):
        await bench.processor.handle(batch)
        assert (batch.done, bench.partition.publish_queue.empty) == (True, True)
    bench.behind = True
    bench.processor.publish_rate.published(took_seconds=1.0)
    await bench.processor.handle(starts[2])
    assert (starts[2].done, bench.partition.publish_queue.runs) == (False, {"run-1"})
    standing = {change.key: change.digest for change in bench.standing() if change.kind == "comparison"}
    assert standing.items() >= folded(trial_events(240))["run-comparisons"].items()
