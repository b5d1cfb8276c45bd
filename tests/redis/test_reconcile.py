"""A reconcile sends what is missing, lower or different, removes what emptied, and lowers nothing."""

from __future__ import annotations

import pytest
import redis

from tests.redis.conftest import MakeSink
from tests.redis.owner import KEYS, Owner, converged, holds
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.owning import Owning, reconcile
from tests.support.servers import RedisServer


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


async def test_an_expired_run_is_not_sent_again(make_sink: MakeSink, client: redis.Redis) -> None:
    old, young = "2026-01-02T02:04:04Z", "2026-01-02T02:04:05Z"
    runs = [a_run_change(run, last_event_at=at) for run, at in [("a", old), ("b", young), ("c", None)]]
    owner = Owning(runs)
    await reconcile(make_sink(owner=owner, expire_seconds=3600, clock=lambda: 1767323045.0), owner)
    assert set(client.zrange(KEYS.runs, 0, -1)) == {"b", "c"}
