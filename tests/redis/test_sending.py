"""A batch of changes is one script per run, in one round trip."""

from __future__ import annotations

import redis

from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.support.builders import a_run_change, an_agent_model_change, an_update

KEYS = Keys()


async def test_a_batch_is_one_script_per_run_in_one_round_trip(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
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
