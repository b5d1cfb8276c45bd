"""The bytes of a record become an event, or a rejection that says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.folding.fold import Folded, decoded
from streamer.folding.slots import Effect
from streamer.schemas.events import RunStarted
from streamer.schemas.wire import PlainTrial, Record
from tests.support.events import a_plan, a_trial


def a_record(event: Any, timestamp: int = 1_700_000_000_000) -> Record:
    value = event if isinstance(event, bytes) else json.dumps(event).encode()
    return Record(value, 7, timestamp=timestamp)


def test_a_usual_trial_takes_the_short_way_and_a_plan_the_strict_one() -> None:
    folded = Folded()
    assert isinstance(decoded(a_record(a_trial()), folded), PlainTrial)
    assert isinstance(decoded(a_record(a_plan()), folded), RunStarted)
    assert (folded.rejections, folded.unknown_fields, folded.missing_times) == ([], 0, 0)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"\xff", "not_json"),
        (b'{"type":"trail_result"}', "unknown_type"),
        (a_trial(attempt=0), "invalid_field"),
        (a_plan(grading_profile="nobody's"), "unknown_grading_profile"),
    ],
)
def test_what_is_no_event_is_rejected_with_its_place_and_code(value: Any, code: str) -> None:
    folded = Folded()
    assert decoded(a_record(value), folded) is None
    [rejection] = folded.rejections
    body = json.loads(rejection.value)
    assert (body["code"], body["source_offset"]) == (code, 7)


def test_unknown_fields_and_implausible_times_are_counted() -> None:
    folded = Folded()
    decoded(a_record(a_plan(nobody_knows=1, nor_this=2)), folded)
    decoded(a_record(a_trial(), timestamp=1_700_000_000_000_000), folded)
    assert (folded.unknown_fields, folded.missing_times) == (2, 1)


def test_each_effect_has_its_count() -> None:
    folded = Folded()
    for effect in (Effect.COUNTED, Effect.DUPLICATE, Effect.SUPERSEDED, Effect.IGNORED):
        folded.joined("r", effect)
    assert folded.touched == {"r"}
    assert (folded.counted, folded.duplicates, folded.superseded, folded.ignored) == (1, 1, 1, 1)
