"""The trials in flight of a run in Redis: guarded, deleted and restored with the run's other keys."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from redis import Redis

from streamer.client.queries import UnknownRun, UnreadableSummary
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.schemas.base import RUN as GROUP
from streamer.schemas.summaries import TrialInFlight
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import SCRIPT, Backlog, Keys, KeyState, Write, entry_of
from streamer.storage.redis import RedisSink
from tests.storage.conftest import MakeSink
from tests.support.builders import a_run_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.examples import examples
from tests.support.servers import RedisServer

KEYS = Keys()
RUN = "run/1"
IN_FLIGHT = KEYS.in_flight(RUN)
NOON = "2026-01-31T12:00:00Z"


def slot(task: str) -> dict[str, Any]:
    return {"run_id": RUN, "task_id": task, "agent": "a:b", "model": "m", "tier": "T0"}


def started(task: str, **fields: Any) -> dict[str, Any]:
    return {"type": "trial_started", **slot(task), **fields}


def result(task: str) -> dict[str, Any]:
    return {"type": "trial_result", **slot(task), "resolved": True}


class Worker:
    """A worker in small: folds events of a run and publishes what changed."""

    def __init__(self, make_sink: MakeSink, *, epoch: int = 1, offset: int = 0, **options: Any) -> None:
        self.epoch, self.pipeline = epoch, Pipeline(epoch=epoch)
        self.sink: RedisSink = make_sink(owner=self, **options)
        self.offset = offset

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def current(self, run_id: str) -> RunUpdate:
        run = self.pipeline.run(run_id)
        deleted = SummaryChange.tombstone(run_id, GROUP, self.epoch, run.state.state_version)
        return RunUpdate(
            run_id, run.summaries() or [deleted], run.in_flight_taken, run.comparisons.tasks_taken
        )

    def fold(self, *events: Mapping[str, Any]) -> None:
        records = [Record(orjson.dumps(event), self.offset + n) for n, event in enumerate(events)]
        assert self.pipeline.fold(records).rejections == []
        self.offset += len(events)

    async def publish(self, *events: Mapping[str, Any]) -> None:
        """Fold these events as one batch and publish the run."""
        self.fold(*events)
        await self.sink.write([self.pipeline.run(RUN).take_changes()])


@pytest.fixture
def worker(make_sink: MakeSink) -> Worker:
    return Worker(make_sink)


def the_trial(client: Redis, field: str) -> dict[str, Any]:
    trial: dict[str, Any] = orjson.loads(str(client.hget(IN_FLIGHT, field)))
    return trial


def counted(client: Redis) -> int:
    """Trials in flight as the run's summary counts them."""
    return int(orjson.loads(str(client.get(KEYS.run(RUN))))["in_flight"])


def tasks(client: Redis) -> list[str]:
    return sorted(orjson.loads(trial)["task_id"] for trial in client.hvals(IN_FLIGHT))


async def test_a_trial_is_listed_until_its_result_or_the_end_of_the_run(
    worker: Worker, client: Redis
) -> None:
    client.set(IN_FLIGHT, "not ours")
    await worker.publish(started("t|1", started_at=NOON, position=3), started("t2"))
    assert client.hgetall(IN_FLIGHT).keys() == {"|t%7C1|1|a%3Ab|m|T0|", "|t2|1|a%3Ab|m|T0|"}
    assert the_trial(client, "|t%7C1|1|a%3Ab|m|T0|") == {
        "shard": "",
        "task_id": "t|1",
        "attempt": 1,
        "agent": "a:b",
        "model": "m",
        "tier": "T0",
        "subtest": None,
        "started_at": NOON,
        "position": 3,
    }
    assert counted(client) == 2
    await worker.publish(result("t|1"))
    assert tasks(client) == ["t2"]
    await worker.publish(result("t2"))
    assert not client.exists(IN_FLIGHT)
    await worker.publish(started("t3"))
    assert tasks(client) == ["t3"]
    await worker.publish({"type": "run_finished", "run_id": RUN, "revision": 1})
    assert not client.exists(IN_FLIGHT)


async def test_a_start_that_changes_no_summary_changes_the_list(worker: Worker, client: Redis) -> None:
    await worker.publish(started("t", started_at=NOON))
    history = client.xlen(KEYS.history(RUN))
    await worker.publish(started("t", started_at="2026-01-31T11:00:00Z"))
    [trial] = client.hvals(IN_FLIGHT)
    assert orjson.loads(trial)["started_at"] == "2026-01-31T11:00:00Z"
    assert client.xlen(KEYS.history(RUN)) == history


async def test_of_more_than_a_thousand_the_longest_in_flight_are_listed(
    worker: Worker, redis_server: RedisServer, client: Redis
) -> None:
    starts = [started(f"t{n}", started_at=f"2026-01-31T12:{n // 60:02}:{n % 60:02}Z") for n in range(1_200)]
    await worker.publish(*reversed(starts), started("of unknown start"))
    assert counted(client) == 1_201
    with StateReader(Settings(redis=redis_server.url)) as reader:
        value = reader.in_flight(RUN)
    assert [trial.task_id for trial in value] == [f"t{n}" for n in range(1_000)]
    assert all(isinstance(trial, TrialInFlight) for trial in value)


async def test_readers_say_when_a_run_is_unknown_or_a_list_unreadable(
    worker: Worker, redis_server: RedisServer, client: Redis
) -> None:
    with StateReader(Settings(redis=redis_server.url)) as reader:
        with pytest.raises(UnknownRun):
            reader.in_flight(RUN)
        await worker.publish(result("t0"))
        assert reader.in_flight(RUN) == []
        await worker.publish(started("t1", started_at=NOON, position=7))
        [trial] = reader.in_flight(RUN)
        async with AsyncStateReader(Settings(redis=redis_server.url)) as pending:
            assert await pending.in_flight(RUN) == [trial]
        assert (trial.task_id, trial.position) == ("t1", 7)
        assert trial.started_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
        client.hset(IN_FLIGHT, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="in_flight"):
            reader.in_flight(RUN)


# -----------------------------------------------------------------------------
# Boards of the named metrics that a plan names, in Redis (R30).


BOARD, NAMED = KEYS.board(RUN, "metrics/reward"), KEYS.named_boards(RUN)
ACROSS, NAMED_ACROSS = KEYS.benchmark_board("bench", "metrics/reward"), KEYS.benchmark_named_boards("bench")


def plan(revision: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "run_started", "run_id": RUN, "benchmark": "bench", "revision": revision, **fields}


def result_of_named_boards(task: str, agent: str = "a", **metrics: float) -> dict[str, Any]:
    of = {"run_id": RUN, "task_id": task, "agent": agent, "model": "m"}
    return {"type": "trial_result", **of, "metrics": metrics}


REWARDED = plan(metrics={"reward": {"direction": "lower"}})


def board(client: Redis, key: str = BOARD) -> dict[Any, float]:
    return dict(client.zrange(key, 0, -1, withscores=True))


async def test_a_planned_metric_has_a_board_and_another_has_none(
    worker: Worker, client: Redis, redis_server: RedisServer
) -> None:
    await worker.publish(
        REWARDED,
        result_of_named_boards("t", reward=0.5, style=3.0),
        result_of_named_boards("t", "b", reward=0.25),
    )
    assert board(client) == {"a:m": 0.5, "b:m": 0.25}
    assert not client.exists(KEYS.board(RUN, "metrics/style"))
    await eventually(
        lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5, "run%2F1|b:m": 0.25}, "the board across runs"
    )
    with StateReader(Settings(redis=redis_server.url)) as reader:
        for benchmark in (None, "bench"):
            run = RUN if benchmark is None else None
            rows = reader.leaderboard("metrics/reward", run=run, benchmark=benchmark)
            assert [(row.rank, row.agent_model, row.value) for row in rows] == [
                (1, "b:m", 0.25),
                (2, "a:m", 0.5),
            ]
        [best] = reader.leaderboard("metrics/style", run=RUN)
        assert (best.agent_model, best.value) == ("a:m", 3.0)


async def test_a_metric_that_the_plan_drops_leaves_its_board(worker: Worker, client: Redis) -> None:
    await worker.publish(REWARDED, result_of_named_boards("t", reward=0.5))
    await worker.publish(plan(1, metrics={"style": {}}))
    assert not client.exists(BOARD)
    await eventually(lambda: not client.exists(ACROSS), "the board across runs")


async def test_a_retracted_agent_leaves_its_boards(worker: Worker, client: Redis) -> None:
    await worker.publish(
        REWARDED, result_of_named_boards("t", reward=0.5), result_of_named_boards("t", "b", reward=0.25)
    )
    await worker.publish(
        {"type": "trial_retracted", "run_id": RUN, "task_id": "t", "agent": "a", "model": "m", "revision": 1}
    )
    assert board(client) == {"b:m": 0.25}
    await eventually(lambda: board(client, ACROSS) == {"run%2F1|b:m": 0.25}, "the board across runs")


async def test_another_worker_corrects_a_board_across_runs(worker: Worker, client: Redis) -> None:
    await worker.publish(REWARDED, result_of_named_boards("t", reward=0.5))
    client.zadd(ACROSS, {"run%2F1|gone:m": 1.0})
    await worker.sink.reconcile([RUN])
    await eventually(lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5}, "the board across runs")


# -----------------------------------------------------------------------------
# All keys of a run together: its summaries, comparison, tasks, boards, and trials in flight.


OF_RUN = (KEYS.run(RUN), IN_FLIGHT, KEYS.comparisons(RUN), KEYS.tasks(RUN), BOARD, NAMED)


def whole_run(task: str = "t1", **fields: Any) -> list[dict[str, Any]]:
    """Events that fill every key of the run: a trial of two agents, and one in flight."""
    trials = [result_of_named_boards(task, agent, reward=0.5) for agent in ("a", "b")]
    trials = [trial | {"resolved": trial["agent"] == "a"} | fields for trial in trials]
    return [REWARDED, *trials, started("begun", tier=None, **fields)]


def stored(client: Redis) -> dict[str, Any]:
    """What each key of the run holds, its history and the mark of its writer aside."""
    read: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    keys = (k for k in client.scan_iter("*{run%2F1}*") if not k.endswith((":history", ":writer")))
    return {key: read[str(client.type(key))](key) for key in keys}


async def test_an_older_writer_replaces_nothing_and_brings_nothing_back(
    make_sink: MakeSink, client: Redis
) -> None:
    worker, zombie = Worker(make_sink, offset=17), Worker(make_sink, offset=3)
    await worker.publish(*whole_run())
    current = stored(client)
    assert set(OF_RUN) <= current.keys()
    await zombie.publish(*whole_run("stale"), started("staler", tier=None))
    assert stored(client) == current
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    await zombie.publish(started("staler still", tier=None))
    await zombie.sink.reconcile([RUN])
    assert client.keys("*{run%2F1}*") == [KEYS.versions(RUN)]
    await Worker(make_sink, epoch=2).publish(*whole_run("t2"))
    assert set(OF_RUN) <= stored(client).keys()
    assert sorted(client.hgetall(KEYS.tasks(RUN))) == ["begun", "t2"]


async def test_all_keys_converge_after_redis_was_away_and_came_back_empty(
    worker: Worker, redis_server: RedisServer, client: Redis
) -> None:
    await worker.publish(*whole_run())
    redis_server.kill()
    await worker.publish(whole_run("t2")[1])
    await worker.publish(whole_run("t2")[2], started("t3", tier=None))
    assert worker.sink.away
    redis_server.start()
    await eventually(lambda: worker.sink.unsent == 0 and not worker.sink.away, "the sink is done")
    entries: Any = client.xrange(KEYS.history(RUN))
    history = [(entry["kind"], entry["group"]) for _, entry in entries]
    assert len(history) == len(set(history)), "of what Redis missed, the latest of each key is announced"
    assert (tasks(client), board(client)) == (["begun", "t3"], {"a:m": 0.5, "b:m": 0.5})
    assert sorted(client.hgetall(KEYS.tasks(RUN))) == ["begun", "t1", "t2", "t3"]
    pairs = orjson.loads(str(client.get(KEYS.comparisons(RUN))))["pairs"]
    assert [(pair["wins"], pair["losses"]) for pair in pairs] == [(0, 0), (0, 0), (2, 0)]
    await eventually(
        lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5, "run%2F1|b:m": 0.5}, "the board across runs"
    )


async def test_a_reconcile_restores_lost_keys_and_removes_those_that_are_over(
    make_sink: MakeSink, client: Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(*whole_run())
    current = stored(client)
    for lost in (OF_RUN, (*client.scan_iter(),)):
        client.delete(*lost)
        await worker.sink.reconcile([RUN])
        assert stored(client) == current
        await eventually(lambda: len(board(client, ACROSS)) == 2, "the board across runs")
    successor = Worker(make_sink, offset=9)
    successor.fold(whole_run()[1])
    successor.pipeline.run(RUN).take_changes()
    await successor.sink.reconcile([RUN])
    assert not client.exists(IN_FLIGHT, KEYS.comparisons(RUN), BOARD)
    assert client.hgetall(KEYS.tasks(RUN)) == {"t1": '{"a:m":[1,1,0]}'}


async def test_all_keys_go_with_a_deleted_run_and_come_with_a_later_revision(
    worker: Worker, client: Redis
) -> None:
    await worker.publish(*whole_run(revision=5))
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    assert client.keys("*{run%2F1}*") == [KEYS.versions(RUN)]
    await eventually(lambda: not client.exists(ACROSS), "the board across runs")
    await worker.publish(*(event | {"revision": 10} for event in whole_run("t2")))
    assert set(OF_RUN) <= stored(client).keys()


async def test_all_keys_expire_with_the_run(make_sink: MakeSink, client: Redis) -> None:
    worker = Worker(make_sink, expire_seconds=1000)
    of_a_tier = result_of_named_boards("t2", reward=0.25) | {"tier": "T0"}
    await worker.publish(*whole_run(), of_a_tier)
    keys = set(client.scan_iter("*{run%2F1}*"))
    assert {*OF_RUN, KEYS.history(RUN), KEYS.versions(RUN), KEYS.tiers(RUN)} <= keys
    for key in keys:
        client.expire(key, 10)
    await worker.publish(of_a_tier | {"attempt": 2})
    assert [key for key in keys if not 900 < int(str(client.ttl(key))) <= 1000] == []
    await eventually(lambda: 0 < int(str(client.ttl(NAMED_ACROSS))) <= 1000, "the board across runs")


# -----------------------------------------------------------------------------
# What is older never replaces what is newer, in any interleaving of writers.


RUNS = itertools.count()


@dataclass
class Model:
    """What Redis must hold, in the words of docs/redis.md."""

    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    values: dict[str, SummaryChange] = field(default_factory=dict)
    deleted: tuple[int, int] = (0, -1)

    def write(self, change: SummaryChange) -> None:
        version = (change.epoch, change.state_version)
        if version < max(self.deleted, self.seen.get(change.kind, (0, -1))):
            return
        self.values.pop(change.kind, None)
        if change.value is not None:
            self.values[change.kind] = change
        elif change.kind == "run":
            self.deleted = version
            for kind in [kind for kind, seen in self.seen.items() if seen <= version]:
                self.values.pop(kind, None)
                del self.seen[kind]
        self.seen[change.kind] = version


def a_write(run: str, kind: str, epoch: int, version: int, deleted: bool, mark: int) -> SummaryChange:
    if kind == "run":
        benchmark = (None, "b", "c")[mark % 3]
        return a_run_change(
            run, epoch=epoch, version=version, deleted=deleted, trials=mark, benchmark=benchmark
        )
    return an_agent_model_change(
        run, epoch=epoch, version=version, deleted=deleted, trials=mark, accuracy=mark / 100
    )


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


VERSIONS = [*range(-1, 5), 9, 10, 2**53 - 2, 2**53 - 1]
"""As text, 10 comes before 9; as floats, the last two are near the limit of what Lua holds exactly."""

WRITES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["run", "agent_model"]),
        st.integers(1, 2),
        st.sampled_from(VERSIONS),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
NUMBERS = [(0, kind, 1, version, False) for version in VERSIONS for kind in ("run", "agent_model")]
LOWER_EPOCH = [(0, "run", 2, 3, False), (1, "run", 1, 9, False)]
AFTER_A_DELETION = [(0, "run", 1, 9, True), (1, "agent_model", 1, 4, False), (1, "run", 1, 4, False)]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=WRITES)
@example(NUMBERS[:16])
@example(NUMBERS[::-1])
@example(NUMBERS[-4:] * 2)
@example(LOWER_EPOCH)
@example(AFTER_A_DELETION)
def test_two_writers_in_any_order_leave_what_the_newest_of_them_said(
    runner: asyncio.Runner, redis_server: RedisServer, client: Redis, writes: list[Any]
) -> None:
    run, model = f"run {next(RUNS)}", Model()

    async def write_all() -> None:
        sinks = [RedisSink(redis_server.url, keys=KEYS) for _ in range(2)]
        for mark, (sink, kind, epoch, version, deleted) in enumerate(writes):
            change = a_write(run, kind, epoch, version, deleted, mark)
            model.write(change)
            await sinks[sink].write([an_update(change)])
        for sink in sinks:
            assert sink.unsent == 0
            await sink.close()

    runner.run(write_all())
    run_now, group_now = model.values.get("run"), model.values.get("agent_model")
    stored = [client.get(KEYS.run(run)), client.get(KEYS.agent_model(run, "claude", "opus"))]
    assert stored == [change and change.value and change.value.decode() for change in (run_now, group_now)]
    score = group_now.summary["accuracy"] if group_now and group_now.summary else None
    assert client.zscore(KEYS.board(run, "accuracy"), "claude:opus") == score
    benchmark = run_now.summary["benchmark"] if run_now and run_now.summary else None
    for name in ("b", "c"):
        actual = client.zscore(KEYS.benchmark_board(name, "accuracy"), f"{run}|claude:opus")
        assert actual == (score if name == benchmark else None)
    assert (client.zscore(KEYS.runs, run) is None) == (run_now is None)


# -----------------------------------------------------------------------------
# A batch of changes is one script per run, in one round trip.


async def test_a_batch_is_one_script_per_run_in_one_round_trip(sink: RedisSink, client: Redis) -> None:
    updates = [
        an_update(
            *[an_agent_model_change(run, f"a{n}", version=1) for n in range(5)], a_run_change(run, version=1)
        )
        for run in ("r1", "r2", "r3")
    ]
    await sink.write(updates)
    client.config_resetstat()
    await sink.write(updates)
    statistics = client.info("commandstats")
    assert statistics["cmdstat_eval"]["calls"] == 3
    assert not {name for name in statistics if name in ("cmdstat_multi", "cmdstat_watch", "cmdstat_exec")}


# -----------------------------------------------------------------------------
# What waits for Redis: the latest of each key, bounded.


def an_entry(run: str, version: int, *, deleted: bool = False, notify: bool = True) -> KeyState:
    return entry_of(a_run_change(run, version=version, deleted=deleted), notify=notify)


class Published:
    """An owner with one summary of each run."""

    def __init__(self, *runs: str) -> None:
        self.runs = runs

    def run_ids(self) -> tuple[str, ...]:
        return self.runs

    def current(self, run_id: str) -> RunUpdate:
        return RunUpdate(run_id, [a_run_change(run_id, version=7)] if run_id in self.runs else [])


def waiting(backlog: Backlog) -> list[tuple[str, int, bool]]:
    """Run, version and whether it is announced, of each entry that the next writes have."""
    writes = [sent(backlog, run_id) for run_id in backlog.runs()]
    return [(one.run_id, one.version[1], one.notify) for write in writes for one in write.entries]


def sent(backlog: Backlog, run_id: str = "r") -> Write:
    write = backlog.next_write(run_id, None)
    assert write is not None
    return write


def test_the_latest_of_each_key_waits() -> None:
    backlog = Backlog(None, 10)
    for version in (1, 3, 2):
        backlog.put(an_entry("r", version))
    assert waiting(backlog) == [("r", 3, True)]
    assert len(backlog) == 1


def test_news_that_a_silent_entry_overtook_stay_news() -> None:
    backlog = Backlog(None, 10)
    backlog.put(an_entry("r", 1, notify=True))
    backlog.put(an_entry("r", 2, notify=False))
    assert waiting(backlog) == [("r", 2, True)]


def test_an_entry_that_changed_while_it_was_sent_still_waits() -> None:
    backlog = Backlog(Published("r"), 10)
    backlog.put(an_entry("r", 1))
    write = sent(backlog)
    backlog.put(an_entry("r", 2))
    backlog.done(write)
    assert waiting(backlog) == [("r", 2, True)]


def test_a_run_that_came_into_doubt_while_it_was_sent_is_sent_whole() -> None:
    backlog = Backlog(Published("r"), 10)
    for doubtful in (False, True):
        backlog.put(an_entry("r", 1))
        write = sent(backlog)
        if doubtful:
            backlog.doubt("r")
        backlog.done(write)
        assert backlog.runs() == ["r"] * doubtful
        assert len(backlog) == 0
    again = sent(backlog)
    assert (again.whole, again.corrects, again.follows) == (True, True, "")
    backlog.done(again)
    assert waiting(backlog) == []


def test_a_write_that_failed_is_made_again_until_it_is_done() -> None:
    backlog = Backlog(Published("r"), 10)
    backlog.doubt("r")
    for _ in range(2):
        whole = sent(backlog)
        assert (whole.whole, whole.corrects) == (True, True)
        assert backlog.runs() == ["r"]
    backlog.done(whole)
    assert backlog.runs() == []
    backlog.put(an_entry("r", 8))
    for _ in range(2):
        changes = sent(backlog)
        assert (changes.whole, changes.follows) == (False, whole.mark)


def test_a_doubtful_run_without_an_owner_and_one_that_another_worker_owns_wait_no_longer() -> None:
    for owner, run in ((None, "r"), (Published("r"), "foreign")):
        backlog = Backlog(owner, 10)
        backlog.doubt(run)
        assert backlog.next_write(run, None) is None
        assert (backlog.runs(), len(backlog)) == ([], 0)


def test_a_run_that_does_not_wait_has_no_write() -> None:
    backlog = Backlog(Published("r"), 10)
    assert backlog.next_write("r", None) is None
    backlog.doubt("r")
    assert backlog.next_write("r", 4e9) is None
    assert backlog.next_write("r", None) is None


def test_deleted_runs_count_in_a_round_trip_although_they_have_no_bytes() -> None:
    backlog = Backlog(None, 10)
    backlog.put(an_entry("r", 1, deleted=True))
    assert sent(backlog).size >= len(SCRIPT)


def test_when_it_is_full_the_oldest_run_goes_whole_and_deleted_runs_come_last() -> None:
    backlog = Backlog(Published("deleted", "a", "b", "c"), 2)
    backlog.put(an_entry("deleted", 1, deleted=True))
    for run in ("a", "b", "c"):
        backlog.put(an_entry(run, 1))
    assert len(backlog) == 2
    assert backlog.in_order(["a", "b", "c", "other"]) == ["c", "a", "b"]
    told = [(run, notify) for run, _, notify in waiting(backlog)]
    assert told == [("deleted", True), ("a", False), ("b", False), ("c", True)]


def test_without_an_owner_nothing_is_dropped_and_what_another_worker_owns_by_now_is() -> None:
    backlog = Backlog(None, 2)
    for run in ("a", "b", "c"):
        backlog.put(an_entry(run, 1))
    assert len(backlog) == 3
    backlog = Backlog(Published("r"), 10)
    backlog.put(an_entry("foreign", 1))
    assert backlog.next_write("foreign", None) is None
    assert (backlog.runs(), len(backlog)) == ([], 0)


def test_a_run_that_has_expired_is_sent_only_with_news() -> None:
    backlog, much_later = Backlog(Published("r"), 10), 4e9
    backlog.doubt("r")
    backlog.put(an_entry("r", 1))
    with_news = backlog.next_write("r", much_later)
    assert with_news is not None
    backlog.done(with_news)
    backlog.doubt("r")
    assert backlog.next_write("r", much_later) is None
    assert backlog.runs() == []
