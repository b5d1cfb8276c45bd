"""Rejections as values: what they are about, and whether they are still wrong."""

from __future__ import annotations

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.operate.health import Again, LogPosition, StoredRejection, still_wrong
from streamer.schemas.summaries import Rejection
from streamer.schemas.wire import Record
from tests.support.events import a_plan, a_trial


def a_rejection(value: bytes | None, key: bytes | None = None) -> StoredRejection:
    """What the pipeline says about a record that it does not fold."""
    [rejected] = Pipeline().fold([Record(value, 5, partition=2, key=key)]).rejections
    return StoredRejection(
        LogPosition(0, 1), 1_700_000_000_000, Rejection.model_validate_json(rejected.value)
    )


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "1:-2", "a:b", "1:2:3", "٣:1", " 1:2"])
def test_only_a_partition_and_an_offset_name_a_rejection(text: str) -> None:
    with pytest.raises(ValueError, match="PARTITION:OFFSET"):
        LogPosition.parse(text)


def test_the_run_is_named_by_the_record_else_by_its_key() -> None:
    named = orjson.dumps(a_trial(run_id="r", attempt=0))
    assert a_rejection(named, b"other").run_id == "r"
    assert a_rejection(b"{", b"keyed").run_id == "keyed"
    assert a_rejection(b"[1]").run_id is None
    assert a_rejection(b'{"run_id": 7}').run_id is None


def test_a_record_without_value_or_with_too_many_bytes_has_no_original() -> None:
    assert a_rejection(None).original is None
    assert a_rejection(b"x" * (3 * 1024 * 1024)).original is None
    assert a_rejection(b"x").original == b"x"


def test_what_the_pipeline_rejects_is_still_wrong() -> None:
    assert still_wrong(orjson.dumps(a_trial())) is None
    bad = still_wrong(orjson.dumps(a_trial(attempt=0)))
    assert bad is not None
    assert bad.code == "invalid_field"
    profile = still_wrong(orjson.dumps(a_plan(grading_profile="no such one")))
    assert profile is not None
    assert profile.code == "unknown_grading_profile"


def test_what_is_published_again_has_the_key_of_its_run() -> None:
    rejected = a_rejection(b"{", b"keyed")
    assert Again(rejected, orjson.dumps(a_trial(run_id="right"))).key == b"right"
    assert Again(rejected, b"{").key == b"keyed"
