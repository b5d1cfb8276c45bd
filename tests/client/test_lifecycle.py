"""The one word for a run's state, row by row of the table in docs/viewer.md."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from streamer.client.readers import finished
from streamer.schemas.summaries import (
    SILENT_AFTER,
    RunSummary,
    State,
    is_over,
    plan_words,
    state_and_status,
    state_of,
    with_state,
)
from streamer.schemas.wire import digest_of
from tests.house.repository import ROOT
from tests.support.builders import a_run_change

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
JUST_NOW = (NOW - SILENT_AFTER).isoformat()
LONG_AGO = (NOW - SILENT_AFTER - timedelta(seconds=1)).isoformat()
AHEAD = (NOW + timedelta(hours=3)).isoformat()


def a_run(
    done: int = 3, planned: int | None = 12, *, plan_complete: bool = True, **fields: Any
) -> RunSummary:
    given = {"last_event_at": JUST_NOW} | fields
    progress = {"done": done, "planned": planned, "plan_complete": plan_complete}
    summary = a_run_change(progress=progress, **given).summary
    return RunSummary.model_validate(summary)


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (a_run(10_080, 10_080), "complete"),
        (a_run(10_080, 10_080, last_event_at=LONG_AGO), "complete"),
        (a_run(10_080, 10_080, status="completed"), "complete"),
        (a_run(13, 12), "complete"),
        (a_run(status="completed"), "finished"),
        (a_run(status="aborted", last_event_at=LONG_AGO), "finished"),
        (a_run(planned=None, status="completed"), "finished"),
        (a_run(), "running"),
        (a_run(done=0), "running"),
        (a_run(planned=None), "running"),
        (a_run(last_event_at=AHEAD), "running"),
        (a_run(last_event_at=LONG_AGO), "stalled"),
        (a_run(done=0, last_event_at=LONG_AGO), "stalled"),
        (a_run(last_event_at=None), "stalled"),
        (a_run(planned=None, last_event_at=LONG_AGO), "unfinished"),
        (a_run(planned=None, last_event_at=None), "unfinished"),
        (a_run(planned=None, plan_complete=False), "running"),
        (a_run(planned=None, plan_complete=False, last_event_at=LONG_AGO), "unfinished"),
        (a_run(done=0, planned=0), "running"),
        (a_run(done=0, planned=0, status="completed"), "finished"),
        (a_run(done=0, planned=0, last_event_at=LONG_AGO), "unfinished"),
    ],
)
def test_the_state_of_a_run(run: RunSummary, state: State) -> None:
    assert state_of(run, NOW) == state
    assert state_of(run.model_dump(mode="json"), NOW) == state


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (a_run(last_event_at=LONG_AGO), "running"),
        (a_run(planned=None, last_event_at=None), "running"),
        (a_run(12, last_event_at=None), "complete"),
        (a_run(status="aborted"), "finished"),
    ],
)
def test_a_run_is_not_silent_at_a_moment_that_is_not_known(run: RunSummary, state: State) -> None:
    assert state_of(run, None) == state


@pytest.mark.parametrize("status", [None, "completed"])
@pytest.mark.parametrize("planned", [None, 0, 2, 3])
@pytest.mark.parametrize("last_event_at", [None, JUST_NOW, LONG_AGO])
def test_a_run_is_waited_for_until_it_is_finished_or_complete(
    status: str | None, planned: int | None, last_event_at: str | None
) -> None:
    run = a_run(2, planned, status=status, last_event_at=last_event_at)
    over = state_of(run, NOW) in ("finished", "complete")
    assert is_over(run) == finished(run) == over


def test_a_plan_that_is_incomplete_is_told_from_no_plan_in_model_and_json_also_of_older_summaries() -> None:
    reading, silent, known = a_run(planned=None, plan_complete=False), a_run(planned=None), a_run()
    for run in (reading, silent, known):
        assert plan_words(run) == plan_words(run.model_dump(mode="json"))
    assert [plan_words(run) for run in (reading, silent, known)] == [
        "plan not complete yet",
        "no plan known",
        "",
    ]
    assert plan_words({"progress": {"done": 1, "planned": None}}) == "no plan known"


def test_readers_add_the_state_and_the_digest_still_fits() -> None:
    found = with_state(a_run(12), NOW)
    assert found["state"] == "complete"
    assert found["digest"] == digest_of(found)


def test_what_the_harness_calls_the_end_stands_beside_the_state_not_in_its_place() -> None:
    assert state_and_status("complete", "completed") == "complete (completed)"
    assert state_and_status("running", None) == "running"


def test_the_guide_for_viewers_has_the_table_with_every_word_and_the_time() -> None:
    guide = (ROOT / "docs" / "viewer.md").read_text("utf-8")
    section = guide.partition("## The state of a run")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == get_args(State)
    assert f"{SILENT_AFTER.seconds // 60} minutes" in section
