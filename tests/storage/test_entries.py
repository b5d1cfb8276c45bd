"""The keys across runs (boards of benchmarks, the list of runs), and what stands where after a write."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import shlex
from collections.abc import Iterator
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
from streamer.folding.slots import SummaryChange
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import TrialInFlight
from streamer.settings import Settings
from streamer.storage.entries import SCRIPT, Backlog, Keys, KeyState, Write, entry_of
from streamer.storage.redis import RedisSink
from tests.storage.hostile import HOSTILE, IDS
from tests.storage.make_docs import DOCUMENT, example_updates, with_table
from tests.storage.owner import KEYS, RUN, MakeSink, Worker, plan, result, retracted, rewarded, started
from tests.support.builders import (
    a_formulacode_summary,
    a_run_change,
    a_tier_change,
    an_agent_model_change,
    an_update,
)
from tests.support.events import Event, a_trial
from tests.support.eventually import eventually
from tests.support.examples import examples
from tests.support.owning import Owning
from tests.support.polling import Poller
from tests.support.servers import RedisServer


async def test_unknown_metrics_and_declared_baselines_leave_boards(sink: RedisSink, client: Redis) -> None:
    await sink.write([an_update(a_run_change(benchmark="b"), an_agent_model_change(mean_cost=1.0))])
    await sink.write([an_update(an_agent_model_change(version=1, mean_cost=None))])
    assert not client.exists(KEYS.board("r1", "mean_cost"), KEYS.benchmark_board("b", "mean_cost"))
    assert client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy")) == 2
    await sink.write([an_update(an_agent_model_change(version=2, baseline=True))])
    assert not client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy"))
    assert client.exists(KEYS.agent_model("r1", "claude", "opus"))


async def test_a_run_is_outdated_until_redis_takes_a_refused_key(make_sink: MakeSink, client: Redis) -> None:
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


class Folding(Worker):
    """A worker in small that folds one event after the other of some runs."""

    def __init__(self, make_sink: MakeSink) -> None:
        super().__init__(make_sink)
        self._random = random.Random(7)

    async def step(self) -> None:
        """One event of each run; it changes one agent of many."""
        await self.publish(*(self._event(number) for number in range(RUNS)))

    def _event(self, run: int) -> dict[str, Any]:
        return a_trial(
            run_id=f"run {run}",
            task_id=f"task {self.offset + run}",
            agent=f"agent {self._random.randrange(AGENTS)}",
            model="m",
            tier=f"T{self._random.randrange(TIERS)}",
            resolved=self._random.random() < 0.5,
        )


@pytest.fixture
def poller(redis_server: RedisServer) -> Iterator[Poller]:
    with Poller(redis_server.url, [f"run {number}" for number in range(RUNS)]) as poller:
        yield poller


@pytest.mark.parametrize(("restarts", "steps", "every"), [(False, 400, 20), (True, 120, 40)])
async def test_a_reader_never_sees_a_torn_run_while_redis_is_emptied_and_runs_are_reconciled(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller, restarts: bool, steps: int, every: int
) -> None:
    folding = Folding(make_sink)
    for number in range(steps):
        await folding.step()
        if number % every == every // 2:
            (redis_server.restart_empty if restarts else redis_server.flush)()
        if number % 20 == 15:
            await asyncio.gather(folding.sink.reconcile(folding.run_ids()), folding.step())
    await eventually(lambda: poller.polls > (100 if restarts else 400), "enough reads")
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


async def test_the_poller_notices_a_mixed_state(make_sink: MakeSink, client: Redis, poller: Poller) -> None:
    folding, key = Folding(make_sink), KEYS.of_run("run 0", "agent_model:agent 0:m")
    while not client.exists(key):
        await folding.step()
    earlier: Any = client.get(key)
    for _ in range(60):
        await folding.step()
    client.set(key, earlier)
    await eventually(lambda: poller.torn != [], "it is noticed")


def tasks(client: Redis) -> dict[str, Any]:
    return {task: orjson.loads(stored) for task, stored in client.hgetall(KEYS.tasks(RUN)).items()}


async def test_both_follow_the_results_and_their_retraction(worker: Worker, client: Redis) -> None:
    await worker.publish(plan(tasks=2, attempts=1), result("t|1"))
    assert not client.exists(KEYS.comparisons(RUN))
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}
    await worker.publish(result("t|1", "b", resolved=False))
    [pair] = orjson.loads(str(client.get(KEYS.comparisons(RUN))))["pairs"]
    assert (pair["wins"], pair["losses"], pair["unknown"]) == (1, 0, 1)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0], "b:m": [1, 0, 0]}}
    await worker.publish(retracted("t|1", "b"))
    assert not client.exists(KEYS.comparisons(RUN))
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}
    assert {fields["kind"] for _, fields in client.xrange(KEYS.history(RUN))} == {"agent_model", "run"}


async def test_tasks_beyond_what_lua_passes_at_once_are_all_there(worker: Worker, client: Redis) -> None:
    await worker.publish(*(result(f"t{number}") for number in range(5_000)))
    assert client.hlen(KEYS.tasks(RUN)) == 5_000
    assert client.hget(KEYS.tasks(RUN), "t4999") == '{"a:m":[1,1,0]}'


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
    of_run = [KEYS.run, KEYS.agent_models, KEYS.tiers, KEYS.named_boards, KEYS.in_flight, KEYS.comparisons]
    of_run += [KEYS.tasks, KEYS.history, KEYS.versions, KEYS.writer, KEYS.notices]
    keys = [
        *[key("RUN") for key in of_run],
        KEYS.agent_model("RUN", "AGENT", "MODEL"),
        KEYS.tier("RUN", "TIER"),
        KEYS.tier_agent_model("RUN", "TIER", "AGENT", "MODEL"),
        KEYS.tier_agent_models("RUN", "TIER"),
        KEYS.board("RUN", "METRIC"),
        KEYS.benchmark_board("BENCHMARK", "METRIC"),
        KEYS.benchmark_named_boards("BENCHMARK"),
        *(KEYS.runs, KEYS.workers, KEYS.all_notices),
    ]
    assert [key for key in keys if f"| `{key}` |" not in TEXT] == []
    assert f"`{KEYS.updates}`" in TEXT


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
async def test_the_pages_examples_are_true(sink: RedisSink, client: Redis, command: str, output: str) -> None:
    await sink.heartbeat("w1", {}, at=datetime(2026, 1, 1, tzinfo=UTC))
    for update in example_updates():
        await sink.write([update])
    program, *words = shlex.split(command)
    assert program == "redis-cli"
    reply = client.execute_command(*words)
    lines = reply if isinstance(reply, list | set) else [reply]
    assert "".join(f"{line}\n" for line in lines) == output


async def test_every_emission_is_told_once_a_repeated_one_not(sink: RedisSink, client: Redis) -> None:
    means = {"pass_rate": 0.5, "composite_score": 0.25}
    change = a_tier_change("r:1", "T0", "a", "m", version=4, means=means)
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


async def test_the_history_of_an_agent_has_formulacodes_numbers(sink: RedisSink, client: Redis) -> None:
    formulacode = a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125)
    await sink.write([an_update(an_agent_model_change("r", "a", "m", formulacode=formulacode))])
    [(_, entry)] = client.xrange(KEYS.history("r"))
    assert (entry["mean_speedup"], entry["agent_advantage"]) == ("1.25", "-0.125")


async def test_the_history_has_the_means_of_planned_metrics(worker: Worker, client: Redis) -> None:
    named = plan(metrics={"reward": {}, "not-yet": {}})
    await worker.publish(named, rewarded("t", reward=0.5, style=3.0), rewarded("u", reward=0.25))
    means = {
        entry["kind"]: {name: mean for name, mean in entry.items() if name.startswith("metrics/")}
        for _, entry in client.xrange(KEYS.history(RUN))
    }
    assert means == {"run": {}, "agent_model": {"metrics/reward": "0.375"}}


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
    boards = {metric: board(client, KEYS.board("r1", metric)) for metric in BOARD_METRICS}
    assert {metric: scores["claude:opus"] for metric, scores in boards.items() if scores} == {
        "accuracy": 0.5,
        "pass_rate": 0.75,
        "cost_of_pass": float("inf"),
        "mean_cost": 0.25,
        "total_cost": 0.1 + 0.2,
        "mean_duration": 12.5,
        "mean_speedup": 1.25,
        "agent_advantage": -0.125,
    }
    assert all(len(scores) <= 1 for scores in boards.values())
    for metric, scores in boards.items():
        across = {f"r1|{label}": score for label, score in scores.items()}
        assert board(client, f"streamer:board:b%7C1:{metric}") == across


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


# -----------------------------------------------------------------------------
# All keys of a run, its trials in flight among them: guarded, deleted and restored together.


IN_FLIGHT, TASKS, COMPARISONS = KEYS.in_flight(RUN), KEYS.tasks(RUN), KEYS.comparisons(RUN)
NOON = "2026-01-31T12:00:00Z"


def counted(client: Redis) -> int:
    return int(orjson.loads(str(client.get(KEYS.run(RUN))))["in_flight"])


def tasks_in_flight(client: Redis) -> list[str]:
    return sorted(orjson.loads(trial)["task_id"] for trial in client.hvals(IN_FLIGHT))


async def test_a_trial_is_listed_until_its_result_or_the_run_ends(worker: Worker, client: Redis) -> None:
    client.set(IN_FLIGHT, "not ours")
    await worker.publish(started("t|1", tier="T0", started_at=NOON, position=3), started("t2"))
    listed = client.hgetall(IN_FLIGHT)
    assert listed.keys() == {"|t%7C1|1|a%3Ab|m|T0|", "|t2|1|a%3Ab|m||"}
    assert orjson.loads(listed["|t%7C1|1|a%3Ab|m|T0|"]) == {
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
    await worker.publish(result("t|1", "a:b", tier="T0"))
    assert tasks_in_flight(client) == ["t2"]
    await worker.publish(result("t2", "a:b"))
    assert not client.exists(IN_FLIGHT)
    await worker.publish(started("t3", started_at=NOON))
    assert tasks_in_flight(client) == ["t3"]
    told = client.xlen(KEYS.history(RUN))
    await worker.publish(started("t3", started_at="2026-01-31T11:00:00Z"))
    [trial] = map(orjson.loads, client.hvals(IN_FLIGHT))
    assert trial["started_at"] == "2026-01-31T11:00:00Z"
    assert client.xlen(KEYS.history(RUN)) == told, "the start changes no summary"
    await worker.publish({"type": "run_finished", "run_id": RUN, "revision": 1})
    assert not client.exists(IN_FLIGHT)


async def test_the_longest_1000_are_listed(worker: Worker, redis_server: RedisServer, client: Redis) -> None:
    starts = [started(f"t{n}", started_at=f"2026-01-31T12:{n // 60:02}:{n % 60:02}Z") for n in range(1_200)]
    await worker.publish(*reversed(starts), started("of unknown start"))
    assert counted(client) == 1_201
    with StateReader(Settings(redis=redis_server.url)) as reader:
        value = reader.in_flight(RUN)
    assert [trial.task_id for trial in value] == [f"t{n}" for n in range(1_000)]
    assert all(isinstance(trial, TrialInFlight) for trial in value)


async def test_readers_get_a_run_from_one_moment_or_say_what_is_wrong(
    worker: Worker, redis_server: RedisServer, client: Redis
) -> None:
    settings = Settings(redis=redis_server.url)
    with StateReader(settings) as reader:
        for ask in (reader.in_flight, reader.comparison):
            with pytest.raises(UnknownRun):
                ask(RUN)
        await worker.publish(result("t|1"))
        alone = reader.comparison(RUN)
        assert (alone.comparison, alone.tasks) == (None, {"t%7C1": {"a:m": (1, 1, 0)}})
        assert reader.in_flight(RUN) == []
        await worker.publish(plan(tasks=2, attempts=1), result("t|1", "b", resolved=False))
        await worker.publish(started("t1", "a", started_at=NOON, position=7))
        value, [trial] = reader.comparison(RUN), reader.in_flight(RUN)
        assert value.comparison is not None
        assert value.comparison.pairs[0].wins == 1
        assert (trial.task_id, trial.position) == ("t1", 7)
        assert trial.started_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
        async with AsyncStateReader(settings) as pending:
            assert (await pending.comparison(RUN), await pending.in_flight(RUN)) == (value, [trial])
        client.hset(IN_FLIGHT, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="in_flight"):
            reader.in_flight(RUN)
        client.hset(TASKS, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="tasks"):
            reader.comparison(RUN)


# -----------------------------------------------------------------------------
# Boards of the named metrics that a plan names, in Redis (R30).


BOARD, NAMED = KEYS.board(RUN, "metrics/reward"), KEYS.named_boards(RUN)
ACROSS, NAMED_ACROSS = KEYS.benchmark_board("bench", "metrics/reward"), KEYS.benchmark_named_boards("bench")


REWARDED = plan(benchmark="bench", metrics={"reward": {"direction": "lower"}})


def board(client: Redis, key: str = BOARD) -> dict[Any, float]:
    return dict(client.zrange(key, 0, -1, withscores=True))


async def across(client: Redis, expected: dict[str, float]) -> None:
    """Wait until the board across runs has these scores, by agent:model of the run."""
    members = {f"run%2F1|{label}": score for label, score in expected.items()}
    await eventually(lambda: board(client, ACROSS) == members, "the board across runs")


async def test_planned_metrics_have_boards(worker: Worker, client: Redis, redis_server: RedisServer) -> None:
    await worker.publish(REWARDED, rewarded("t", reward=0.5, style=3.0), rewarded("t", "b", reward=0.25))
    assert board(client) == {"a:m": 0.5, "b:m": 0.25}
    assert not client.exists(KEYS.board(RUN, "metrics/style"))
    await across(client, {"a:m": 0.5, "b:m": 0.25})
    with StateReader(Settings(redis=redis_server.url)) as reader:
        of_run = reader.leaderboard("metrics/reward", run=RUN)
        for rows in (of_run, reader.leaderboard("metrics/reward", benchmark="bench")):
            ranked = [(row.rank, row.agent_model, row.value) for row in rows]
            assert ranked == [(1, "b:m", 0.25), (2, "a:m", 0.5)]
        [best] = reader.leaderboard("metrics/style", run=RUN)
        assert (best.agent_model, best.value) == ("a:m", 3.0)


@pytest.mark.parametrize(
    ("event", "left"),
    [(plan(benchmark="bench", revision=1, metrics={"style": {}}), {}), (retracted("t", "a"), {"b:m": 0.25})],
    ids=["the plan drops the metric", "an agent is retracted"],
)
async def test_what_is_no_more_leaves_its_boards(
    worker: Worker, client: Redis, event: Event, left: dict[str, float]
) -> None:
    await worker.publish(REWARDED, rewarded("t", reward=0.5), rewarded("t", "b", reward=0.25))
    await worker.publish(event)
    assert board(client) == left
    await across(client, left)


async def test_another_worker_corrects_a_board_across_runs(worker: Worker, client: Redis) -> None:
    await worker.publish(REWARDED, rewarded("t", reward=0.5))
    client.zadd(ACROSS, {"run%2F1|gone:m": 1.0})
    await worker.sink.reconcile([RUN])
    await across(client, {"a:m": 0.5})


OF_RUN = (KEYS.run(RUN), IN_FLIGHT, COMPARISONS, TASKS, BOARD, NAMED)


def whole_run(task: str = "t1", **fields: Any) -> list[Event]:
    """Events that fill every key of the run: a trial of two agents, and one in flight."""
    trials = [rewarded(task, agent, reward=0.5) | {"resolved": agent == "a"} | fields for agent in "ab"]
    return [REWARDED, *trials, started("begun", **fields)]


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


async def test_an_older_writer_replaces_and_brings_back_nothing(make_sink: MakeSink, client: Redis) -> None:
    worker, zombie = Worker(make_sink, offset=17), Worker(make_sink, offset=3)
    await worker.publish(*whole_run(), rewarded("t1", "only here", reward=0.5))
    current, told = stored(client), client.xlen(KEYS.history(RUN))
    assert set(OF_RUN) <= current.keys()
    await zombie.publish(*whole_run("stale"), started("staler"))
    assert stored(client) == current
    await zombie.sink.reconcile([RUN])
    assert (stored(client), client.xlen(KEYS.history(RUN))) == (current, told)
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    await zombie.publish(started("staler still"))
    await zombie.sink.reconcile([RUN])
    assert client.keys("*{run%2F1}*") == [KEYS.versions(RUN)]
    await Worker(make_sink, epoch=2).publish(*whole_run("t2"))
    assert set(OF_RUN) <= stored(client).keys()
    assert sorted(client.hgetall(TASKS)) == ["begun", "t2"]


async def test_all_keys_survive_an_outage(worker: Worker, redis_server: RedisServer, client: Redis) -> None:
    await worker.publish(*whole_run())
    redis_server.kill()
    await worker.publish(whole_run("t2")[1])
    await worker.publish(whole_run("t2")[2], started("t3"))
    assert worker.sink.away
    redis_server.start()
    await eventually(lambda: worker.sink.unsent == 0 and not worker.sink.away, "the sink is done")
    entries: Any = client.xrange(KEYS.history(RUN))
    history = [(entry["kind"], entry["group"]) for _, entry in entries]
    assert len(history) == len(set(history)), "of what Redis missed, the latest of each key is announced"
    assert (tasks_in_flight(client), board(client)) == (["begun", "t3"], {"a:m": 0.5, "b:m": 0.5})
    assert sorted(client.hgetall(TASKS)) == ["begun", "t1", "t2", "t3"]
    pairs = orjson.loads(str(client.get(COMPARISONS)))["pairs"]
    assert [(pair["wins"], pair["losses"]) for pair in pairs] == [(0, 0), (0, 0), (2, 0)]
    await across(client, {"a:m": 0.5, "b:m": 0.5})


async def test_reconcile_restores_and_drops_keys(make_sink: MakeSink, worker: Worker, client: Redis) -> None:
    await worker.publish(*whole_run())
    current = stored(client)
    for lost in (OF_RUN, (*client.scan_iter(),)):
        client.delete(*lost)
        await worker.sink.reconcile([RUN])
        assert stored(client) == current
        await across(client, {"a:m": 0.5, "b:m": 0.5})
    successor = Worker(make_sink, offset=9)
    successor.fold(whole_run()[1])
    successor.pipeline.run(RUN).take_changes()
    await successor.sink.reconcile([RUN])
    assert not client.exists(IN_FLIGHT, COMPARISONS, BOARD)
    assert client.hgetall(TASKS) == {"t1": '{"a:m":[1,1,0]}'}


async def test_all_keys_go_with_a_deleted_run_until_a_later_revision(worker: Worker, client: Redis) -> None:
    await worker.publish(*whole_run(revision=5))
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    assert client.keys("*{run%2F1}*") == [KEYS.versions(RUN)]
    await across(client, {})
    await worker.publish(*(event | {"revision": 10} for event in whole_run("t2")))
    assert set(OF_RUN) <= stored(client).keys()


async def test_all_keys_expire_with_the_run(make_sink: MakeSink, client: Redis) -> None:
    worker = Worker(make_sink, expire_seconds=1000)
    of_a_tier = rewarded("t2", reward=0.25) | {"tier": "T0"}
    await worker.publish(*whole_run(), of_a_tier)
    keys = set(client.scan_iter("*{run%2F1}*"))
    assert {*OF_RUN, KEYS.history(RUN), KEYS.versions(RUN), KEYS.tiers(RUN)} <= keys
    for key in keys:
        client.expire(key, 10)
    await worker.publish(of_a_tier | {"attempt": 2})
    assert [key for key in keys if not 900 < int(str(client.ttl(key))) <= 1000] == []
    await eventually(lambda: 0 < int(str(client.ttl(NAMED_ACROSS))) <= 1000, "the board across runs")


RUN_NUMBERS = itertools.count()


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
    given: Any = {"epoch": epoch, "version": version, "deleted": deleted, "trials": mark}
    if kind == "run":
        return a_run_change(run, benchmark=(None, "b", "c")[mark % 3], **given)
    return an_agent_model_change(run, accuracy=mark / 100, **given)


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
DELETED_BY_ANOTHER = [(0, "agent_model", 1, 0, False), (0, "run", 1, 0, False), (1, "run", 1, 1, True)]
IN_NO_BENCHMARK = [(0, "run", 1, 0, False), *[(0, "agent_model", 1, 0, False)] * 3]
MOVED = [*IN_NO_BENCHMARK, (0, "run", 1, 1, False), (1, "run", 1, 2, False), (0, "agent_model", 1, 3, False)]
"""A late plan names benchmark b, another writer moves the run to c, and the first one writes on."""


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=WRITES)
@example(NUMBERS[:16])
@example(NUMBERS[::-1])
@example(NUMBERS[-4:] * 2)
@example(LOWER_EPOCH)
@example(AFTER_A_DELETION)
@example(DELETED_BY_ANOTHER)
@example(MOVED[:5])
@example(MOVED[:6])
@example(MOVED)
def test_two_writers_in_any_order_leave_what_the_newest_of_them_said(
    runner: asyncio.Runner, redis_server: RedisServer, client: Redis, writes: list[Any]
) -> None:
    run, model = f"run {next(RUN_NUMBERS)}", Model()

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


def an_entry(run: str, version: int = 1, *, deleted: bool = False, notify: bool = True) -> KeyState:
    return entry_of(a_run_change(run, version=version, deleted=deleted), notify=notify)


def backlog_of(*runs: str, limit: int = 10) -> Backlog:
    """What waits, empty, with an owner of one summary of each run."""
    return Backlog(Owning(a_run_change(run, version=7) for run in runs), limit)


def waiting(backlog: Backlog) -> list[tuple[str, int, bool]]:
    """Run, version and whether it is announced, of each entry that the next writes have."""
    writes = [sent(backlog, run_id) for run_id in backlog.runs()]
    return [(one.run_id, one.version[1], one.notify) for write in writes for one in write.entries]


def sent(backlog: Backlog, run_id: str = "r") -> Write:
    write = backlog.next_write(run_id, None)
    assert write is not None
    return write


@pytest.mark.parametrize(
    ("put", "latest"),
    [([(1, True), (3, True), (2, True)], 3), ([(1, True), (2, False)], 2)],
    ids=["out of order", "a silent entry overtakes"],
)
def test_the_latest_of_each_key_waits_and_news_stay_news(put: list[tuple[int, bool]], latest: int) -> None:
    backlog = Backlog(None, 10)
    for version, notify in put:
        backlog.put(an_entry("r", version, notify=notify))
    assert (waiting(backlog), len(backlog)) == ([("r", latest, True)], 1)


def test_an_entry_that_changed_while_it_was_sent_still_waits() -> None:
    backlog = backlog_of("r")
    backlog.put(an_entry("r", 1))
    write = sent(backlog)
    backlog.put(an_entry("r", 2))
    backlog.done(write)
    assert waiting(backlog) == [("r", 2, True)]


def test_a_run_that_came_into_doubt_while_it_was_sent_is_sent_whole() -> None:
    backlog = backlog_of("r")
    for doubtful in (False, True):
        backlog.put(an_entry("r"))
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
    backlog = backlog_of("r")
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


@pytest.mark.parametrize(
    ("owned", "news"),
    [(False, False), (True, False), (True, True)],
    ids=["doubtful without an owner", "doubtful and of another worker", "news of another worker's run"],
)
def test_a_run_that_cannot_be_sent_whole_waits_no_longer(owned: bool, news: bool) -> None:
    backlog = backlog_of("r") if owned else Backlog(None, 10)
    if news:
        backlog.put(an_entry("foreign"))
    else:
        backlog.doubt("foreign")
    assert backlog.next_write("foreign", None) is None
    assert (backlog.runs(), len(backlog)) == ([], 0)


def test_deleted_runs_count_in_a_round_trip_although_they_have_no_bytes() -> None:
    backlog = Backlog(None, 10)
    backlog.put(an_entry("r", deleted=True))
    assert sent(backlog).size >= len(SCRIPT)


def test_when_it_is_full_the_oldest_run_goes_whole_and_deleted_runs_come_last() -> None:
    backlog = backlog_of("deleted", "a", "b", "c", limit=2)
    backlog.put(an_entry("deleted", deleted=True))
    for run in "abc":
        backlog.put(an_entry(run))
    assert len(backlog) == 2
    assert backlog.in_order(["a", "b", "c", "other"]) == ["c", "a", "b"]
    told = [(run, notify) for run, _, notify in waiting(backlog)]
    assert told == [("deleted", True), ("a", False), ("b", False), ("c", True)]


def test_without_an_owner_nothing_is_dropped() -> None:
    backlog = Backlog(None, 2)
    for run in "abc":
        backlog.put(an_entry(run))
    assert len(backlog) == 3


def test_a_run_that_has_expired_is_sent_only_with_news() -> None:
    backlog, much_later = backlog_of("r"), 4e9
    assert backlog.next_write("r", None) is None
    backlog.doubt("r")
    backlog.put(an_entry("r"))
    with_news = backlog.next_write("r", much_later)
    assert with_news is not None
    backlog.done(with_news)
    backlog.doubt("r")
    assert backlog.next_write("r", much_later) is None
    assert backlog.next_write("r", None) is None
    assert backlog.runs() == []
