"""Runs as leaderboards read them: agents of all, tasks of those that are over."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.client import AsyncStateReader, StateReader
from streamer.client.queries import UnknownBenchmark, UnknownRun, UnreadableSummary, board_run, kinds_of
from streamer.storage.entries import TASKS, Keys
from streamer.storage.redis import RedisSink
from tests.support.board_runs import a_night, board_runs
from tests.support.events import folded

EVENTS = [
    *a_night("n1", 1, {"a": "+-", "nop": "++"}, labels={"team": "x"}),
    *a_night("n2", 2, {"a": "++"}, ended=False),
    *a_night("n3", 3, {"a": "--"}, benchmark="other"),
]


async def test_the_runs_come_as_a_fold_has_them_with_tasks_once_they_are_over(
    sink: RedisSink, plain: StateReader, reader: AsyncStateReader
) -> None:
    pipeline, _ = folded(EVENTS)
    await sink.write([pipeline.run(run_id).take_changes() for run_id in pipeline.runs()])
    found = plain.board_runs()
    assert found == board_runs(EVENTS)
    assert {one.run.run_id: bool(one.tasks) for one in found} == {"n1": True, "n2": False, "n3": True}
    for narrowed, runs in (
        ({"run": "n2"}, ["n2"]),
        ({"benchmark": "tb"}, ["n2", "n1"]),
        ({"labels": {"team": "x"}}, ["n1"]),
        ({"benchmark": "other", "labels": {"team": "x"}}, []),
    ):
        some: list[Any] = plain.board_runs(**narrowed) if runs else []  # type: ignore[arg-type]
        assert [one.run.run_id for one in some] == runs
        if runs:
            assert await reader.board_runs(**narrowed) == some  # type: ignore[arg-type]
    with pytest.raises(UnknownBenchmark, match="other, tb"):
        plain.board_runs(benchmark="t")
    with pytest.raises(UnknownRun):
        plain.board_runs(run="n")


def test_a_run_that_is_gone_is_none_and_what_cannot_be_read_is_named() -> None:
    assert board_run(Keys(), "r", {}) is None
    [night, *_] = board_runs(EVENTS)
    assert TASKS in kinds_of(night.run)
    stored = {"run": night.run.model_dump_json().encode(), TASKS: [b"t", b"{"]}
    with pytest.raises(UnreadableSummary, match=r"streamer:\{r\}:tasks"):
        board_run(Keys(), "r", stored)
