"""The page's leaderboards are read once for all who ask within some seconds."""

from __future__ import annotations

import asyncio

import pytest

from streamer.client.queries import UnknownMetric, UnknownRun
from streamer.client.readers import AsyncStateReader
from streamer.folding.score.prices import PriceTable
from streamer.settings import Settings
from streamer.web.log import FRESH_BOARDS_SECONDS, MAX_BOARDS, Folds, Leaderboards, RunsAsOf
from streamer.web.models import LeaderboardsQuery
from tests.support.board_runs import a_night
from tests.web.feeding import Feed


@pytest.fixture
def times() -> list[float]:
    return [0.0]


def leaderboards(settings: Settings, reader: AsyncStateReader, times: list[float]) -> Leaderboards:
    return Leaderboards(reader, RunsAsOf(settings, PriceTable.default(), Folds()), lambda: times[0])


async def test_boards_are_the_same_for_some_seconds_and_then_read_again(
    feed: Feed, settings: Settings, times: list[float]
) -> None:
    await feed.take(a_night("n1", 1, {"a": "+" * 6}))
    async with AsyncStateReader(settings) as reader:
        boards = leaderboards(settings, reader, times)
        query = LeaderboardsQuery()
        first, same = await asyncio.gather(boards.boards(query, {}), boards.boards(query, {}))
        assert first is same
        assert [board.title for board in first] == ["tb: pass rate, highest first"]
        assert first[0].notes[0].startswith("The value is of all finished runs together")
        await feed.take(a_night("n2", 2, {"a": "-" * 6}))
        assert (await boards.boards(query, {}))[0].rows[0].runs == ["n1"]
        times[0] += FRESH_BOARDS_SECONDS
        assert (await boards.boards(query, {}))[0].rows[0].runs == ["n2", "n1"]


async def test_an_error_is_told_and_does_not_stay(feed: Feed, settings: Settings, times: list[float]) -> None:
    async with AsyncStateReader(settings) as reader:
        boards = leaderboards(settings, reader, times)
        with pytest.raises(UnknownMetric):
            await boards.boards(LeaderboardsQuery(metric="luck"), {})
        with pytest.raises(UnknownRun):
            await boards.boards(LeaderboardsQuery(run="n1"), {})
        await feed.take(a_night("n1", 1, {"a": "+" * 6}))
        times[0] += FRESH_BOARDS_SECONDS
        assert len(await boards.boards(LeaderboardsQuery(run="n1"), {})) == 1


async def test_only_some_questions_are_kept(settings: Settings, times: list[float]) -> None:
    async with AsyncStateReader(settings) as reader:
        boards = leaderboards(settings, reader, times)
        for number in range(2 * MAX_BOARDS):
            await boards.boards(LeaderboardsQuery(label=[f"k={number}"]), {"k": str(number)})
        assert len(boards._held) == MAX_BOARDS
