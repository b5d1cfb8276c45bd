"""The processor's order of writes, with the broker replaced by a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from streamer.aggregate.changes import Cut
from streamer.pipeline import Pipeline, Record
from streamer.settings import Settings
from streamer.sinks.names import Names
from streamer.worker.alive import Pulse
from streamer.worker.app import faust_app
from streamer.worker.batches import Batch
from streamer.worker.idle import IdleRuns
from streamer.worker.meter import Meter
from streamer.worker.output import Out
from streamer.worker.pace import Pace
from streamer.worker.partition import Partition
from streamer.worker.processor import Processor
from streamer.worker.publishing import Publisher
from streamer.worker.tables import Tables
from tests.worker.deployment import trial_events


class Broker:
    """Takes writes and tells the tables of them; refuses those to one topic."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.writes: list[list[Out]] = []
        self.refuses: str | None = None

    async def write(self, records: Iterable[Out]) -> None:
        outs = list(records)
        if any(out.topic == self.refuses for out in outs):
            raise OSError("refused")
        for out in outs:
            self.tables.written(out.topic, out.partition, 0, [out])
        self.writes.append(outs)

    @property
    def topics(self) -> list[set[str]]:
        """Topics of each write that was not empty."""
        return [{out.topic for out in outs} for outs in self.writes if outs]


class Sink:
    """Counts what it gets."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.reconciled: list[Any] = []

    async def write(self, cuts: Sequence[Cut]) -> None:
        self.cuts += cuts

    async def reconcile(self, changes: Iterable[Any]) -> None:
        self.reconciled += changes


class App:
    """Notes a crash."""

    def __init__(self) -> None:
        self.crashes: list[BaseException] = []

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)


class Bench:
    """A processor with one partition and nothing real around it."""

    def __init__(self, *, position: int = 0, catch_up_to: int = 0, caught_up: bool = True) -> None:
        names = Names()
        tables = Tables(faust_app(Settings(), names), names, 1)
        for table in tables.all():
            table.rows.apply(0, [], None)
        self.app, self.broker, self.sink = App(), Broker(tables), Sink()
        self.behind = False
        publisher = Publisher(names, tables)
        self.tables, self.seconds = tables, 0.0
        clocks = (lambda: self.seconds,) * 2
        collaborators: Any = {
            "tables": tables,
            "publisher": publisher,
            "idle": IdleRuns(Settings(run_idle_seconds=60), tables, publisher, *clocks),
            "output": self.broker,
            "sink": self.sink,
            "pulse": Pulse(60),
            "meter": Meter(1),
            "waiting": lambda number, offset: 100_000 if self.behind else 0,
        }
        app: Any = self.app
        self.processor = Processor(app, 1, **collaborators)
        pipeline = Pipeline(writer="w")
        self.partition = Partition(0, 1, pipeline, position, catch_up_to, caught_up=caught_up)
        self.processor.partitions[0] = self.partition

    def batch(self, first: int, count: int) -> Batch:
        """A batch of events at these offsets."""
        values = trial_events(first + count)[first:]
        return Batch("trial-events", 0, [self._record(first + n, value) for n, value in enumerate(values)])

    def _record(self, offset: int, value: bytes) -> Any:
        return SimpleNamespace(
            topic="trial-events", partition=0, offset=offset, timestamp=0, key=None, value=value, headers=()
        )


@pytest.fixture
def bench() -> Bench:
    """A partition that has caught up."""
    return Bench()


async def test_pages_are_acknowledged_before_anything_else_is_written(bench: Bench) -> None:
    batch = bench.batch(0, 40)
    await bench.processor.handle(batch)
    assert bench.broker.topics[0] == {"trials-changelog"}
    assert {
        "run-summaries",
        "tier-summaries",
        "agent-model-summaries",
        "scored-trials",
    } <= bench.broker.topics[1]
    assert bench.sink.cuts
    assert batch.done


@pytest.mark.parametrize("topic", ["trials-changelog", "run-summaries", "scored-trials"])
async def test_a_batch_is_not_done_when_a_write_fails(bench: Bench, topic: str) -> None:
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    assert not batch.done
    assert not handling.done()
    handling.cancel()
    assert all("run-summaries" not in topics for topics in bench.broker.topics)


async def test_nothing_is_published_before_the_position_passes_what_was_recovered() -> None:
    bench = Bench(catch_up_to=80, caught_up=False)
    await bench.processor.handle(bench.batch(0, 40))
    assert bench.broker.topics == [{"trials-changelog"}]
    assert not bench.sink.cuts
    assert not bench.sink.reconciled
    await bench.processor.handle(bench.batch(40, 40))
    assert any("run-summaries" in topics for topics in bench.broker.topics)
    assert bench.sink.reconciled
    assert bench.partition.caught_up


async def test_after_a_recovery_only_what_differs_from_the_tables_is_published_again(bench: Bench) -> None:
    await bench.processor.handle(bench.batch(0, 40))
    bench.partition.caught_up = False
    bench.broker.writes.clear()
    rebuilt = Pipeline(writer="v")
    assert list(bench.processor.summaries()) == []
    rebuilt.fold(Record(value, offset) for offset, value in enumerate(trial_events(40)))
    bench.partition.pipeline = rebuilt
    await bench.processor.publish_passed()
    assert bench.broker.topics == []
    assert bench.partition.caught_up


@pytest.mark.parametrize("other_basis", [False, True])
async def test_after_a_recovery_scored_trials_come_last_unless_they_follow_from_another_basis(
    other_basis: bool,
) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.partition.mark = b"{}" if other_basis else None
    batch = bench.batch(0, 40)
    reconciled: list[int] = []

    async def reconcile(changes: Iterable[Any]) -> None:
        assert list(changes)
        reconciled.append(len(bench.broker.topics))

    bench.sink.reconcile = reconcile  # type: ignore[method-assign]
    await bench.processor.handle(batch)
    scored = [n for n, topics in enumerate(bench.broker.topics) if "scored-trials" in topics]
    summaries = [n for n, topics in enumerate(bench.broker.topics) if "run-summaries" in topics]
    assert scored
    assert bench.broker.topics[0] == {"trials-changelog"}
    if other_basis:
        assert scored[-1] < summaries[0] < reconciled[0]
    else:
        assert summaries[-1] < reconciled[0] <= scored[0]
    assert batch.done


@pytest.mark.parametrize("topic", ["run-summaries", "scored-trials"])
async def test_no_batch_is_done_when_what_was_recovered_cannot_be_published(topic: str) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    handling.cancel()
    assert not batch.done


async def test_batches_that_are_there_at_once_share_their_writes(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    first, second, third = bench.batch(0, 40), bench.batch(40, 40), bench.batch(0, 40)
    third.partition = 1
    await bench.processor.handle(first, second, third)
    assert [batch.done for batch in (first, second, third)] == [True] * 3
    assert (bench.partition.position, other.position) == (80, 40)
    pages, published = (outs for outs in bench.broker.writes if outs)
    assert {(out.topic, out.partition) for out in pages} == {("trials-changelog", n) for n in (0, 1)}
    assert len({(out.partition, out.key) for out in pages}) == len(pages)
    assert {out.partition for out in published} == {0, 1}
    apart = Bench()
    for batch in (apart.batch(0, 40), apart.batch(40, 40)):
        await apart.processor.handle(batch)
    assert last_values(bench.broker) == last_values(apart.broker)


class Stream:
    """Gives batches as Faust does: some are there, one comes later, and then it ends."""

    def __init__(self, *batches: Batch) -> None:
        self.channel = SimpleNamespace(queue=asyncio.Queue())
        *there, self.later = batches
        for batch in there:
            self.channel.queue.put_nowait(batch)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        while not self.channel.queue.empty():
            yield self.channel.queue.get_nowait()
        yield self.later


async def test_nothing_waits_for_a_batch_that_is_not_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.processor.RECORDS_TOGETHER", 90)
    handled: list[list[int]] = []

    async def note(*batches: Batch, ownership: int) -> None:
        handled.append([batch.last_offset for batch in batches])

    monkeypatch.setattr(bench.processor, "handle", note)
    await bench.processor.run(Stream(*(bench.batch(at, 40) for at in range(0, 200, 40))))
    assert handled == [[39, 79, 119], [159], [199]]


async def test_batches_from_before_a_rebalance_are_left_to_be_read_again(bench: Bench) -> None:
    old, new = bench.batch(0, 40), bench.batch(40, 40)
    old.partition = 7  # which is somebody else's now
    stream = Stream(old, new)
    taken = stream.channel.queue.empty

    def rebalanced() -> bool:
        if not taken():
            return False
        if bench.processor.ownership == 0:
            bench.processor.own(bench.processor.partitions)
            return False
        return True

    stream.channel.queue.put_nowait(new)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(stream.channel.queue, "empty", rebalanced)
    await bench.processor.run(stream)
    monkey.undo()
    assert not bench.app.crashes
    assert (old.folded, new.done) == (False, True)
    before = bench.partition.position
    await bench.processor.handle(bench.batch(80, 40), ownership=0)
    assert bench.partition.position == before


def last_values(broker: Broker) -> dict[tuple[str, bytes | None], Any]:
    """The last digest of each summary and scored trial of partition 0."""
    values = {
        (out.topic, out.key): out.value
        for outs in broker.writes
        for out in outs
        if out.partition == 0 and out.topic not in ("trials-changelog", "grade-changes")
    }
    return {place: value and orjson.loads(value)["digest"] for place, value in values.items()}


async def test_partitions_with_a_backlog_share_one_pace(bench: Bench) -> None:
    bench.processor.pace = Pace(now=lambda: 10.0)
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    bench.behind = True
    first, second, third = bench.batch(0, 40), bench.batch(0, 40), bench.batch(40, 40)
    second.partition = third.partition = 1
    await bench.processor.handle(first)
    assert first.done
    await bench.processor.handle(second)
    assert (second.done, bool(other.owed)) == (False, True)
    assert not bench.processor.is_due()
    bench.behind = False
    fourth = bench.batch(40, 40)
    await bench.processor.handle(fourth)
    assert (second.done, fourth.done, bool(other.owed)) == (True, True, False)
    await bench.processor.handle(third)
    assert third.done


async def test_with_a_backlog_the_latest_summaries_are_published_for_several_batches(bench: Bench) -> None:
    bench.processor.pace = Pace(now=lambda: 10.0)
    first, second, last = bench.batch(0, 40), bench.batch(40, 40), bench.batch(80, 40)
    bench.behind = True
    await bench.processor.handle(first)
    assert first.done  # nothing had been published before: the pace allowed it
    bench.broker.writes.clear()
    await bench.processor.handle(second)
    assert bench.broker.topics == [{"trials-changelog"}]
    assert (second.folded, second.done) == (True, False)
    bench.behind = False
    await bench.processor.handle(last)
    assert second.done
    assert last.done
    published = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    assert len(published) == len(set(published))


async def test_what_a_backlog_left_owing_is_published_without_another_batch(bench: Bench) -> None:
    bench.behind = True
    await bench.processor.handle(bench.batch(0, 40))
    owed = bench.batch(40, 40)
    await bench.processor.handle(owed)
    assert not owed.done
    await bench.processor.publish_owed()
    assert owed.done
    assert not bench.partition.owed


async def test_scored_trials_do_not_pile_up_while_summaries_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.processor.MOST_SCORED_WAITING", 50)
    monkeypatch.setattr("streamer.worker.emission.SCORED_PER_WRITE", 7)
    bench.behind = True
    await bench.processor.handle(bench.batch(0, 40))
    bench.broker.writes.clear()
    owed = [bench.batch(at, 40) for at in range(40, 200, 40)]
    for batch in owed:
        await bench.processor.handle(batch)
        waiting = sum(map(bench.partition.pipeline.scored_waiting, bench.partition.owed))
        assert waiting <= 50
    assert not any(batch.done for batch in owed)
    assert {"scored-trials"} in bench.broker.topics
    assert all("run-summaries" not in topics for topics in bench.broker.topics)
    await bench.processor.publish_owed()
    latest = {
        out.key: out.value for outs in bench.broker.writes for out in outs if out.topic == "scored-trials"
    }
    at_once = Bench()
    await at_once.processor.handle(at_once.batch(0, 200))
    wanted = {
        out.key: out.value for outs in at_once.broker.writes for out in outs if out.topic == "scored-trials"
    }
    digests = {key: value and orjson.loads(value)["digest"] for key, value in latest.items()}
    assert (
        digests.items()
        <= {key: value and orjson.loads(value)["digest"] for key, value in wanted.items()}.items()
    )
