"""Times outside 2000 to 2200 come from a wrong clock or unit: they are missing, and counted so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.folding.fold import Pipeline
from streamer.folding.run import join_page
from streamer.folding.score.prices import PriceTable
from streamer.folding.state import RunState
from streamer.schemas.wire import Record
from tests.support.events import a_plan, a_trial, folded, summarised

RUN, AGENT = "run run-1", "agent_model run-1|terminus:gpt-5"
OUTSIDE = [
    "1970-01-01T00:00:00Z",
    "1999-12-31T23:59:59.999999Z",
    "2200-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
]
WITHIN = ["2000-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z", "2000-01-01T01:00:00+01:00"]


@pytest.mark.parametrize("timestamp", [253_402_300_800_000, 1_767_225_600_000_000, 2**63 - 1])
def test_a_record_timestamp_beyond_the_calendar_is_no_time_and_ends_nothing(timestamp: int) -> None:
    pipeline = Pipeline(writer="w")
    result = pipeline.fold([Record(json.dumps(a_trial()).encode(), 0, timestamp=timestamp)])
    assert (result.counted, result.missing_times) == (1, 1)
    [*_, run] = pipeline.run("run-1").summaries()
    assert run.summary is not None
    assert run.summary["last_event_at"] is None
    assert pipeline.run("run-1").take_pages()


def test_a_record_timestamp_in_milliseconds_is_the_time_of_an_event_without_one() -> None:
    pipeline = Pipeline()
    assert pipeline.fold([Record(json.dumps(a_trial()).encode(), 0, timestamp=1_767_225_600_000)]).counted
    [*_, run] = pipeline.run("run-1").summaries()
    assert (run.summary or {})["last_event_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("text", OUTSIDE)
@pytest.mark.parametrize("field", ["started_at", "finished_at"])
def test_an_implausible_time_of_a_trial_is_missing_and_its_duration_is_not_covered(
    field: str, text: str
) -> None:
    times = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"} | {field: text}
    right = a_trial(task_id="right", started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T00:01:00Z")
    pipeline, result = folded([a_trial(**times), right])
    assert (result.counted, result.missing_times) == (2, 1)
    held = {change.key: change.summary for change in pipeline.run("run-1").summaries()}[
        "run-1|terminus:gpt-5"
    ]
    assert held is not None
    assert (held["trials"], held["coverage"]["duration_seconds"]) == (2, 1)
    assert held["last_event_at"] == "2026-01-01T00:01:00Z"


@pytest.mark.parametrize("text", WITHIN)
def test_a_plausible_time_counts(text: str) -> None:
    pipeline, result = folded([a_trial(finished_at=text)])
    assert result.missing_times == 0
    [*_, run] = pipeline.run("run-1").summaries()
    assert (run.summary or {})["last_event_at"] is not None


def test_an_implausible_time_of_a_plan_is_missing() -> None:
    plan = a_plan(started_at="0001-01-01T00:00:00Z", tasks=3)
    end = {"type": "run_finished", "run_id": "run-1", "finished_at": "3026-01-01T00:00:00Z"}
    _, result = folded([plan, end])
    assert (result.counted, result.missing_times) == (2, 2)
    run = summarised([plan, end])[RUN]
    assert (run["started_at"], run["finished_at"], run["status"]) == (None, None, "finished")


def test_a_time_that_is_null_is_not_counted_as_missing() -> None:
    _, result = folded([a_trial(finished_at=None, note="an unknown field, so that pydantic reads it")])
    assert (result.counted, result.missing_times) == (1, 0)


def test_a_missing_time_beside_a_number_that_no_json_has_is_counted() -> None:
    """The schema lets NaN through in a field that it does not know. It ended every worker once."""
    odd = a_trial(finished_at="1970-01-01T00:00:00Z", note=float("nan"))
    assert b"NaN" in json.dumps(odd).encode()
    _, result = folded([odd])
    assert (result.counted, result.missing_times, result.rejections) == (1, 1, [])


def test_an_implausible_time_does_not_decide_which_result_wins() -> None:
    late = a_trial(resolved=False, finished_at="9000-01-01T00:00:00Z")
    usual = a_trial(resolved=True, finished_at="2026-01-01T00:00:00Z")
    for order in ([late, usual], [usual, late]):
        assert summarised(order)[AGENT]["resolved"] == 1


def pages_of(events: list[Any]) -> dict[str, bytes]:
    pipeline, _ = folded(events, writer="w")
    return {write.key: write.value for write in pipeline.run("run-1").take_pages() if write.value is not None}


def test_a_state_page_of_an_earlier_version_with_a_time_beyond_the_calendar_is_read() -> None:
    [(key, page)] = pages_of([a_trial(finished_at="2026-01-01T00:00:00Z")]).items()
    head, _, body = page.partition(b"\n")
    wild = json.dumps(json.loads(head) | {"at": 1_767_225_600_000_000_000}).encode() + b"\n" + body
    run = RunState("run-1", PriceTable.default())
    join_page(run, key, wild)
    assert len(run.slots) == 1
    assert run.last_event_at < 0


def test_what_was_folded_and_what_is_read_from_its_page_agree() -> None:
    events = [
        a_trial(finished_at="1970-01-01T00:00:00Z"),
        a_trial(revision=1, started_at="9999-01-01T00:00:00Z"),
    ]
    pipeline, _ = folded(events, writer="w")
    again = Pipeline(writer="v")
    for write in pipeline.run("run-1").take_pages():
        again.load_page(write.key, write.value or b"")
    expected = {change.key: change.digest for change in pipeline.run("run-1").summaries()}
    assert {change.key: change.digest for change in again.run("run-1").summaries()} == expected
