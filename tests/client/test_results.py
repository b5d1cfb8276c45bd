"""A reader's errors name what was asked for, and what there is."""

from __future__ import annotations

import pytest
import redis

from streamer.client.queries import (
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
)
from streamer.client.readers import StateReader
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage.redis import RedisSink
from tests.client.writing import KEYS, write
from tests.support.builders import a_run_change
from tests.support.servers import RedisServer


async def test_unknown_names_are_answered_with_the_known_ones(sink: RedisSink, plain: StateReader) -> None:
    with pytest.raises(UnknownRun, match="no runs yet"):
        plain.run("r")
    await write(
        sink, *[a_run_change(run, benchmark="terminal") for run in ("nightly-1", "nightly-2", "zebra")]
    )
    for ask in (plain.run, plain.agents, plain.tiers, plain.history):
        with pytest.raises(UnknownRun, match=r"'nightly_1'\. Did you mean nightly-1, nightly-2\?"):
            ask("nightly_1")
    with pytest.raises(UnknownRun, match="of 3 runs"):
        plain.leaderboard("accuracy", run="Q")
    with pytest.raises(UnknownMetric, match=r"'speed'.*accuracy, pass_rate"):
        plain.leaderboard("speed")
    with pytest.raises(UnknownBenchmark, match=r"'term'\. Benchmarks: terminal\."):
        plain.leaderboard("accuracy", benchmark="term")


def test_a_redis_that_is_not_there_is_named_with_what_to_do_and_no_password() -> None:
    url = f"redis://user:secret@127.0.0.1:{free_port()}/0"
    for ending in ("", "?cluster=true"):
        with (
            pytest.raises(RedisUnavailable, match=r"127\.0\.0\.1:.*--redis or STREAMER_REDIS") as caught,
            StateReader(Settings(redis=url + ending)) as plain,
        ):
            plain.runs()
        assert "secret" not in str(caught.value)


async def test_what_is_no_summary_is_named_by_its_key(
    sink: RedisSink, plain: StateReader, redis_server: RedisServer
) -> None:
    await write(sink, a_run_change())
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(KEYS.run("r1"), b'{"type": "run_summary"}')
    with pytest.raises(UnreadableSummary, match=r"team:streamer:\{r1\}:run"):
        plain.run("r1")
