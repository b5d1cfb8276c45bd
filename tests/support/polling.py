"""A reader that polls runs atomically and notes every torn one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import orjson
import redis

from streamer.client.reader import StateReader
from streamer.client.reading import ReaderError
from streamer.redis.keys import Keys
from streamer.settings import Settings

SNAPSHOT = """
local found = { redis.call('GET', KEYS[1] .. 'run') or '' }
for _, label in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'agent_models')) do
  table.insert(found, redis.call('GET', KEYS[1] .. 'agent_model:' .. label) or '')
end
return found
"""
"""Reads a run in one step, by nothing but its keys."""


class Poller(threading.Thread):
    """Reads runs atomically as fast as it can; notes every torn one."""

    def __init__(self, url: str, run_ids: Sequence[str], namespace: str = "") -> None:
        super().__init__(daemon=True)
        self._keys, self._run_ids = Keys(namespace), run_ids
        self.polls, self.empty, self.torn = 0, 0, list[str]()
        self._client = redis.Redis.from_url(url)
        self._reader = StateReader(Settings(redis=url, namespace=namespace))
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join()
        self._client.close()
        self._reader.close()

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            run_id = self._run_ids[number % len(self._run_ids)]
            number += 1
            try:
                self._by_keys(run_id)
                self._by_reader(run_id)
            except (redis.RedisError, ReaderError):
                self.empty += 1

    def _by_keys(self, run_id: str) -> None:
        prefix = self._keys.of_run(run_id, "")
        run, *agents = self._client.eval(SNAPSHOT, 1, prefix)
        if run or agents:
            trials = [orjson.loads(agent)["trials"] if agent else None for agent in agents]
            self._check(orjson.loads(run or b"{}").get("trials"), trials)

    def _by_reader(self, run_id: str) -> None:
        found = self._reader.snapshot(run_id)
        self._check(found.run.trials, [agent.trials for agent in found.agents])
        self._check(found.run.trials, [tier.trials for tier in found.tiers if tier.agent_model is None])
        self._check(found.run.trials, [tier.trials for tier in found.tiers if tier.agent_model is not None])

    def _check(self, done: int | None, parts: list[int | None]) -> None:
        self.polls += 1
        if done is None or None in parts or sum(part or 0 for part in parts) != done:
            self.torn.append(f"{done} != sum of {parts}")
