"""What was written once is read forever.

The directories under recorded/ hold the bytes of events and messages as some version of this code wrote
them, and what it made of them. **They are only ever added to**: a log that was written years ago is folded by
the newest worker, and must give the same answer.

- A test here fails, and no formula changed: the change breaks old logs. Mend the code, not the recording.
- A formula or a ruling changed on purpose: raise SEMANTICS_VERSION. Summaries of older semantics are not
  compared any more, the meaning of each event still is. Record anew: python -m tests.schemas.recording NAME
- A field or a type of event was added: likewise record anew, beside the old ones.
- A type of message was added: older recordings lack it, and what they hold is compared. Record again.
- A field of a summary was added: give it a default, since older messages lack it. What was recorded must keep
  its values; the digest changes, and nothing has to be recorded.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from streamer.folding.fold import Folding, Pipeline, fold_records
from streamer.schemas.base import EVENT_SCHEMA_VERSION, SEMANTICS_VERSION
from streamer.schemas.events import EVENT_TYPES
from streamer.schemas.summaries import SUMMARY, SUMMARY_TYPES, Rejection
from streamer.schemas.wire import Reason, Record, canonical_json, decode, digest_of, records_of_lines
from tests.schemas.recording import (
    DIGESTS,
    EVENTS,
    MESSAGES,
    RECORDED,
    SUMMARIES,
    fold,
    meaning,
    summaries,
    write,
)

RECORDINGS = sorted(path for path in RECORDED.iterdir() if path.is_dir())


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def expected_of(recording: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((recording / DIGESTS).read_text(encoding="utf-8"))
    return found


def digests_of(folding: Folding) -> list[tuple[str, str]]:
    return [(change.key, change.digest) for change in folding.summaries()]


def name_of(message: bytes) -> tuple[str, ...]:
    """What tells a summary or a scored trial from others."""
    content = json.loads(message)
    names = ("type", "run_id", "shard", "task_id", "attempt", "agent_model", "tier", "subtest")
    return tuple(str(content.get(name)) for name in names)


every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)


@every_recording
def test_every_recorded_event_is_read_and_means_what_it_meant(recording: Path) -> None:
    recorded = lines_of(recording / EVENTS)
    assert [meaning(line) for line in recorded] == expected_of(recording)["events"]


def is_kept(recorded: Any, found: Any) -> bool:
    """Whether every recorded value is there; an object may have gained fields."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return all(name in found and is_kept(value, found[name]) for name, value in recorded.items())
    return type(recorded) is type(found) and bool(recorded == found)


@every_recording
def test_recorded_events_are_folded_to_the_same_summaries(recording: Path) -> None:
    """Also backwards; a summary that has gained no field is the same to the byte, its digest included."""
    recorded = lines_of(recording / EVENTS)
    expected = gzip.decompress((recording / SUMMARIES).read_bytes()).removesuffix(b"\n").split(b"\n")
    known = {name_of(summary)[0] for summary in expected}
    found = [summary for summary in summaries(recorded) if name_of(summary)[0] in known]
    backwards = fold(recorded[::-1])
    assert len(found) == len(expected)
    assert fold(recorded).rejected == 0
    assert digests_of(fold(recorded)) == digests_of(backwards)
    if expected_of(recording)["semantics_version"] < SEMANTICS_VERSION:
        return
    by_name = {name_of(summary): summary for summary in found}
    assert len(by_name) == len(expected), "names are not enough to tell them apart"
    for before in expected:
        after = by_name[name_of(before)]
        old, new = ({**json.loads(summary), "digest": None} for summary in (before, after))
        assert is_kept(old, new), name_of(before)
        assert after == before or not is_kept(new, old)


@every_recording
def test_recorded_messages_are_read_and_written_as_the_same_bytes(recording: Path) -> None:
    for line in lines_of(recording / MESSAGES):
        message = SUMMARY.validate_json(line)
        assert canonical_json(message.model_dump(mode="json", exclude_unset=True)) == line
        if message.type.endswith("_summary"):
            assert digest_of(json.loads(line)) == json.loads(line)["digest"]


def test_the_newest_recording_holds_every_type_and_every_field_of_this_version() -> None:
    """By itself, and left out; after a change of the schema: record anew."""
    events = [json.loads(line) for recording in RECORDINGS for line in lines_of(recording / EVENTS)]
    for kind in EVENT_TYPES:
        name = kind.model_fields["type"].annotation.__args__[0]  # type: ignore[union-attr]
        of_kind = [event.keys() for event in events if event["type"] == name]
        assert set(kind.model_fields) - {"schema_version"} <= set().union(*of_kind), name
        required = {field for field, info in kind.model_fields.items() if info.is_required()}
        assert required in of_kind, f"no {name} with nothing but {required}"
    messages = [json.loads(line)["type"] for line in lines_of(RECORDINGS[-1] / MESSAGES)]
    assert set(messages) == {kind.model_fields["type"].annotation.__args__[0] for kind in SUMMARY_TYPES}  # type: ignore[union-attr]


def test_a_recording_is_never_written_over() -> None:
    with pytest.raises(FileExistsError):
        write(RECORDINGS[0])


@pytest.mark.parametrize("version", [EVENT_SCHEMA_VERSION + 1, 99, 0, -1])
def test_an_event_of_another_version_is_rejected_with_its_bytes_and_requeued_after_the_upgrade(
    version: int,
) -> None:
    value = json.dumps(
        {"type": "trial_result", "run_id": "r", "task_id": "t", "schema_version": version}
    ).encode()
    folded = Pipeline().fold([Record(value, 3, key=b"r")])
    [rejected] = folded.rejections
    rejection = Rejection.model_validate_json(rejected.value)
    assert rejection.code == "unknown_schema_version"
    assert "Upgrade the worker, then requeue" in rejection.message
    assert base64.b64decode(rejection.source_value_base64 or "") == value
    assert not folded.touched


def test_a_type_of_event_of_tomorrow_is_rejected_with_its_bytes() -> None:
    value = b'{"type":"trial_paused","run_id":"r","task_id":"t"}'
    [rejected] = Pipeline().fold([Record(value, 0)]).rejections
    rejection = Rejection.model_validate_json(rejected.value)
    assert rejection.code == "unknown_type"
    assert base64.b64decode(rejection.source_value_base64 or "") == value


@every_recording
def test_fields_of_tomorrow_are_counted_and_change_nothing(recording: Path) -> None:
    """In every event of every type; the answer is that of the events without them."""
    recorded = lines_of(recording / EVENTS)
    tomorrow = b'{"a_field_of_2027":{"nested":[1,null]},"another":"text",'
    later = [tomorrow + line.lstrip()[1:] for line in recorded]
    before, after = fold(recorded), fold_records(records_of_lines(later))
    assert after.rejected == 0
    assert after.counts.unknown_fields == before.counts.unknown_fields + 2 * len(recorded)
    assert digests_of(after) == digests_of(before)
    assert not any(isinstance(decode(line), Reason) for line in later)
