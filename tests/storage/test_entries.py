"""The keys across runs: boards of benchmarks and the list of runs."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from redis import Redis

from streamer.client.queries import UnknownRun, UnreadableSummary
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.storage.conftest import MakeSink
from tests.storage.hostile import HOSTILE, IDS
from tests.storage.make_docs import DOCUMENT, example_updates, with_table
from tests.storage.test_in_flight import RUN as RUN_OF_ENTRY
from tests.storage.test_in_flight import Worker
from tests.storage.test_in_flight import result_of_named_boards as result_of_entry
from tests.support.builders import (
    a_formulacode_summary,
    a_run_change,
    a_tier_change,
    an_agent_model_change,
    an_update,
)
from tests.support.eventually import eventually
from tests.support.owning import Owning
from tests.support.polling import Poller
from tests.support.servers import RedisServer

KEYS = Keys()


async def test_a_metric_that_becomes_unknown_and_an_agent_declared_a_baseline_leave_the_boards(
    sink: RedisSink, client: Redis
) -> None:
    await sink.write([an_update(a_run_change(benchmark="b"), an_agent_model_change(mean_cost=1.0))])
    await sink.write([an_update(an_agent_model_change(version=1, mean_cost=None))])
    assert not client.exists(KEYS.board("r1", "mean_cost"), KEYS.benchmark_board("b", "mean_cost"))
    assert client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy")) == 2
    await sink.write([an_update(an_agent_model_change(version=2, baseline=True))])
    assert not client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy"))
    assert client.exists(KEYS.agent_model("r1", "claude", "opus"))


async def test_a_plan_that_comes_late_or_changes_moves_the_run_between_benchmarks(
    make_sink: MakeSink, client: Redis
) -> None:
    sink = make_sink()

    def boards() -> dict[str, list[str]]:
        return {name: client.zrange(KEYS.benchmark_board(name, "accuracy"), 0, -1) for name in ("b", "c")}

    await sink.write([an_update(an_agent_model_change(), a_run_change())])
    assert boards() == {"b": [], "c": []}
    await sink.write([an_update(a_run_change(version=1, benchmark="b"))])
    assert boards() == {"b": ["r1|claude:opus"], "c": []}
    await make_sink().write([an_update(a_run_change(version=2, benchmark="c"))])
    assert boards() == {"b": [], "c": ["r1|claude:opus"]}
    await sink.write([an_update(an_agent_model_change(version=3, accuracy=0.5))])
    assert boards() == {"b": [], "c": ["r1|claude:opus"]}


async def test_a_run_stays_outdated_until_redis_takes_the_key_that_it_refused(
    make_sink: MakeSink, client: Redis
) -> None:
    owner = Owning()
    sink = make_sink(owner=owner)
    owner.put(a_run_change())
    await sink.write([an_update(a_run_change())])
    client.hset(KEYS.versions("r1"), "run", "4:1")
    await sink.write([an_update(a_run_change(version=5), an_agent_model_change(version=5))])
    assert (sink.outdated, sink.refusals) == (["r1"], 1)
    await sink.write([an_update(an_agent_model_change(version=6))])
    assert sink.outdated == ["r1"], "this write leaves out what was refused"
    await sink.write([an_update(a_run_change(version=7, epoch=5))])
    assert (sink.outdated, sink.refusals) == ([], 1)


async def test_runs_are_listed_by_the_time_of_their_last_event(sink: RedisSink, client: Redis) -> None:
    changes = [
        a_run_change("new", last_event_at="2026-01-02T03:04:05.250000Z"),
        a_run_change("timeless", last_event_at=None),
        a_run_change("old", last_event_at="2025-01-02T03:04:05Z"),
    ]
    await sink.write([an_update(change) for change in changes])
    listed = client.zrange(KEYS.runs, 0, -1, desc=True, withscores=True)
    assert listed == [("new", 1767323045.25), ("old", 1735787045.0), ("timeless", 0.0)]


# -----------------------------------------------------------------------------
# Whatever happens to Redis, a reader never sees a run whose keys do not belong together.


AGENTS, TIERS, RUNS = 6, 3, 3


class Folding:
    """A worker in small: folds events of some runs and publishes what changed."""

    def __init__(self, make_sink: MakeSink) -> None:
        self.pipeline = Pipeline()
        self.sink: RedisSink = make_sink(owner=self)
        self._random = random.Random(7)
        self._offset = 0

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def current(self, run_id: str) -> RunUpdate:
        known = self.pipeline.knows(run_id)
        return RunUpdate(run_id, self.pipeline.run(run_id).summaries() if known else [])

    async def step(self) -> None:
        """One event of each run; it changes one agent of many."""
        touched: set[str] = set()
        for number in range(RUNS):
            touched |= self.pipeline.fold([Record(self._event(f"run {number}"), self._offset)]).touched
            self._offset += 1
        await self.sink.write([self.pipeline.run(run_id).take_changes() for run_id in sorted(touched)])

    def _event(self, run_id: str) -> bytes:
        return orjson.dumps(
            {
                "type": "trial_result",
                "run_id": run_id,
                "task_id": f"task {self._offset}",
                "agent": f"agent {self._random.randrange(AGENTS)}",
                "model": "m",
                "tier": f"T{self._random.randrange(TIERS)}",
                "resolved": self._random.random() < 0.5,
            }
        )


@pytest.fixture
def poller(redis_server: RedisServer) -> Iterator[Poller]:
    with Poller(redis_server.url, [f"run {number}" for number in range(RUNS)]) as poller:
        yield poller


async def test_a_reader_never_sees_a_torn_run_through_flushes_and_reconciliations(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    folding = Folding(make_sink)
    for number in range(400):
        await folding.step()
        if number % 20 == 10:
            redis_server.flush()
        if number % 20 == 15:
            await asyncio.gather(folding.sink.reconcile(folding.run_ids()), folding.step())
    await eventually(lambda: poller.polls > 400, "enough reads")
    assert poller.torn == []


async def test_a_reader_never_sees_a_torn_run_when_redis_restarts_empty(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    folding = Folding(make_sink)
    for number in range(120):
        await folding.step()
        if number % 40 == 20:
            redis_server.restart_empty()
    await eventually(lambda: poller.polls > 100, "enough reads")
    assert poller.torn == []


@pytest.mark.in_turn(3)
async def test_a_worker_that_takes_over_from_another_never_tears_a_run(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    first, second = Folding(make_sink), Folding(make_sink)
    for number in range(200):
        await first.step()
        await second.step()
        if number % 10 == 5:
            redis_server.flush()
        if number % 10 == 7:
            await second.sink.reconcile(second.run_ids())
    assert poller.torn == []


async def test_the_reader_notices_a_part_of_another_state(
    make_sink: MakeSink, client: Redis, poller: Poller
) -> None:
    folding, key = Folding(make_sink), KEYS.of_run("run 0", "agent_model:agent 0:m")
    while not client.exists(key):
        await folding.step()
    earlier: Any = client.get(key)
    for _ in range(60):
        await folding.step()
    client.set(key, earlier)
    await eventually(lambda: poller.torn != [], "it is noticed")


# -----------------------------------------------------------------------------
# The comparison and the tasks of a run in Redis: guarded, deleted and restored with the run's other keys.


RUN = "run/1"
COMPARISONS, TASKS = KEYS.comparisons(RUN), KEYS.tasks(RUN)


@pytest.fixture
def worker(make_sink: MakeSink) -> Worker:
    return Worker(make_sink)


def result(agent: str, task: str, **fields: Any) -> dict[str, Any]:
    slot = {"run_id": RUN, "task_id": task, "agent": agent, "model": "m"}
    return {"type": "trial_result", **slot, "resolved": agent == "a", **fields}


def started_plan(**fields: Any) -> dict[str, Any]:
    return {"type": "run_started", "run_id": RUN, "tasks": 2, "attempts": 1, **fields}


def compared(client: Redis) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(str(client.get(COMPARISONS)))
    return value


def tasks(client: Redis) -> dict[str, Any]:
    return {task: orjson.loads(stored) for task, stored in client.hgetall(TASKS).items()}


async def test_both_follow_the_results_and_their_retraction(worker: Worker, client: Redis) -> None:
    await worker.publish(started_plan(), result("a", "t|1"))
    assert not client.exists(COMPARISONS)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}
    await worker.publish(result("b", "t|1"))
    [pair] = compared(client)["pairs"]
    assert (pair["wins"], pair["losses"], pair["unknown"]) == (1, 0, 1)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0], "b:m": [1, 0, 0]}}
    missing = {"type": "trial_retracted", "run_id": RUN, "task_id": "t|1", "agent": "b", "model": "m"}
    await worker.publish(missing | {"revision": 1})
    assert not client.exists(COMPARISONS)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}
    assert {fields["kind"] for _, fields in client.xrange(KEYS.history(RUN))} == {"agent_model", "run"}


async def test_tasks_beyond_what_lua_passes_at_once_are_all_there(worker: Worker, client: Redis) -> None:
    await worker.publish(*(result("a", f"t{number}") for number in range(5_000)))
    assert client.hlen(TASKS) == 5_000
    assert client.hget(TASKS, "t4999") == '{"a:m":[1,1,0]}'


async def test_readers_get_both_from_one_moment_or_say_what_is_wrong(
    worker: Worker, redis_server: RedisServer, client: Redis
) -> None:
    with StateReader(Settings(redis=redis_server.url)) as reader:
        with pytest.raises(UnknownRun):
            reader.comparison(RUN)
        await worker.publish(result("a", "t|1"))
        alone = reader.comparison(RUN)
        assert (alone.comparison, alone.tasks) == (None, {"t%7C1": {"a:m": (1, 1, 0)}})
        await worker.publish(started_plan(), result("b", "t|1"))
        value = reader.comparison(RUN)
        assert value.comparison is not None
        assert value.comparison.pairs[0].wins == 1
        async with AsyncStateReader(Settings(redis=redis_server.url)) as pending:
            assert await pending.comparison(RUN) == value
        client.hset(TASKS, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="tasks"):
            reader.comparison(RUN)


# -----------------------------------------------------------------------------
# docs/redis.md says what is the case: its table is generated, its examples are executed.


TEXT = DOCUMENT.read_text(encoding="utf-8")


BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
EXAMPLES: list[tuple[str, str]] = [
    example
    for block in BLOCKS
    for example in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
]
"""Command, and the output that the page shows for it (as redis-cli prints it where nobody looks on)."""


def test_the_page_has_examples_and_its_table_of_metrics_is_the_code() -> None:
    assert with_table(TEXT) == TEXT, "run: python -m tests.storage.make_docs"
    assert len(EXAMPLES) >= 10


def test_every_kind_of_key_is_described() -> None:
    ours = Keys()
    keys = [
        ours.run("RUN"),
        ours.agent_model("RUN", "AGENT", "MODEL"),
        ours.tier("RUN", "TIER"),
        ours.tier_agent_model("RUN", "TIER", "AGENT", "MODEL"),
        ours.board("RUN", "METRIC"),
        ours.agent_models("RUN"),
        ours.tiers("RUN"),
        ours.tier_agent_models("RUN", "TIER"),
        ours.named_boards("RUN"),
        ours.in_flight("RUN"),
        ours.comparisons("RUN"),
        ours.tasks("RUN"),
        ours.history("RUN"),
        ours.versions("RUN"),
        ours.writer("RUN"),
        ours.notices("RUN"),
        ours.runs,
        ours.benchmark_board("BENCHMARK", "METRIC"),
        ours.benchmark_named_boards("BENCHMARK"),
        ours.workers,
        ours.all_notices,
    ]
    assert [key for key in keys if f"| `{key}` |" not in TEXT] == []
    assert f"`{ours.updates}`" in TEXT


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
async def test_the_examples_print_what_the_page_says(
    sink: RedisSink, client: Redis, command: str, output: str
) -> None:
    await sink.heartbeat("w1", {}, at=datetime(2026, 1, 1, tzinfo=UTC))
    for update in example_updates():
        await sink.write([update])
    program, *words = shlex.split(command)
    assert program == "redis-cli"
    reply = client.execute_command(*words)
    lines = reply if isinstance(reply, list | set) else [reply]
    assert "".join(f"{line}\n" for line in lines) == output


# -----------------------------------------------------------------------------
# One key of a run on its way to Redis: its history and who is told.


async def test_every_emission_is_told_once_and_a_repeated_write_is_not(
    sink: RedisSink, client: Redis
) -> None:
    change = a_tier_change(
        "r:1", "T0", "a", "m", version=4, means={"pass_rate": 0.5, "composite_score": 0.25}
    )
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        for _ in range(3):
            await sink.write([an_update(change)])
        message = listener.get_message(timeout=5)
        assert message
        assert json.loads(message["data"]) == {
            "run": "r:1",
            "kind": "tier",
            "group": "T0:a:m",
            "key": "streamer:{r%3A1}:tier:T0:a:m",
            "deleted": False,
            "epoch": 1,
            "state_version": 4,
        }
        assert listener.get_message(timeout=0.05) is None
    [(_, entry)] = client.xrange(KEYS.history("r:1"))
    assert entry == {
        "kind": "tier",
        "group": "T0:a:m",
        "epoch": "1",
        "state_version": "4",
        "last_event_at": "2026-01-02T03:04:05Z",
        "trials": "1",
        "accuracy": "1.0",
        "pass_rate": "0.5",
        "composite_score": "0.25",
        "provisional": "false",
    }


async def test_a_deletion_that_is_sent_again_is_announced_once(make_sink: MakeSink, client: Redis) -> None:
    sink, builders = make_sink(), (a_tier_change, an_agent_model_change, a_run_change)
    await sink.write([an_update(*(build(version=1) for build in builders))])
    deletion = an_update(*(build(version=2, deleted=True) for build in builders))
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        for _ in range(2):
            await sink.write([deletion])
        told = [json.loads(listener.get_message(timeout=5)["data"]) for _ in range(3)]
        assert sorted(one["kind"] for one in told) == ["agent_model", "run", "tier"]
        assert listener.get_message(timeout=0.05) is None


async def test_the_history_of_an_agent_has_the_headline_numbers_of_formulacode(
    sink: RedisSink, client: Redis
) -> None:
    formulacode = a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125)
    await sink.write([an_update(an_agent_model_change("r", "a", "m", formulacode=formulacode))])
    [(_, entry)] = client.xrange(KEYS.history("r"))
    assert (entry["mean_speedup"], entry["agent_advantage"]) == ("1.25", "-0.125")


async def test_the_history_has_the_means_of_the_named_metrics_that_the_plan_names(
    worker: Worker, client: Redis
) -> None:
    plan = {"type": "run_started", "run_id": RUN_OF_ENTRY, "metrics": {"reward": {}, "not-yet": {}}}
    await worker.publish(plan, result_of_entry("t", reward=0.5, style=3.0), result_of_entry("u", reward=0.25))
    entries = {entry["kind"]: entry for _, entry in client.xrange(KEYS.history(RUN_OF_ENTRY))}
    named = {
        kind: {name: mean for name, mean in entry.items() if name.startswith("metrics/")}
        for kind, entry in entries.items()
    }
    assert named == {"run": {}, "agent_model": {"metrics/reward": "0.375"}}


# -----------------------------------------------------------------------------
# What stands where in Redis after a write.


async def test_the_bytes_of_the_topic_stand_under_the_keys_of_the_run(sink: RedisSink, client: Redis) -> None:
    changes = [
        a_run_change(version=3),
        an_agent_model_change(version=3),
        a_tier_change(tier="T1", version=3),
        a_tier_change(tier="T1", agent="claude", model="opus", version=3),
    ]
    await sink.write([an_update(*changes)])
    keys = ["run", "agent_model:claude:opus", "tier:T1", "tier:T1:claude:opus"]
    stored = [client.get(f"streamer:{{r1}}:{suffix}") for suffix in keys]
    assert stored == [change.value.decode() for change in changes if change.value]
    assert client.smembers(KEYS.agent_models("r1")) == {"claude:opus"}
    assert client.smembers(KEYS.tiers("r1")) == {"T1"}
    assert client.smembers(KEYS.tier_agent_models("r1", "T1")) == {"claude:opus"}
    assert client.hgetall(KEYS.versions("r1")) == dict.fromkeys(keys, "1:3")


async def test_boards_hold_every_metric_that_is_known_and_no_baseline(sink: RedisSink, client: Redis) -> None:
    good = an_agent_model_change(
        accuracy=0.5,
        cost_of_pass="Infinity",
        mean_cost=0.25,
        total_cost=0.1 + 0.2,
        means={"pass_rate": 0.75, "composite_score": "NaN", "duration_seconds": 12.5},
        formulacode=a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125),
    )
    await sink.write([an_update(good, an_agent_model_change(agent="nop"), a_run_change(benchmark="b|1"))])
    boards = {
        metric: dict(client.zrange(KEYS.board("r1", metric), 0, -1, withscores=True))
        for metric in BOARD_METRICS
    }
    assert {metric: board["claude:opus"] for metric, board in boards.items() if board} == {
        "accuracy": 0.5,
        "pass_rate": 0.75,
        "cost_of_pass": float("inf"),
        "mean_cost": 0.25,
        "total_cost": 0.1 + 0.2,
        "mean_duration": 12.5,
        "mean_speedup": 1.25,
        "agent_advantage": -0.125,
    }
    assert all(len(board) <= 1 for board in boards.values())
    for metric, board in boards.items():
        across = client.zrange(f"streamer:board:b%7C1:{metric}", 0, -1, withscores=True)
        assert across == [(f"r1|{label}", score) for label, score in board.items()]


async def test_a_group_that_emptied_leaves_its_version_alone(sink: RedisSink, client: Redis) -> None:
    groups = [an_agent_model_change(), a_tier_change(), a_tier_change(agent="claude", model="opus")]
    await sink.write([an_update(a_run_change(benchmark="b"), *groups)])
    missing = [
        an_agent_model_change(version=1, deleted=True),
        a_tier_change(version=1, deleted=True),
        a_tier_change(agent="claude", model="opus", version=1, deleted=True),
    ]
    await sink.write([an_update(*missing)])
    left = {key for key in client.scan_iter() if not key.endswith((":history", ":versions"))}
    assert left == {KEYS.run("r1"), KEYS.runs}
    assert client.hget(KEYS.versions("r1"), "tier:T0") == "1:1"


async def test_deleting_a_run_leaves_only_its_versions(make_sink: MakeSink, client: Redis) -> None:
    await make_sink().write(
        [
            an_update(a_run_change(benchmark="b"), an_agent_model_change(), a_tier_change()),
            an_update(a_run_change("other", benchmark="b"), an_agent_model_change("other")),
        ]
    )
    await make_sink().write([an_update(a_run_change(version=1, deleted=True))])
    assert set(client.scan_iter("*{r1}*")) == {KEYS.versions("r1")}
    assert client.zrange(KEYS.runs, 0, -1) == ["other"]
    assert client.zrange(KEYS.benchmark_board("b", "accuracy"), 0, -1) == ["other|claude:opus"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=IDS)
async def test_no_id_breaks_a_key(make_sink: MakeSink, client: Redis, hostile: str) -> None:
    keys, sink = Keys("name.space"), make_sink(keys=Keys("name.space"))
    changes = [
        a_run_change(hostile, benchmark=hostile),
        an_agent_model_change(hostile, hostile, hostile),
        a_tier_change(hostile, hostile),
        a_tier_change(hostile, hostile, hostile, hostile),
    ]
    await sink.write([an_update(*changes)])
    assert sink.unsent == 0
    of_run = {keys.run, keys.agent_models, keys.tiers, keys.history, keys.versions}
    assert set(client.scan_iter()) == {
        *(key(hostile) for key in of_run),
        keys.agent_model(hostile, hostile, hostile),
        keys.tier(hostile, hostile),
        keys.tier_agent_model(hostile, hostile, hostile, hostile),
        keys.tier_agent_models(hostile, hostile),
        keys.board(hostile, "accuracy"),
        keys.runs,
        keys.benchmark_board(hostile, "accuracy"),
    }
    await sink.write([an_update(a_run_change(hostile, version=1, deleted=True))])
    assert client.keys("*") == [keys.versions(hostile)]
