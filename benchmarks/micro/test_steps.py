"""What each step of an event's way costs: decode, score, fold, page, cut, canonical bytes.

pytest benchmarks/micro
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import orjson
import pytest

from benchmarks.common import events
from streamer.folding.fold import Pipeline
from streamer.folding.prices import PriceTable
from streamer.folding.score import ScoringRules, score_trial, score_trial_group
from streamer.schemas.base import canonical_json, digest_of
from streamer.schemas.wire import Record, Result, decode, read, records_of_lines

SLOTS = 2_000
BATCH = 100
SUB_TRIALS = ("nop", "oracle", "agent-1", "agent-2")


def a_trial(benchmarks: int = 0) -> Result:
    """One, decoded."""
    event = read(next(events(1, benchmarks=benchmarks)))
    assert isinstance(event, Result)
    return event


def a_batch(number: int) -> list[Record]:
    """Records of one run, other slots for each number."""
    lines = islice(events(SLOTS + (number + 1) * BATCH, runs=1), SLOTS + number * BATCH, None)
    return list(records_of_lines(lines))


def a_pipeline() -> Pipeline:
    """One run, folded, saved and cut."""
    pipeline = Pipeline(writer="w")
    pipeline.fold(records_of_lines(events(SLOTS, runs=1)))
    for run_id in pipeline.runs():
        pipeline.run(run_id).take_pages()
        pipeline.run(run_id).take_changes()
    return pipeline


@pytest.mark.parametrize("benchmarks", [0, 100])
def test_decode(benchmark: Any, benchmarks: int) -> None:
    assert benchmark(decode, next(events(1, benchmarks=benchmarks)))


@pytest.mark.parametrize("benchmarks", [0, 100])
def test_score_of_a_trial(benchmark: Any, benchmarks: int) -> None:
    assert benchmark(score_trial, a_trial(benchmarks), ScoringRules(PriceTable.default()))


def test_score_of_a_trial_group(benchmark: Any) -> None:
    raw = orjson.loads(next(events(1, benchmarks=100)))
    group = [
        decode(orjson.dumps(raw | {"agent": agent, "agent_index": index}))
        for index, agent in enumerate(SUB_TRIALS, 1)
    ]
    assert len(benchmark(score_trial_group, group, ScoringRules(PriceTable.default()))) == 4


def test_fold_of_a_batch(benchmark: Any) -> None:
    pipeline, batches = a_pipeline(), map(a_batch, range(10_000))
    benchmark.pedantic(pipeline.fold, setup=lambda: ((next(batches),), {}), rounds=20)


def test_pages_of_a_batch(benchmark: Any) -> None:
    pipeline, batches = a_pipeline(), map(a_batch, range(10_000))
    [run_id] = pipeline.runs()

    def another() -> None:
        pipeline.fold(next(batches))

    assert benchmark.pedantic(pipeline.run(run_id).take_pages, setup=another, rounds=20)


def test_cut_of_a_run_after_a_batch(benchmark: Any) -> None:
    pipeline, batches = a_pipeline(), map(a_batch, range(10_000))
    [run_id] = pipeline.runs()

    def another() -> None:
        pipeline.fold(next(batches))
        pipeline.run(run_id).take_pages()

    assert benchmark.pedantic(pipeline.run(run_id).take_changes, setup=another, rounds=20).summaries


def test_cut_of_a_run_after_one_event(benchmark: Any) -> None:
    pipeline, batches = a_pipeline(), map(a_batch, range(10_000))
    [run_id] = pipeline.runs()

    def another() -> None:
        pipeline.fold(next(batches)[:1])

    assert benchmark.pedantic(pipeline.run(run_id).take_changes, setup=another, rounds=20).summaries


def test_join_of_pages(benchmark: Any) -> None:
    pipeline = Pipeline(writer="w")
    pipeline.fold(records_of_lines(events(SLOTS, runs=1)))
    pages = [page for run_id in pipeline.runs() for page in pipeline.run(run_id).take_pages()]

    def join() -> Pipeline:
        fresh = Pipeline(writer="v")
        for page in pages:
            fresh.load_page(page.key, page.value)
        return fresh

    assert benchmark(join).runs() == pipeline.runs()


def test_canonical_bytes_of_a_summary(benchmark: Any) -> None:
    summary = orjson.loads(a_pipeline().run("run-00000").summaries()[-1].value)
    assert benchmark(canonical_json, summary)


def test_digest_of_a_summary(benchmark: Any) -> None:
    summary = orjson.loads(a_pipeline().run("run-00000").summaries()[-1].value)
    assert benchmark(digest_of, summary)
