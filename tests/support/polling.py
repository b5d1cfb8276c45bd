"""A reader that polls runs atomically and notes every torn one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Self

import orjson
import redis

from streamer.client.queries import ReaderError
from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.storage.entries import Keys

SNAPSHOT = """
local found = { redis.call('GET', KEYS[1] .. 'run') or '' }
for _, label in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'agent_models')) do
  table.insert(found, redis.call('GET', KEYS[1] .. 'agent_model:' .. label) or '')
end
return found
"""
"""Reads a run in one step, by nothing but its keys."""


BASELINES = {"nop:nop", "oracle:oracle"}
"""No part of a tier that is pooled over agents."""


class Poller(threading.Thread):
    """Reads runs atomically, by their keys and by StateReader in turn; notes every torn one.

    Attributes:
        polls: reads that found a run.
        empty: reads that found no run, or no Redis.
        torn: what did not belong together, a sentence each.

    Args:
        tiered: whether every trial has a tier, so that the tiers too sum to the run.
        pause_seconds: between two runs; 0: as fast as it can.
    """

    def __init__(
        self,
        url: str,
        run_ids: Sequence[str],
        namespace: str = "",
        *,
        tiered: bool = True,
        pause_seconds: float = 0.0,
    ) -> None:
        super().__init__(daemon=True)
        self._keys, self._run_ids = Keys(namespace), run_ids
        self._tiered, self._pause_seconds = tiered, pause_seconds
        self.polls, self.empty, self.torn = 0, 0, list[str]()
        self._client = redis.Redis.from_url(url)
        self._reader = StateReader(Settings(redis=url, namespace=namespace))
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        if self.ident is not None:
            self.join()
        self._client.close()
        self._reader.close()

    def run(self) -> None:
        number = 0
        while not self._ended.wait(self._pause_seconds):
            run_id = self._run_ids[number % len(self._run_ids)]
            number += 1
            try:
                self._by_keys(run_id)
                self._by_reader(run_id)
            except (redis.RedisError, ReaderError):
                self.empty += 1

    def _by_keys(self, run_id: str) -> None:
        prefix = self._keys.of_run(run_id, "")
        run, *agents = self._client.eval_ro(SNAPSHOT, 1, prefix)
        if run or agents:
            self.polls += 1
            done = orjson.loads(run)["progress"]["done"] if run else None
            trials = [orjson.loads(agent)["trials"] if agent else None for agent in agents]
            self._check(run_id, "agents", done, trials)

    def _by_reader(self, run_id: str) -> None:
        result = self._reader.snapshot(run_id)
        self.polls += 1
        done = result.run.progress.done
        self._check(run_id, "agents", done, (agent.trials for agent in result.agents))
        pooled = {tier.tier: tier for tier in result.tiers if tier.agent_model is None}
        if self._tiered:
            self._check(run_id, "tiers", done, (tier.trials for tier in pooled.values()))
        for name in {tier.tier for tier in result.tiers}:
            within = [t for t in result.tiers if t.tier == name and t.agent_model not in (None, *BASELINES)]
            whole = pooled.get(name)
            if whole is None and not within:  # only baselines have run in this tier
                continue
            self._check(run_id, name, whole and whole.trials, (part.trials for part in within))
            self._check(run_id, name, whole and whole.resolved, (part.resolved for part in within))
        for part in (*result.agents, *result.tiers):
            if (part.epoch, part.state_version) > (result.run.epoch, result.run.state_version):
                self.torn.append(f"{run_id}: {part.state_version} is later than {result.run.state_version}")

    def _check(self, run_id: str, what: str, whole: int | None, parts: Iterable[int | None]) -> None:
        result = list(parts)
        if whole is None or None in result or sum(part or 0 for part in result) != whole:
            self.torn.append(f"{run_id}, {what}: {whole} is not the sum of {result}")
