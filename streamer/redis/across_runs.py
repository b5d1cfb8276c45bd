"""The keys across runs: the list of runs and the boards of the benchmarks.

They lie in cluster slots of their own, so no script guards them together with a run. They follow the guarded
keys instead: written along with them, and written again from them wherever the two may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from redis.asyncio import Redis

from streamer.redis.entry import RUN_SUFFIX, KeyState, as_text, last_event_seconds
from streamer.redis.keys import Keys
from streamer.schemas.identity import encode_id
from streamer.schemas.metrics import BOARD_METRICS

RedisCommand = tuple[str | bytes | float, ...]


@dataclass(slots=True)
class Truth:
    """The values of a run's guarded keys."""

    summary: Mapping[str, Any] | None
    boards: dict[str, dict[bytes, float]] = field(default_factory=dict)

    @property
    def benchmark(self) -> str | None:
        """The benchmark whose boards show the run."""
        return self.summary["benchmark"] if self.summary else None


class AcrossRuns:
    """Writes the keys across runs; remembers which benchmark each run names."""

    def __init__(self, client: Redis, keys: Keys, expire_seconds: int | None) -> None:
        self._client = client
        self._keys = keys
        self._expire_seconds = expire_seconds
        self._benchmarks: dict[str, str | None] = {}
        self._named: dict[str, set[str]] = {}

    def benchmark(self, run_id: str) -> str | None:
        """The benchmark that the run named last; None: none, or not known."""
        return self._benchmarks.get(run_id)

    def commands(self, run_id: str, entries: Sequence[KeyState]) -> Iterator[RedisCommand]:
        """Commands that go along with the entries of one run."""
        for entry in entries:
            if entry.suffix == RUN_SUFFIX:
                self._benchmarks[run_id] = entry.summary["benchmark"] if entry.summary else None
                yield from self._list_run(run_id, entry.summary)
        benchmark = self.benchmark(run_id)
        boards = {
            f"{encode_id(run_id)}|{entry.group}": entry.board()
            for entry in entries
            if entry.kind == "agent_model"
        }
        if benchmark and boards:
            yield from self._place(benchmark, boards)

    async def rewrite(self, runs: Mapping[str, set[str]]) -> None:
        """Make the keys across runs say what the guarded keys say.

        Args:
            runs: run id to the benchmarks under which it may stand, its present one apart.
        """
        truths = await self._read(runs)
        self._benchmarks.update({run_id: truth.benchmark for run_id, truth in truths.items()})
        pipe = self._client.pipeline(transaction=False)
        for run_id, truth in truths.items():
            for command in self._list_run(run_id, truth.summary):
                pipe.execute_command(*command)
        benchmarks = {name for names in runs.values() for name in names}
        benchmarks |= {truth.benchmark for truth in truths.values() if truth.benchmark}
        for benchmark in benchmarks:
            for command in await self._corrections(benchmark, truths):
                pipe.execute_command(*command)
        await pipe.execute()

    async def _read(self, runs: Iterable[str]) -> dict[str, Truth]:
        run_ids = list(runs)
        metrics = await self._metrics(map(self._keys.named_boards, run_ids))
        pipe = self._client.pipeline(transaction=False)
        for run_id, of_run in zip(run_ids, metrics, strict=True):
            pipe.get(self._keys.run(run_id))
            for metric in of_run:
                pipe.zrange(self._keys.board(run_id, metric), 0, -1, withscores=True)
        replies = iter(await pipe.execute())
        truths = {}
        for run_id, of_run in zip(run_ids, metrics, strict=True):
            value = next(replies)
            boards = {metric: dict(next(replies)) for metric in of_run}
            truths[run_id] = Truth(orjson.loads(value) if value else None, boards)
        return truths

    async def _metrics(self, keys: Iterable[str]) -> list[list[str]]:
        """Per key of named boards, every METRIC that may have a board."""
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.smembers(key)
        return [[*BOARD_METRICS, *sorted(map(as_text, named))] for named in await pipe.execute()]

    async def _corrections(self, benchmark: str, truths: Mapping[str, Truth]) -> list[RedisCommand]:
        """The entries that the boards of one benchmark lack of these runs, and the ones to remove."""
        [known] = await self._metrics([self._keys.benchmark_named_boards(benchmark)])
        of_runs = {
            metric for truth in truths.values() if truth.benchmark == benchmark for metric in truth.boards
        }
        metrics = [*known, *sorted(of_runs.difference(known))]
        self._named[benchmark] = set(metrics).difference(BOARD_METRICS)
        pipe = self._client.pipeline(transaction=False)
        for metric in metrics:
            pipe.zrange(self._keys.benchmark_board(benchmark, metric), 0, -1, withscores=True)
        prefixes = {encode_id(run_id).encode() for run_id in truths}
        commands = self._note_named(benchmark, self._named[benchmark])
        for metric, board in zip(metrics, await pipe.execute(), strict=True):
            key = self._keys.benchmark_board(benchmark, metric)
            present = {member: score for member, score in board if member.partition(b"|")[0] in prefixes}
            wanted = {
                encode_id(run_id).encode() + b"|" + label: score
                for run_id, truth in truths.items()
                if truth.benchmark == benchmark
                for label, score in truth.boards.get(metric, {}).items()
            }
            commands += [("ZREM", key, member) for member in present.keys() - wanted.keys()]
            commands += [
                ("ZADD", key, repr(score), member)
                for member, score in wanted.items()
                if present.get(member) != score
            ]
            commands += self._expiry(key)
        return commands

    def _list_run(self, run_id: str, summary: Mapping[str, Any] | None) -> Iterator[RedisCommand]:
        if summary is None:
            yield "ZREM", self._keys.runs, encode_id(run_id)
            return
        yield "ZADD", self._keys.runs, repr(last_event_seconds(summary)), encode_id(run_id)
        yield from self._expiry(self._keys.runs)

    def _place(
        self, benchmark: str, boards: Mapping[str, Mapping[str, str | bool]]
    ) -> Iterator[RedisCommand]:
        """Put members on the boards of a benchmark, or take them off: member to METRIC to score or False."""
        named = {metric for board in boards.values() for metric in board}.difference(BOARD_METRICS)
        known = self._named.setdefault(benchmark, set())
        if new := named - known:
            known |= new
            yield from self._note_named(benchmark, new)
        for metric in (*BOARD_METRICS, *sorted(known)):
            key = self._keys.benchmark_board(benchmark, metric)
            scores = {member: score for member, board in boards.items() if (score := board.get(metric))}
            if scores:
                yield "ZADD", key, *[part for member, score in scores.items() for part in (score, member)]
                yield from self._expiry(key)
            if gone := boards.keys() - scores.keys():
                yield "ZREM", key, *gone

    def _note_named(self, benchmark: str, metrics: set[str]) -> list[RedisCommand]:
        """Note that these named metrics have a board over the runs of the benchmark."""
        if not metrics:
            return []
        key = self._keys.benchmark_named_boards(benchmark)
        return [("SADD", key, *sorted(metrics)), *self._expiry(key)]

    def _expiry(self, key: str) -> Iterator[RedisCommand]:
        if self._expire_seconds:
            yield "EXPIRE", key, self._expire_seconds
