"""The leaderboards of benchmarks for the page: worked out in a thread, once for all who ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from streamer.client.async_reader import AsyncStateReader
from streamer.client.results import UnknownMetric
from streamer.records import Position
from streamer.schemas.metrics import can_have_board
from streamer.views.leaderboard import BenchmarkBoard, boards_of
from streamer.views.leaderboard_document import leaderboard_document, with_words
from streamer.views.tables import Document
from streamer.web.models import LeaderboardsQuery
from streamer.web.runs_as_of import RunsAsOf

FRESH_BOARDS_SECONDS = 4.0
"""Boards that were read so recently are not read again."""

MAX_BOARDS = 16


class Leaderboards:
    """Answers about boards; boards of the last seconds are kept.

    Args:
        reader: of the state in Redis.
        past: of the state as of an earlier time.
        clock: seconds that only grow.
    """

    def __init__(self, reader: AsyncStateReader, past: RunsAsOf, clock: Callable[[], float]) -> None:
        self._reader, self._past, self._clock = reader, past, clock
        self._held: dict[str, tuple[float, asyncio.Task[list[BenchmarkBoard]]]] = {}

    async def boards(self, query: LeaderboardsQuery, labels: Mapping[str, str]) -> list[BenchmarkBoard]:
        """A board for each benchmark.

        Args:
            query: what is asked for.
            labels: the query's, as names and values.

        Raises:
            UnknownMetric, UnknownRun, UnknownBenchmark, RedisUnavailable: see `StateReader.board_runs`.
            others: as `RunsAsOf.at`, where the boards of an earlier time are asked for.
        """
        if not can_have_board(query.metric):
            raise UnknownMetric(query.metric)
        key = query.model_dump_json()
        read_at, reading = self._held.pop(key, (float("-inf"), None))
        now = self._clock()
        if reading is None or now - read_at >= FRESH_BOARDS_SECONDS:
            read_at, reading = now, asyncio.create_task(self._read(query, labels))
        self._held[key] = read_at, reading
        while len(self._held) > MAX_BOARDS:
            del self._held[next(iter(self._held))]
        return await asyncio.shield(reading)

    async def document(self, query: LeaderboardsQuery, labels: Mapping[str, str]) -> Document:
        """The same boards as a document, for one HTML file."""
        past = query.as_of and f"as of {Position.of(query.as_of)}"
        facts = [fact for fact in (query.run, query.benchmark, *query.label, past) if fact]
        return leaderboard_document(await self.boards(query, labels), facts)

    async def _read(self, query: LeaderboardsQuery, labels: Mapping[str, str]) -> list[BenchmarkBoard]:
        if query.as_of is None:
            now = datetime.now(UTC)
            runs = await self._reader.board_runs(run=query.run, benchmark=query.benchmark, labels=labels)
        else:
            past = await self._past.at(query.as_of, query.run)
            now = past.moment
            runs = past.board_runs(run=query.run, benchmark=query.benchmark, labels=labels)
        together = query.all_benchmarks or query.run is not None
        boards = await asyncio.to_thread(boards_of, runs, query.metric, now, together=together)
        return with_words(boards)
