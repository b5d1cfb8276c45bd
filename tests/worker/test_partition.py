"""Checkpoints are written when something in them has changed, and wait until the pages are whole."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast
from unittest.mock import Mock

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from hypothesis import given as given_of
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.slots import SummaryChange
from streamer.schemas.wire import Quarantine, Record
from streamer.storage.kafka import MAX_MESSAGE_BYTES, Names, partition_of
from streamer.storage.log import BY_DELETION, BY_LOSS, quarantine_key
from streamer.storage.outbox import ProducerRecord, RecordsRefused
from streamer.worker.agents import BACKLOG_SECONDS, Together
from streamer.worker.partition import (
    FORWARDED,
    PUBLISH_SECONDS,
    Checkpoint,
    Partition,
    PublishQueue,
    RecordEncoder,
    checkpoint_key,
    reroute,
)
from streamer.worker.publisher import RUNS_AT_ONCE, RUNS_PER_WRITE, QuarantineWriter, _shares
from streamer.worker.transport import FetchedBatch, Watchdog
from tests.house.repository import ROOT
from tests.support.builders import a_run_change, an_agent_model_change
from tests.support.events import a_start, a_trial
from tests.support.eventually import eventually
from tests.worker.deployment import KINDS, Deployment, folded, summaries_of_fold, trial_events
from tests.worker.mutants import MUTANTS
from tests.worker.processor_bench import Bench, Broker, a_batch

RUNS = 6
"""Of `Bench.batch`; event n belongs to run n modulo 6."""


@pytest.fixture
def bench() -> Bench:
    """A partition that has caught up."""
    return Bench()


@pytest.fixture
def shortened(bench: Bench) -> Bench:
    """One that holds everything of a log whose first ten events were deleted."""
    bench.partition.checkpoint = Checkpoint(complete_from=0)
    bench.log_start = 10
    return bench


def checkpoints(bench: Bench) -> list[Checkpoint]:
    key = checkpoint_key(0).encode()
    return [Checkpoint.decoded(out.value) for outs in bench.broker.writes for out in outs if out.key == key]


async def test_events_that_were_deleted_before_they_were_folded_are_noted(shortened: Bench) -> None:
    await shortened.processor.checkpoints.note_deleted(shortened.partition, 4, 12)
    assert [checkpoint.lost for checkpoint in checkpoints(shortened)] == [((4, 10),)]


async def test_a_gap_behind_the_start_of_the_log_loses_nothing(shortened: Bench) -> None:
    """Such as the marker of a transaction."""
    await shortened.processor.checkpoints.note_deleted(shortened.partition, 10, 12)
    assert (shortened.broker.writes, shortened.log_start_asked) == ([], 1)


async def test_the_end_of_the_scored_trials_is_written_when_it_has_moved(shortened: Bench) -> None:
    writer = shortened.processor.checkpoints
    for end in (0, 7, 7):
        shortened.broker.scored_end = end
        await writer.note_scored(shortened.partition)
    assert [checkpoint.scored_to for checkpoint in checkpoints(shortened)] == [7]


async def test_while_a_partition_catches_up_its_checkpoint_waits(shortened: Bench) -> None:
    writer, partition = shortened.processor.checkpoints, shortened.partition
    partition.caught_up = False
    shortened.broker.scored_end = 7
    await writer.note_scored(partition)
    assert shortened.broker.writes == []
    assert not writer.can_note_scored(partition)
    for _ in range(2):
        await writer.write_pending(partition)
    assert [checkpoint.scored_to for checkpoint in checkpoints(shortened)] == [7]


async def test_pages_that_are_not_complete_have_no_checkpoint(bench: Bench) -> None:
    bench.partition.checkpoint = Checkpoint()
    bench.broker.scored_end = 7
    await bench.processor.checkpoints.note_scored(bench.partition)
    assert (bench.broker.writes, bench.partition.pending_checkpoint) == ([], None)


# -----------------------------------------------------------------------------
# The processor's order of writes, with the broker replaced by a list.


async def test_pages_are_acknowledged_before_all_else_and_the_rest_before_run_summaries(bench: Bench) -> None:
    batch = bench.batch(0, 40)
    await bench.handle(batch)
    assert bench.broker.topics[0] == {"trials-changelog"}
    assert {"tier-summaries", "agent-model-summaries", "scored-trials"} <= bench.broker.topics[1]
    assert bench.broker.topics[2] == {"run-summaries"}
    assert "run-summaries" not in bench.broker.topics[1]
    assert bench.sink.updates
    assert batch.done


async def test_a_worker_that_stood_still_for_its_session_writes_nothing_more(bench: Bench) -> None:
    seconds = 0.0

    def expire(gap: float) -> None:
        raise TimeoutError(f"stopped for {gap:g} s")

    check = Watchdog(10, now=lambda: seconds, expire=expire).check
    bench.processor.check_alive = bench.processor.summary_publisher.check_alive = check
    await bench.handle(bench.batch(0, 20))
    written = len(bench.broker.writes)
    seconds = 10.5
    late = bench.batch(20, 20)
    handling = asyncio.ensure_future(bench.handle(late))
    await eventually(lambda: bool(bench.app.crashes) or late.done, "the worker ends")
    assert (len(bench.broker.writes), late.done, handling.done()) == (written, False, False)
    handling.cancel()


async def test_runs_in_quarantine_keep_no_batch_waiting_and_count_no_event(bench: Bench) -> None:
    await bench.handle(bench.batch(0, 40))
    resting = bench.batch(40, 40)
    await bench.handle(resting)
    assert not resting.done
    for run_id in bench.partition.pipeline.runs():
        bench.partition.pipeline.fail(run_id, ArithmeticError("cannot be divided"))
    late = bench.batch(80, 40)
    await bench.handle(late)
    assert (resting.done, late.done, bench.partition.pipeline.runs()) == (True, True, [])
    assert bench.partition.quarantined_events == 40
    assert all(orjson.loads(change.value or b"{}")["degraded"] for change in bench.current())


@pytest.mark.parametrize("lost", [False, True])
async def test_a_run_that_fails_and_is_deleted_at_once_keeps_both(bench: Bench, lost: bool) -> None:
    await bench.handle(bench.batch(0, 40))
    partition, run_id = bench.partition, bench.partition.pipeline.runs()[0]
    if lost:
        partition.repairs[run_id] = BY_LOSS
    bench.sink.updates.clear()
    partition.pipeline.fail(run_id, ArithmeticError("cannot be divided"))
    partition.registry.delete_held(run_id, 5)
    await bench.processor.quarantine_writer.admit(partition)
    written = Quarantine.read(bench.tables.trials.get(quarantine_key(run_id)) or b"")
    assert (written.reason, written.deleted_to) == ("ArithmeticError: cannot be divided", 5)
    assert partition.repairs == {run_id: BY_DELETION}
    assert bool(bench.sink.updates) is not lost


async def test_nothing_is_published_before_the_position_passes_what_was_recovered() -> None:
    bench = Bench(catch_up_to=80, caught_up=False)
    await bench.handle(bench.batch(0, 40))
    assert bench.broker.topics == []
    assert not bench.sink.updates
    assert not bench.sink.reconciled
    await bench.handle(bench.batch(40, 40))
    assert any("run-summaries" in topics for topics in bench.broker.topics)
    assert bench.sink.reconciled
    assert bench.partition.caught_up


async def test_after_a_recovery_only_what_differs_from_the_tables_is_published_again(bench: Bench) -> None:
    await bench.handle(bench.batch(0, 40))
    bench.partition.caught_up = False
    bench.broker.writes.clear()
    rebuilt = Pipeline(writer="v")
    assert list(bench.processor.run_ids()) == []
    rebuilt.fold(Record(value, offset) for offset, value in enumerate(trial_events(40)))
    for run_id in rebuilt.runs():
        rebuilt.run(run_id).take_pages()  # as of a run that was joined from its pages
    bench.partition.pipeline = rebuilt
    await bench.processor.publish_passed()
    assert bench.broker.topics == []
    assert bench.partition.caught_up


async def test_the_start_of_the_log_is_asked_for_at_a_gap_only(bench: Bench) -> None:
    await bench.handle(*(bench.batch(first, 10) for first in (0, 10, 20)))
    assert bench.partition.position == 30
    assert bench.log_start_asked == 0
    await bench.handle(bench.batch(35, 5))
    assert bench.log_start_asked == 1


async def test_batches_that_are_there_at_once_share_their_writes(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    first, second, third = bench.batch(0, 40), bench.batch(40, 40), bench.batch(0, 40, partition=1)
    bench.behind = True
    await bench.handle(first, second, third)
    assert [batch.done for batch in (first, second, third)] == [True] * 3
    assert (bench.partition.position, other.position) == (80, 40)
    pages, published, runs = (outs for outs in bench.broker.writes if outs)
    assert {(out.topic, out.partition) for out in pages} == {("trials-changelog", n) for n in (0, 1)}
    assert len({(out.partition, out.key) for out in pages}) == len(pages)
    assert {out.partition for out in published} == {out.partition for out in runs} == {0, 1}
    quarantined = Bench()
    for batch in (quarantined.batch(0, 40), quarantined.batch(40, 40)):
        await quarantined.handle(batch)
    for one in (bench, quarantined):
        await one.settle()
    assert last_values(bench.broker) == last_values(quarantined.broker)


class Stream:
    """Gives batches as Faust does: some are there, one comes later, and then it ends."""

    def __init__(self, *batches: FetchedBatch) -> None:
        self.queue: asyncio.Queue[FetchedBatch] = asyncio.Queue()
        *there, self.later = batches
        for batch in there:
            self.queue.put_nowait(batch)

    async def __aiter__(self) -> AsyncIterator[FetchedBatch]:
        while not self.queue.empty():
            yield self.queue.get_nowait()
        yield self.later

    @property
    def drained(self) -> bool:
        return self.queue.empty()


async def test_nothing_waits_for_a_batch_not_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.worker.agents.RECORDS_TOGETHER", 90)
    handled: list[list[int]] = []

    async def note(*batches: FetchedBatch, ownership: int) -> None:
        handled.append([batch.last_offset for batch in batches])

    monkeypatch.setattr(bench, "handle", note)
    await bench.run(Stream(*(bench.batch(at, 40) for at in range(0, 200, 40))))
    assert handled == [[39, 79, 119], [159], [199]]


async def test_batches_from_before_a_rebalance_are_left_to_be_read_again(bench: Bench) -> None:
    old, new = bench.batch(0, 40, partition=7), bench.batch(40, 40)  # 7 is somebody else's now
    stream = Stream(old, new)
    taken = stream.queue.empty

    def rebalanced() -> bool:
        if not taken():
            return False
        if bench.processor.ownership == 0:
            bench.processor.own(bench.processor.partitions)
            return False
        return True

    stream.queue.put_nowait(new)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(stream.queue, "empty", rebalanced)
    await bench.run(stream)
    monkey.undo()
    assert not bench.app.crashes
    assert (old.folded, new.done) == (False, True)
    before = bench.partition.position
    await bench.handle(bench.batch(80, 40), ownership=0)
    assert bench.partition.position == before


def last_values(broker: Broker, *topics: str) -> dict[tuple[str, bytes | None], Any]:
    """The last digest of each summary and scored trial of partition 0, or of these topics alone."""
    values = {
        (out.topic, out.key): out.value
        for outs in broker.writes
        for out in outs
        if out.partition == 0 and out.topic in (topics or (*KINDS, "scored-trials"))
    }
    return {place: value and orjson.loads(value)["digest"] for place, value in values.items()}


async def test_a_run_that_rests_is_published_after_it_and_no_batch_is_done_before(bench: Bench) -> None:
    first, second = bench.batch(0, 40), bench.batch(40, 40)
    await bench.handle(first)
    assert first.done
    bench.broker.writes.clear()
    await bench.handle(second)
    assert bench.broker.topics == [], "neither pages nor summaries"
    assert (second.folded, second.done) == (True, False)
    bench.seconds += PUBLISH_SECONDS / 2
    await bench.processor.publish_due()
    assert not second.done
    await bench.settle()
    assert second.done
    assert not bench.partition.publish_queue
    published = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    assert len(published) == len(set(published)) == RUNS


async def test_partitions_with_a_backlog_share_the_rest_between_two_rounds(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(
        1, 1, Pipeline(writer="w"), 0, 0, caught_up=True, publish_queue=PublishQueue(lambda: bench.seconds)
    )
    bench.seconds, bench.behind = 100.0, True
    first, second = bench.batch(0, 40), bench.batch(0, 40, partition=1)
    await bench.handle(first)
    assert first.done, "nothing was published before"
    await bench.handle(second)
    assert (second.done, bool(other.publish_queue.runs)) == (False, True)
    bench.seconds += BACKLOG_SECONDS
    await bench.processor.publish_due()
    assert (second.done, bool(other.publish_queue.runs)) == (True, False)


async def test_when_a_backlog_is_over_the_clock_does_not_sleep_on(bench: Bench) -> None:
    bench.seconds, bench.behind = 100.0, True
    await bench.handle(bench.batch(0, 40))
    await bench.handle(bench.batch(40, 40))
    waiting = asyncio.ensure_future(bench.processor.until_due())
    await asyncio.sleep(0.05)
    assert not waiting.done(), "most of the rest is left"
    bench.behind = False
    bench.seconds += PUBLISH_SECONDS
    await bench.processor.queue(await bench.processor.fold(Together([bench.batch(80, 1)], 0)))
    async with asyncio.timeout(1):
        await waiting


async def test_a_rest_begins_when_its_round_ends(bench: Bench) -> None:
    bench.seconds, bench.behind = 100.0, True
    write = bench.broker.write

    async def write_slowly(records: Any) -> None:
        await write(records)
        bench.seconds += 1.0

    bench.broker.write = write_slowly  # type: ignore[method-assign]
    await bench.handle(bench.batch(0, 40))  # pages, summaries, and those of the runs
    bench.broker.write = write  # type: ignore[method-assign]
    waits = bench.batch(40, 40)
    bench.seconds += BACKLOG_SECONDS - 0.5
    await bench.handle(waits)
    assert not waits.done
    bench.seconds += 1.0
    await bench.processor.publish_due()
    assert waits.done


async def test_once_a_rebalance_begins_the_clock_stops(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.worker.publisher.RUNS_AT_ONCE", 2)
    bench.partition.publish_queue.published(names(*range(RUNS)))  # so that none is due at once
    batch = bench.batch(0, 40)
    await bench.handle(batch)
    bench.seconds += PUBLISH_SECONDS
    await bench.processor.publish_due(lambda: len(bench.broker.topics) < 2)
    assert (len(published(bench)), batch.done) == (2, False)
    await bench.processor.publish_due()
    assert batch.done


async def test_a_batch_without_a_run_is_done_though_it_came_in_a_backlog(bench: Bench) -> None:
    bench.seconds, bench.behind = 100.0, True
    await bench.handle(bench.batch(0, 40))
    broken = a_batch(40, [b"no event"])
    await bench.handle(broken)
    assert not broken.done
    bench.behind = False
    assert bench.partition.publish_queue.seconds_left() == 0.0, "the clock does not wait for another batch"
    await bench.processor.publish_due()
    assert broken.done


async def test_when_a_backlog_is_over_what_waits_is_published_at_once(bench: Bench) -> None:
    bench.seconds, bench.behind = 100.0, True
    batches = [bench.batch(at, 40) for at in (0, 40, 80)]
    for batch in batches:
        await bench.handle(batch)
    assert [batch.done for batch in batches] == [True, False, False]
    bench.behind = False
    await bench.settle()
    assert [batch.done for batch in batches] == [True, True, True]


async def test_few_scored_trials_wait_for_summaries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.worker.agents.MOST_SCORED_WAITING", 50)
    monkeypatch.setattr("streamer.worker.publisher.SCORED_PER_WRITE", 7)
    bench.seconds, bench.behind = 100.0, True
    await bench.handle(bench.batch(0, 40))
    bench.broker.writes.clear()
    queued = [bench.batch(at, 40) for at in range(40, 200, 40)]
    for batch in queued:
        await bench.handle(batch)
        runs = bench.partition.publish_queue.runs
        waiting = sum(bench.partition.pipeline.run(run_id).scored_waiting for run_id in runs)
        assert waiting <= 50
    assert not any(batch.done for batch in queued)
    assert {"scored-trials"} in bench.broker.topics
    assert bench.broker.topics.index({"trials-changelog"}) < bench.broker.topics.index({"scored-trials"})
    assert all("run-summaries" not in topics for topics in bench.broker.topics)
    await bench.processor.publish_last(9.0)
    at_once = Bench()
    await at_once.handle(at_once.batch(0, 200))
    latest, expected = (last_values(one.broker, "scored-trials") for one in (bench, at_once))
    assert latest.items() <= expected.items()


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """With a backlog. Two runs are published together, and a round ends with the first of its writes."""
    monkeypatch.setattr("streamer.worker.publisher.RUNS_PER_WRITE", 2)
    monkeypatch.setattr("streamer.worker.agents.ROUND_SECONDS", -1.0)
    made = Bench()
    made.seconds, made.behind = 100.0, True
    return made


def published(bench: Bench) -> list[str]:
    """Runs whose summaries were written since the last call, in order."""
    keys = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    bench.broker.writes.clear()
    return [(key or b"").decode() for key in keys]


def names(*numbers: int) -> list[str]:
    return [f"run {number}" for number in numbers]


@pytest.mark.parametrize(("behind", "together"), [(False, RUNS_AT_ONCE), (True, RUNS)])
async def test_without_a_backlog_few_runs_share_a_write(bench: Bench, behind: bool, together: int) -> None:
    bench.behind = behind
    await bench.handle(bench.batch(0, 40))
    of_runs = [outs for outs in bench.broker.writes if outs and outs[0].topic == "run-summaries"]
    assert sum(map(len, of_runs)) == RUNS
    assert max(map(len, of_runs)) == together


def a_partition(number: int, due: int, resting: int = 0) -> Partition:
    queue = PublishQueue()
    queue.add(names(*range(due + resting)))
    queue.published(names(*range(due, due + resting)))
    queue.add(names(*range(due, due + resting)))
    return Partition(number, 1, Pipeline(), 0, 0, caught_up=True, publish_queue=queue)


def test_many_runs_that_are_due_are_published_in_larger_parts() -> None:
    few, many, rests = a_partition(0, 2), a_partition(1, 400), a_partition(2, 0, resting=50)
    shares = _shares([rests, many, few], in_parts=True)
    together = [(partition.number, len(runs)) for partition, runs in shares]
    assert together == [(0, 2), (1, 23)], "an eighth of 202; what rests takes no share"
    [_, (_, backlog)] = _shares([many, few], in_parts=False)
    assert len(backlog) == RUNS_PER_WRITE - 2


async def test_the_runs_that_waited_for_the_longest_time_are_published_first(in_parts: Bench) -> None:
    first, second = in_parts.batch(0, 4), in_parts.batch(4, 40)
    await in_parts.handle(first)  # of runs 0 to 3
    at_once, left = set(published(in_parts)), set(in_parts.partition.publish_queue.runs)
    assert (len(at_once), at_once | left) == (2, {*names(0, 1, 2, 3)})
    await in_parts.handle(second)  # of all of them
    assert published(in_parts) == []  # not due yet
    in_parts.seconds += 10.0
    await in_parts.processor.publish_due()
    assert {*published(in_parts)} == left
    assert (first.done, second.done) == (True, False)
    assert {*in_parts.partition.publish_queue.runs} == {*names(4, 5)} | at_once
    for _ in range(2):
        assert not second.done
        in_parts.seconds += 10.0
        await in_parts.processor.publish_due()
    assert {*published(in_parts)} == {*names(4, 5)} | at_once
    assert second.done
    assert not in_parts.partition.publish_queue


@given_of(
    st.lists(st.integers(0, 2**RUNS - 1), min_size=20, max_size=60), st.integers(1, 3), st.integers(0, 2)
)
def test_no_batch_waits_for_more_than_one_turn_of_all_runs(touched: list[int], most: int, rest: int) -> None:
    """An endless stream over more runs than one round takes; every round publishes `most` of those due."""
    seconds = [0.0]
    queue = PublishQueue(lambda: seconds[0])
    waiting: list[tuple[int, FetchedBatch]] = []
    for step, runs in enumerate(touched):
        batch = FetchedBatch("t", 0, [])
        queue.add([f"run {run}" for run in range(RUNS) if runs >> run & 1], [batch])
        waiting.append((step, batch))
        queue.published(queue.due(most))
        done = queue.take_finished()[0]
        assert [one for _, one in waiting[: len(done)]] == done, "in order"
        waiting = waiting[len(done) :]
        oldest = waiting[0][0] if waiting else step
        assert step - oldest <= -(-RUNS // most) + rest, "one turn of all runs, and the rest of the last"
        seconds[0] += PUBLISH_SECONDS / (rest or 0.5)
    while queue:
        seconds[0] += PUBLISH_SECONDS
        assert queue.seconds_left() == 0.0 or not queue.runs
        queue.published(queue.due(most))
        queue.take_finished()
    assert queue.seconds_left() == math.inf


async def test_a_round_that_takes_long_ends_and_the_rest_follows_at_the_end(in_parts: Bench) -> None:
    batch = in_parts.batch(0, 40)
    await in_parts.handle(batch)
    assert len(published(in_parts)) == 2
    assert not batch.done
    await in_parts.processor.publish_last(60.0)
    assert len(published(in_parts)) == RUNS - 2
    assert batch.done


async def test_what_is_published_in_parts_is_what_is_published_at_once(in_parts: Bench) -> None:
    for at in range(0, 400, 40):
        await in_parts.handle(in_parts.batch(at, 40))
        in_parts.seconds += 3.0
    await in_parts.processor.publish_last(60.0)
    told = {
        (out.key or b"").decode(): orjson.loads(out.value)["digest"]
        for outs in in_parts.broker.writes
        for out in outs
        if out.value is not None and out.topic.endswith("-summaries")
    }
    assert told == {change.key: change.digest for change in summaries_of_fold(trial_events(400))}


async def test_few_scored_trials_wait_in_parts(in_parts: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.worker.agents.MOST_SCORED_WAITING", 20)
    monkeypatch.setattr("streamer.worker.agents.MOST_UNCOUNTED", 10)
    for at in range(0, 400, 40):
        await in_parts.handle(in_parts.batch(at, 40))
        in_parts.seconds += 10.0
        waiting, pipeline = (in_parts.partition.publish_queue.runs, in_parts.partition.pipeline)
        assert sum(pipeline.run(run_id).scored_waiting for run_id in waiting) <= 20
        assert sum(pipeline.run(run_id).state.counts.waiting for run_id in waiting) <= 10


def batch_of(at: int, *events: dict[str, Any]) -> FetchedBatch:
    return a_batch(at, map(orjson.dumps, events))


async def test_starts_and_results_alike_are_published_once_in_each_rest(bench: Bench) -> None:
    starts = [a_start(task_id=f"t{number}") for number in range(30)]
    batches = [batch_of(at, starts[at]) for at in range(30)]
    for batch in batches:
        await bench.handle(batch)
        bench.seconds += PUBLISH_SECONDS / 5.5
    assert len(published(bench)) == 1 + 29 // 6
    await bench.settle()
    assert all(batch.done for batch in batches)
    await bench.handle(batch_of(30, a_trial(task_id="t0")))
    await bench.settle()
    assert published(bench) == ["run-1"] * 2
    [summary] = [u for u in bench.sink.updates[-1].summaries if u.kind == "run"]
    assert (summary.summary or {})["in_flight"] == 29


async def test_at_the_end_what_rests_is_published_and_from_then_on_each_batch_at_once(bench: Bench) -> None:
    def comparisons() -> dict[str, str]:
        return {change.key: change.digest for change in bench.current() if change.kind == "comparison"}

    for at in (0, 120):
        await bench.handle(bench.batch(at, 120))
    assert bench.partition.publish_queue.runs
    await bench.processor.publish_last(60.0)
    assert not bench.partition.publish_queue
    assert comparisons() == folded(trial_events(240))["run-comparisons"]
    starts = [batch_of(at, a_start(task_id=f"t{at}")) for at in (480, 481)]
    for batch in (bench.batch(240, 120), bench.batch(360, 120), *starts):
        await bench.handle(batch)
        assert (batch.done, bool(bench.partition.publish_queue)) == (True, False)
    assert comparisons().items() >= folded(trial_events(480))["run-comparisons"].items()


async def test_what_is_due_is_waited_for_and_a_batch_that_is_queued_ends_the_wait(bench: Bench) -> None:
    waiting = asyncio.ensure_future(bench.processor.until_due())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    bench.partition.publish_queue.published(["run 0"])
    changes = await bench.processor.fold(Together([bench.batch(0, 40)], bench.processor.ownership))
    await bench.processor.queue(changes)
    async with asyncio.timeout(5):
        await waiting
    assert "run 0" not in bench.partition.publish_queue.due(9)


# -----------------------------------------------------------------------------
# What has to be published again: what differs from the tables, and what they hold beyond a run.


async def write(bench: Bench, *changes: SummaryChange) -> Any:
    """Publish these changes; the encoder, which knows it."""
    await bench.broker.write(bench.processor.encoder.of_summaries(0, changes))
    return bench.processor.encoder


async def test_a_summary_differs_by_its_content_and_not_by_when_it_was_touched(bench: Bench) -> None:
    change, tombstone = a_run_change(version=1), a_run_change(deleted=True)
    assert bench.processor.encoder.differs(change)
    assert not bench.processor.encoder.differs(tombstone), "it was never published"
    encoder = await write(bench, change)
    assert not encoder.differs(a_run_change(version=2))
    others = (a_run_change(version=1, trials=2), a_run_change(version=1, epoch=2), tombstone)
    assert all(map(encoder.differs, others))


async def test_groups_that_a_run_has_no_more_get_tombstones_of_their_own_version(bench: Bench) -> None:
    groups = [an_agent_model_change(version=3), an_agent_model_change("other", version=3)]
    encoder = await write(bench, a_run_change(version=3), *groups)
    [orphan] = encoder.orphans(encoder.published_groups(0)["r1"], [("run", "r1")], epoch=2)
    assert (orphan.run_id, orphan.kind, orphan.value) == ("r1", "agent_model", None)
    assert (orphan.epoch, orphan.state_version) == (2, 3)


async def test_what_the_tables_hold_of_a_run_reads_back(bench: Bench) -> None:
    change = an_agent_model_change("a|b", version=3)
    encoder = await write(bench, change, a_run_change("other"))
    groups = encoder.published_groups(0)
    assert groups == {"a|b": [(change.kind, change.key)], "other": [("run", "other")]}
    assert encoder.stored_of([*groups["a|b"], ("tier", "a|b|never published")]) == [change]


# -----------------------------------------------------------------------------
# A record is placed by where it lies, not by its headers.


HEADERS = [(FORWARDED, b"0:0"), ("other", b"kept")]


def test_a_copy_names_its_original_whatever_a_client_wrote() -> None:
    record = Record(b"{}", 7, partition=1, key=b"k", headers=HEADERS)
    [out] = reroute([(record, "run")], 4)
    assert (out.partition, out.key) == (partition_of("run", 4), b"run")
    assert out.headers == [("other", b"kept"), (FORWARDED, b"1:7")]


async def test_batches_of_several_partitions_leave_all_their_rejections_and_the_offset_of_each() -> None:
    processor = Bench().processor
    processor.own({number: Partition(number, 1, Pipeline(), 0, 0) for number in range(4)})
    batches = [
        FetchedBatch("trial-events", number, [Record(b"garbage", 7 + number, partition=number, key=b"k")])
        for number in range(4)
    ]
    changes = await processor.fold(Together(batches, processor.ownership))
    asides = [(aside.topic, aside.partition) for aside in changes.asides]
    assert asides == [(Names().trial_rejections, number) for number in range(4)]
    assert changes.next_offsets == {0: 8, 1: 9, 2: 10, 3: 11}


class SmallBroker:
    """Takes records of up to 960 bytes, headers included, and refuses the others."""

    def __init__(self) -> None:
        self.written: list[ProducerRecord] = []

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        large: list[ProducerRecord] = []
        for one in records:
            size = one.size + sum(len(name) + len(value) for name, value in one.headers)
            (large if size > 960 else self.written).append(one)
        if large:
            raise RecordsRefused(large)


@pytest.mark.parametrize(
    ("value", "header", "topics", "kept"),
    [(100, 3_000, ["trial-events"], True), (950, 0, ["trial-rejections"], False)],
    ids=["headers go", "no room"],
)
async def test_a_copy_that_the_broker_refuses_loses_its_headers_or_becomes_a_rejection(
    value: int, header: int, topics: list[str], kept: bool
) -> None:
    record = Record(b"x" * value, 7, partition=1, timestamp=5, headers=[("h", b"y" * header)])
    broker = SmallBroker()
    writer = QuarantineWriter(Mock(), RecordEncoder(Names(), Mock()), cast("Any", broker), Mock())
    await writer.write_aside(reroute([(record, "run 1")], 4))
    assert [one.topic for one in broker.written] == topics
    [written] = broker.written
    if kept:
        assert (written.value, written.headers) == (record.value, [(FORWARDED, b"1:7")])
    else:
        rejection = orjson.loads(written.value or b"")
        assert (rejection["code"], rejection["run_id"]) == ("misplaced_too_large", "run 1")
        assert (rejection["source_partition"], rejection["source_offset"]) == (1, 7)
        assert (rejection["source_value_bytes"], rejection["source_value_base64"]) == (value, None)


async def publish_with_headers(deployment: Deployment, events: list[bytes]) -> None:
    """Every event with the header of a forwarded copy, half of them in a wrong partition."""
    async with AIOKafkaProducer(bootstrap_servers=deployment.bootstrap) as producer:
        for number, event in enumerate(events):
            topic, place = deployment.names.trial_events, deployment.place(event) + number % 2
            place %= deployment.partitions
            await producer.send_and_wait(topic, event, partition=place, headers=HEADERS)


def test_a_header_that_clients_write_has_no_power(on_both: Deployment) -> None:
    on_both.session = 6.0
    worker = on_both.worker().start()
    events = trial_events(120)
    asyncio.run(publish_with_headers(on_both, events))
    on_both.published += events
    on_both.wait_until_equal(worker)
    assert on_both.records("trial-rejections") == []
    assert on_both.outcomes() == {"equal"}
    worker.restart()
    on_both.wait_until_equal(worker)


def test_a_misplaced_event_with_headers_up_to_the_limit_counts(on_kafka: Deployment) -> None:
    worker = on_kafka.worker().start()
    [event] = trial_events(1)
    header = [("h", os.urandom(MAX_MESSAGE_BYTES - len(event) - 100))]

    async def publish() -> None:
        options = {"bootstrap_servers": on_kafka.bootstrap, "max_request_size": 2 * MAX_MESSAGE_BYTES}
        async with AIOKafkaProducer(**options) as producer:
            place = (on_kafka.place(event) + 1) % on_kafka.partitions
            await producer.send_and_wait(on_kafka.names.trial_events, event, partition=place, headers=header)

    asyncio.run(publish())
    on_kafka.published.append(event)
    on_kafka.wait_until_equal(worker)


# -----------------------------------------------------------------------------
# The promises on which durability rests: the tests catch a worker that breaks one of them.


PARTITION, WORKER, FOREIGN = "test_partition.py", "test_worker.py", "test_foreign_records.py"
ORDER = "pages_are_acknowledged_before_all_else_and_the_rest_before_run_summaries"
IN_QUARANTINE = "runs_in_quarantine_keep_no_batch_waiting_and_count_no_event"
CAUGHT = {
    "summary_before_page": (PARTITION, ORDER),
    "run_summary_at_once": (PARTITION, ORDER),
    "batch_done_at_once": (PARTITION, "a_run_that_rests_is_published_after_it_and_no_batch_is_done_before"),
    "superseded_goes_on": (PARTITION, "a_worker_that_stood_still_for_its_session_writes_nothing_more"),
    "quarantined_counts": (PARTITION, IN_QUARANTINE),
    "quarantined_blocks": (PARTITION, IN_QUARANTINE),
    "closed_stays_closed": (
        WORKER,
        "a_worker_that_closes_runs_publishes_to_the_byte_what_one_does_that_never_closes",
    ),
    "epoch_goes_on": (FOREIGN, "a_log_shorter_than_its_pages_is_new[39-2]"),
}
"""Broken promise -> the file and the test that notice it."""


FAULT_WAIT_SECONDS = "15"
"""How long a test waits for what a broken promise keeps from coming; enough where none is broken, too."""


def outcome(mutant: str, *tests: tuple[str, str]) -> str:
    """What pytest says of tests of this folder where this fault is planted."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    nodes = [f"tests/worker/{file}::test_{name}" for file, name in tests]
    done = subprocess.run(
        [*argv, "-p", "tests.worker.mutants", *nodes],
        env=os.environ | {"MUTANT": mutant, "WAIT_SECONDS": FAULT_WAIT_SECONDS},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.stack
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
@pytest.mark.in_turn(2)
def test_a_broken_promise_is_noticed(mutant: str) -> None:
    assert "1 failed" in outcome(mutant, CAUGHT[mutant])


@pytest.mark.stack
def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    tests = sorted(set(CAUGHT.values()))
    assert f"{len(tests)} passed" in outcome("none", *tests)
