"""Folding: what it leaves in memory once nobody holds the result."""

from __future__ import annotations

import gc
from weakref import ref

import orjson
import pytest

from streamer.folding.fold import fold_records
from streamer.schemas.wire import records_of_lines
from tests.support.events import Event, a_plan, a_start, a_trial

EVENTS = [
    a_start(task_id="t1"),
    a_trial(task_id="t1"),
    a_plan(tasks=4, order_kind="shuffled", concurrency=2, baselines=["c"]),
    a_trial(task_id="t2", agent="b", tier="T0"),
    a_trial(task_id="t2", agent="b", tier="T0", revision=1, resolved=False),
]


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:2]], ids=["scored again by a plan", "as it came"])
def test_a_fold_that_nobody_holds_is_freed_at_once(events: list[Event]) -> None:
    folding = fold_records(records_of_lines(map(orjson.dumps, events)))
    assert list(folding.summaries())
    state = ref(folding.pipeline.run("run-1").state)
    scores = ref(folding.pipeline.run("run-1").state.scores)
    gc.disable()
    try:
        del folding
        assert (state(), scores()) == (None, None), "without a search for cycles"
    finally:
        gc.enable()


def test_only_a_process_that_says_it_ends_keeps_what_it_has_from_the_search_for_garbage() -> None:
    frozen = gc.get_freeze_count()
    folding = fold_records(records_of_lines(map(orjson.dumps, EVENTS)))
    assert list(folding.summaries())
    assert gc.get_freeze_count() == frozen
    try:
        fold_records(records_of_lines(map(orjson.dumps, EVENTS)), exits=True)
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
