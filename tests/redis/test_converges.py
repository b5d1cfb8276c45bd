"""Whatever happens to Redis, it ends up with what should be there, and nobody is held up."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from datetime import UTC, datetime

import pytest
import redis

from streamer.aggregate.changes import RunUpdate, SummaryChange
from streamer.redis.keys import Keys
from streamer.redis.sink import RedisSink
from tests.redis.conftest import MakeSink
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.owning import Owning, reconcile
from tests.support.servers import RedisServer

KEYS = Keys()


class Owner(Owning):
    """A worker in small: what it owns, published to a sink as it changes."""

    def __init__(self, make_sink: MakeSink, runs: int = 3) -> None:
        super().__init__()
        self.sink: RedisSink = make_sink(owner=self)
        self.runs = [f"run {number}" for number in range(runs)]
        self.version = -1

    def current(self) -> list[SummaryChange]:
        return [change for run_id in self.run_ids() for change in self.summaries(run_id)]

    async def step(self) -> None:
        """The next event of every run."""
        self.version += 1
        updates = [self._cut(run) for run in self.runs]
        for update in updates:
            self.put(*update.summaries)
        await self.sink.write(updates)

    def _cut(self, run: str) -> RunUpdate:
        version, trials = self.version, self.version + 1
        return an_update(
            an_agent_model_change(run, version=version, trials=trials, mean_cost=trials / 4),
            a_tier_change(run, version=version, trials=trials),
            a_run_change(run, version=version, benchmark="b", trials=trials),
        )


def holds(client: redis.Redis, owner: Owner) -> bool:
    """Whether Redis says of every summary and board what the owner says."""
    try:
        for change in owner.current():
            suffix = {"run": "run", "tier": "tier:T0", "agent_model": "agent_model:claude:opus"}[change.kind]
            if client.get(KEYS.of_run(change.run_id, suffix)) != (change.value or b"").decode():
                return False
        cost = (owner.version + 1) / 4
        members = [(f"{run}|claude:opus", cost) for run in owner.runs]
        boards = [client.zrange(KEYS.board(run, "mean_cost"), 0, -1, withscores=True) for run in owner.runs]
        return bool(
            client.zrange(KEYS.benchmark_board("b", "mean_cost"), 0, -1, withscores=True) == members
            and boards == [[("claude:opus", cost)]] * len(owner.runs)
            and client.zcard(KEYS.runs) == len(owner.runs)
        )
    except redis.RedisError:
        return False


async def converged(client: redis.Redis, owner: Owner) -> None:
    await eventually(lambda: owner.sink.unsent == 0 and not owner.sink.away, "the sink is done")
    await eventually(lambda: holds(client, owner), "Redis says what the owner says")


async def test_redis_killed_midway_and_restarted_empty_converges(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    await owner.step()
    redis_server.kill()
    for _ in range(3):
        await owner.step()
    assert owner.sink.away
    assert owner.sink.unsent == 9
    redis_server.start()
    await converged(client, owner)
    history = client.xrange(KEYS.history("run 0"))
    assert [entry["state_version"] for _, entry in history] == ["4"] * 3


async def test_redis_away_from_the_start_gets_everything_when_it_comes(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    redis_server.stop()
    owner = Owner(make_sink)
    await owner.step()
    await owner.sink.reconcile(owner.run_ids())
    assert owner.sink.unsent == 9
    redis_server.start()
    await converged(client, owner)


async def test_a_restart_nobody_saw_is_noticed_by_the_next_write(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    redis_server.restart_empty()
    owner.runs, all_runs = owner.runs[:1], owner.runs
    owner.version = -1  # the same again: only the reconnect tells that the other runs are missing
    await owner.step()
    owner.runs = all_runs
    await converged(client, owner)


async def test_lost_data_without_a_lost_connection_is_noticed_by_the_heartbeat(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await owner.sink.heartbeat("w1", {"lag": 3}, at=now)
    assert json.loads(client.hget(KEYS.workers, "w1")) == {"at": "2026-01-01T00:00:00+00:00", "lag": 3}
    client.flushall()
    await owner.sink.heartbeat("w1", {"lag": 3}, at=now)
    await converged(client, owner)


async def test_heartbeats_of_workers_killed_long_ago_are_forgotten(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    for worker, day in [("dead", 1), ("stale", 2), ("alive", 3)]:
        await sink.heartbeat(worker, {}, at=datetime(2026, 1, day, 1, tzinfo=UTC))
    assert client.hkeys(KEYS.workers) == ["stale", "alive"]


async def test_a_hung_redis_holds_up_one_write_for_one_timeout(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    owner = Owner(lambda **arguments: make_sink(**{**arguments, "timeout_seconds": 0.3}))
    await owner.step()
    redis_server.child.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(5):
            await owner.step()
        assert owner.sink.away
        async with asyncio.timeout(0.2):
            await owner.step()
    finally:
        redis_server.child.signal(signal.SIGCONT)
    await converged(client, owner)


@pytest.mark.parametrize("trouble", ["read-only", "out of memory"])
async def test_a_redis_that_refuses_writes_counts_as_away(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis, trouble: str
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    if trouble == "read-only":
        client.replicaof("127.0.0.1", 1)
    else:
        client.config_set("maxmemory", 1)
    try:
        await owner.step()
        assert owner.sink.away
        owner.runs.append("run 3")
        await owner.step()
        assert owner.sink.unsent == 12
    finally:
        if trouble == "read-only":
            client.replicaof("no", "one")
        else:
            client.config_set("maxmemory", 0)
    await converged(client, owner)


async def test_a_foreign_key_in_one_run_does_not_keep_back_the_others(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    client.set(KEYS.tiers("run 1"), "not ours")
    await owner.step()
    assert not owner.sink.away
    assert owner.sink.unsent == 3
    await owner.step()
    assert client.hget(KEYS.versions("run 2"), "run") == "1:1"
    client.delete(KEYS.tiers("run 1"))
    await converged(client, owner)


async def test_unsent_is_bounded_and_what_was_dropped_comes_by_the_reconcile(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    owner = Owner(lambda **arguments: make_sink(**{**arguments, "max_unsent": 4}), runs=5)
    redis_server.kill()
    await owner.step()
    assert owner.sink.unsent == 4
    redis_server.start()
    await converged(client, owner)


async def test_reconcile_sends_what_is_missing_lower_or_different_silently(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    await owner.step()
    told = client.xlen(KEYS.history("run 0"))
    client.delete(KEYS.run("run 0"), KEYS.runs, KEYS.benchmark_board("b", "mean_cost"))
    client.hdel(KEYS.versions("run 1"), "tier:T0")
    client.set(KEYS.tier("run 2", "T0"), "garbage")
    client.zadd(KEYS.benchmark_board("b", "mean_cost"), {"run 0|stale:one": 1.0})
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        await owner.sink.reconcile(owner.run_ids())
        assert holds(client, owner)
        assert listener.get_message(timeout=0.05) is None
    assert client.xlen(KEYS.history("run 0")) == told


async def test_reconcile_removes_groups_that_emptied_while_redis_was_away(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    old = an_update(
        an_agent_model_change(agent="gone"), a_tier_change(tier="T9"), an_agent_model_change(), a_run_change()
    )
    await make_sink().write([old])
    owner = Owning([an_agent_model_change(version=2), a_run_change(version=2)])
    await reconcile(make_sink(owner=owner), owner)
    assert client.smembers(KEYS.agent_models("r1")) == {"claude:opus"}
    assert not client.exists(KEYS.tier("r1", "T9"), KEYS.tiers("r1"))
    assert client.zrange(KEYS.board("r1", "accuracy"), 0, -1) == ["claude:opus"]


async def test_reconcile_never_lowers_what_another_worker_wrote(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    await make_sink().write(
        [an_update(a_run_change(version=9), an_agent_model_change(agent="new", version=9))]
    )
    before = {key: client.dump(key) for key in client.scan_iter()}
    owner = Owning([a_run_change(version=8)])
    await reconcile(make_sink(owner=owner), owner)
    after = {key: client.dump(key) for key in client.scan_iter()}
    assert after.pop(KEYS.writer("r1"))
    assert after == before


async def test_a_reconcile_that_fails_in_our_own_code_is_told_and_tried_again(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([KeyError("a bug"), None])

    class Buggy(Owning):
        def run_ids(self) -> list[str]:
            if error := next(answers):
                raise error
            return super().run_ids()

    sink = make_sink(owner=Buggy([a_run_change("remembered"), a_run_change()]))
    await sink.write([an_update(a_run_change())])
    redis_server.restart_empty()
    await sink.write([an_update(a_run_change(version=1))])
    await eventually(lambda: client.exists(KEYS.run("remembered")) == 1, "the second reconcile")
    assert "Could not reconcile" in caplog.text


async def test_closing_while_redis_is_away_says_how_much_is_missing(
    make_sink: MakeSink, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    sink = make_sink()
    redis_server.kill()
    with caplog.at_level(logging.WARNING):
        await sink.write([an_update(a_run_change())])
        await sink.close()
    assert "1 keys are not there yet" in caplog.text


async def test_closing_sends_the_rest_and_removes_the_heartbeat(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    await sink.write([an_update(a_run_change())])
    await sink.heartbeat("w1", {}, at=datetime(2026, 1, 1, tzinfo=UTC))
    await sink.close()
    assert not client.exists(KEYS.workers)


async def test_with_an_expiry_all_keys_of_a_live_run_expire_together(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink(expire_seconds=1000)
    update = an_update(
        a_run_change(benchmark="b"), an_agent_model_change(), a_tier_change(agent="a", model="m")
    )
    await sink.write([update])
    for key in client.scan_iter():
        client.expire(key, 10)
    await sink.write([an_update(a_tier_change(version=1))])
    lives = {key: client.ttl(key) for key in client.scan_iter("*{r1}*")}
    assert {key for key, seconds in lives.items() if not 900 < seconds <= 1000} == set()


async def test_an_expired_run_is_not_sent_again(make_sink: MakeSink, client: redis.Redis) -> None:
    old, young = "2026-01-02T02:04:04Z", "2026-01-02T02:04:05Z"
    runs = [a_run_change(run, last_event_at=at) for run, at in [("a", old), ("b", young), ("c", None)]]
    owner = Owning(runs)
    await reconcile(make_sink(owner=owner, expire_seconds=3600, clock=lambda: 1767323045.0), owner)
    assert set(client.zrange(KEYS.runs, 0, -1)) == {"b", "c"}
