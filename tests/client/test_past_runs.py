"""Runs of an earlier time answer as a reader answers from Redis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamer.client import StateReader
from streamer.client.folded import PastRuns
from streamer.client.queries import MOST_BOARD_RUNS, UnknownBenchmark, UnknownMetric, UnknownRun
from streamer.storage.redis import RedisSink
from tests.support.board_runs import a_night, board_runs
from tests.support.events import folded

NOW = datetime(2026, 1, 3, 3, 5, tzinfo=UTC)
PLANNED = {"reward": {"direction": "higher"}}
EVENTS = [
    *a_night("n1", 1, {"a": "+-", "b": "--", "nop": "++"}, labels={"team": "x"}, metrics=PLANNED),
    *a_night("n2", 2, {"a": "++"}, ended=False),
    *a_night("n3", 3, {"a": "--"}, ended=False, benchmark="other", labels={"team": "x"}),
]
NARROWED: list[dict[str, Any]] = [
    *({}, {"run": "n2"}, {"benchmark": "tb"}, {"labels": {"team": "x"}}),
    *({"run": "n1", "benchmark": "tb"}, {"benchmark": "other", "labels": {"team": "y"}}),
]


async def test_the_answers_are_those_of_a_reader(sink: RedisSink, plain: StateReader) -> None:
    pipeline, _ = folded(EVENTS)
    await sink.write([pipeline.run(run_id).take_changes() for run_id in pipeline.runs()])
    past = PastRuns(board_runs(EVENTS), NOW)
    assert past.runs() == plain.runs()
    assert past.run("n1") == plain.run("n1")
    for narrowed in NARROWED:
        assert past.board_runs(**narrowed) == plain.board_runs(**narrowed), narrowed
        for metric in ("pass_rate", "metrics/reward"):
            rows = past.leaderboard(metric, **narrowed)
            assert rows == plain.leaderboard(metric, now=NOW, **narrowed), narrowed
    assert past.leaderboard("pass_rate", limit=1) == plain.leaderboard("pass_rate", limit=1, now=NOW)


def test_the_states_are_those_of_the_moment() -> None:
    for after, state in ((timedelta(), "running"), (timedelta(hours=1), "unfinished")):
        [row] = PastRuns(board_runs(EVENTS), NOW + after).leaderboard("pass_rate", run="n3")
        assert row.state == state


def test_what_was_not_there_yet_is_an_error() -> None:
    past = PastRuns(board_runs(EVENTS), NOW)
    with pytest.raises(UnknownRun):
        past.leaderboard("pass_rate", run="n4")
    with pytest.raises(UnknownBenchmark, match="other, tb"):
        past.board_runs(benchmark="swe")
    with pytest.raises(UnknownMetric):
        past.leaderboard("luck")


def test_the_latest_runs_are_pooled() -> None:
    [one, *_] = board_runs(EVENTS)
    assert len(PastRuns([one] * (MOST_BOARD_RUNS + 1), NOW).board_runs()) == MOST_BOARD_RUNS
