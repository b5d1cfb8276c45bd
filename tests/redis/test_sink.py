"""Whatever happens to Redis, it ends up with what should be there, and nobody is held up."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from datetime import UTC, datetime

import pytest
import redis

from tests.redis.conftest import MakeSink
from tests.redis.owner import KEYS, Owner, converged
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.servers import RedisServer


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


async def test_a_sink_is_settled_while_redis_has_everything(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    owner = Owner(make_sink)
    await owner.step()
    assert owner.sink.settled
    redis_server.kill()
    await owner.step()
    assert not owner.sink.settled
    redis_server.start()
    await converged(client, owner)
    await eventually(lambda: owner.sink.settled, "everything is there")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await owner.sink.heartbeat("w1", {}, at=now)
    client.flushall()
    await owner.sink.heartbeat("w1", {}, at=now)
    assert not owner.sink.settled, "everything is being sent again"
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


async def test_a_run_too_large_for_redis_does_not_keep_back_the_others(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    tiers = [a_tier_change("large", f"T{number}") for number in range(600)]
    too_large = a_run_change("large", display_name="x" * 2**21)
    limit = client.config_get("proto-max-bulk-len")["proto-max-bulk-len"]
    client.config_set("proto-max-bulk-len", 2**20)
    try:
        await sink.write([an_update(*tiers, too_large), an_update(a_run_change("small"))])
        assert sink.away
        assert sink.unsent == 601
        assert client.hget(KEYS.versions("small"), "run") == "1:0"
        await sink.write([an_update(a_run_change("small", version=1))])
        await eventually(lambda: client.hget(KEYS.versions("small"), "run") == "1:1", "the small run goes on")
        assert not client.exists(KEYS.versions("large"))
    finally:
        client.config_set("proto-max-bulk-len", limit)
    await eventually(lambda: sink.settled, "Redis has the large run")
    assert client.hlen(KEYS.versions("large")) >= 601


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
