"""What is older never replaces what is newer, in any interleaving of writers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from streamer.folding.slots import SummaryChange
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.redis.conftest import MakeSink
from tests.support.builders import a_run_change, an_agent_model_change, an_update
from tests.support.examples import examples
from tests.support.servers import RedisServer

KEYS = Keys()
RUNS = itertools.count()


async def test_a_zombie_with_a_lower_state_version_changes_nothing(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    owner, zombie = make_sink(), make_sink()
    now = [a_run_change(version=7, benchmark="b"), an_agent_model_change(version=7, accuracy=0.75)]
    await owner.write([an_update(*now)])
    before = {key: client.dump(key) for key in client.scan_iter()}
    await zombie.write([an_update(a_run_change(version=6), an_agent_model_change(version=6, accuracy=0.5))])
    assert {key: client.dump(key) for key in client.scan_iter()} == before
    assert zombie.unsent == 0


async def test_a_lower_epoch_loses_whatever_its_state_version(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    await sink.write([an_update(a_run_change(epoch=2, version=3, trials=2))])
    await sink.write([an_update(a_run_change(epoch=1, version=900, trials=9))])
    assert '"trials":2' in client.get(KEYS.run("r1"))
    assert client.hget(KEYS.versions("r1"), "run") == "2:3"


async def test_versions_compare_as_integers_not_as_text(make_sink: MakeSink, client: redis.Redis) -> None:
    sink = make_sink()
    for version in (9, 10, 2**53 - 2, 2**53 - 1, 2**53 - 2):
        await sink.write([an_update(a_run_change(version=version))])
    assert client.hget(KEYS.versions("r1"), "run") == f"1:{2**53 - 1}"


async def test_an_equal_version_replaces(make_sink: MakeSink, client: redis.Redis) -> None:
    sink = make_sink()
    await sink.write([an_update(a_run_change(version=-1, trials=2))])
    await sink.write([an_update(a_run_change(version=-1, trials=3))])
    assert '"trials":3' in client.get(KEYS.run("r1"))


async def test_a_zombie_cannot_resurrect_a_deleted_run_or_a_group_nobody_knew(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    owner, zombie = make_sink(), make_sink()
    await owner.write([an_update(a_run_change(version=5, benchmark="b"), an_agent_model_change(version=5))])
    await owner.write([an_update(a_run_change(version=6, deleted=True))])
    old = [a_run_change(version=5, benchmark="b"), an_agent_model_change(agent="late", version=5)]
    await zombie.write([an_update(*old)])
    assert client.keys() == [KEYS.versions("r1")]


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


WRITES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["run", "agent_model"]),
        st.integers(1, 2),
        st.integers(-1, 4),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=WRITES)
def test_two_writers_in_any_order_leave_what_the_newest_of_them_said(
    runner: asyncio.Runner, redis_server: RedisServer, client: redis.Redis, writes: list[Any]
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
        found = client.zscore(KEYS.benchmark_board(name, "accuracy"), f"{run}|claude:opus")
        assert found == (score if name == benchmark else None)
    assert (client.zscore(KEYS.runs, run) is None) == (run_now is None)
