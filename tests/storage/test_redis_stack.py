"""The same writes on Redis, on Valkey and on a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from streamer.client.readers import AsyncStateReader, StateReader
from streamer.operate.local import Valkey
from streamer.operate.local.processes import Child, free_port
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink, sync_client
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.owning import Owning

pytestmark = pytest.mark.stack

KEYS = Keys("team")
SLOTS = 16384


class ClusterNode(Valkey):
    """A cluster of one node that owns every slot."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, binary=shutil.which("redis-server"), log=directory / "log")
        cluster = f"--cluster-enabled yes --cluster-port {free_port()}"
        self.child = Child("A cluster node", [*self.child.argv, *cluster.split()], log=directory / "log")

    def start(self) -> None:
        super().start()
        with redis.Redis.from_url(self.url) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            while b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO"):
                pass


@pytest.fixture(scope="module")
def cluster_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNode]:
    with ClusterNode(tmp_path_factory.mktemp("cluster")) as node:
        yield node


@pytest.fixture(params=["redis", "valkey", "cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "cluster":
        yield request.getfixturevalue("cluster_node").url + "?cluster=true"
        return
    binary = shutil.which("redis-server") if request.param == "redis" else None
    if request.param == "redis" and binary is None:
        pytest.skip("SKIPPED LOUDLY: no redis-server on PATH; install Redis 7")
    with Valkey(binary=binary, directory=tmp_path) as server:
        yield server.url


async def test_write_reconcile_and_delete_work_alike_on_every_server(url: str) -> None:
    runs = [f"run {number}" for number in range(8)]
    changes = [
        change
        for run in runs
        for change in (
            an_agent_model_change(run, version=1),
            a_tier_change(run, agent="claude", model="opus", version=1),
            a_run_change(run, version=1, benchmark="b"),
        )
    ]
    owner = Owning(changes)
    sink = RedisSink(url, keys=KEYS, owner=owner)
    await sink.write([an_update(*[change for change in changes if change.run_id == run]) for run in runs])
    await sink.write([an_update(a_run_change(runs[0], version=0, benchmark="c"))])
    owner.put(deletion := a_run_change(runs[1], version=2, deleted=True))
    await sink.write([an_update(deletion)])
    with sync_client(url, {}, 5.0) as client:
        client.delete(KEYS.run(runs[2]))
        await sink.reconcile(runs[2:])
        boards = client.zrange(KEYS.benchmark_board("b", "accuracy"), 0, -1)
        assert boards == [f"{run}|claude:opus".encode() for run in runs if run != runs[1]]
        assert not client.exists(KEYS.benchmark_board("c", "accuracy"))
        assert client.get(KEYS.run(runs[2])) == changes[8].value
        assert client.xlen(KEYS.history(runs[2])) == 3
    settings = Settings(redis=url, namespace="team")
    with StateReader(settings) as reader:
        snapshot = reader.snapshot(runs[2])
    async with AsyncStateReader(settings) as following:
        assert await following.snapshot(runs[2]) == snapshot
        updates = following.updates(runs[2])
        assert {(await anext(updates)).kind for _ in range(3)} == {"run", "agent_model", "tier"}
        await updates.aclose()  # type: ignore[attr-defined]
    assert (snapshot.run.run_id, len(snapshot.agents), len(snapshot.tiers)) == (runs[2], 1, 1)
    assert sink.unsent == 0
    await sink.close()
