"""The corpus for other languages is current, valid by the published schemas, and what its names promise."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from streamer.folding.fold import Folding, Pipeline, fold_records
from streamer.folding.prices import PriceTable
from streamer.folding.score import ScoringRules, score_trial
from streamer.folding.slots import event_time, fingerprint, slot_key
from streamer.schemas.base import EVENT_SCHEMA_VERSION, SEMANTICS_VERSION, canonical_json, digest_of
from streamer.schemas.events import EVENT_TYPES, TrialResult, TrialStarted, known_content
from streamer.schemas.summaries import SUMMARY, SUMMARY_TYPES, Rejection
from streamer.schemas.wire import (
    Position,
    Reason,
    Record,
    Result,
    canonical_content,
    decode,
    plain_event,
    plain_trial,
    records_of_lines,
)
from tests.schemas.corpus import EXAMPLES, FOLDER, documents, expected
from tests.schemas.examples import FULL_TRIAL
from tests.schemas.examples import SLOT as SLOT_OF_EVENTS
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
from tests.support.examples import examples

SCHEMAS = FOLDER.parent


def committed(name: str, file: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (FOLDER / name / file).read_bytes().splitlines()]


def summary(name: str, kind: str, **fields: str) -> dict[str, Any]:
    said = {"type": f"{kind}_summary", **fields}.items()
    [result] = [one for one in committed(name, "summaries.ndjson") if said <= one.items()]
    return result


def test_the_committed_corpus_is_current() -> None:
    there = {str(path.relative_to(FOLDER)): path.read_bytes() for path in FOLDER.rglob("*.ndjson")}
    assert there == documents(), "schemas/examples/ is stale: run `make schema` and commit the result"


@pytest.mark.parametrize("name", EXAMPLES)
def test_events_and_summaries_are_valid_by_the_published_schemas(name: str) -> None:
    for file in ("events.ndjson", "summaries.ndjson"):
        assert committed(name, file)
        for message in committed(name, file):
            schema = orjson.loads((SCHEMAS / f"{message['type']}.schema.json").read_bytes())
            schema["required"] = [field for field in schema["required"] if field in message]
            assert list(Draft202012Validator(schema).iter_errors(message)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_order_and_repetition_of_the_events_gives_the_expected_summaries_and_digests(name: str) -> None:
    events = committed(name, "events.ndjson") * 2
    random.Random(name).shuffle(events)
    summaries = committed(name, "summaries.ndjson")
    assert expected(events) == summaries
    assert [digest_of(one) for one in summaries] == [one["digest"] for one in summaries]


def test_the_examples_show_what_they_are_named_for() -> None:
    assert summary("smallest", "run")["no_verdict"] == 1
    passes = summary("attempts", "agent_model")["pass_at_k"]
    assert [passes[k]["value"] for k in ("1", "2")] == [0.5, 2 / 3]  # (1 + .5 + 0) / 3, (1 + 1 + 0) / 3
    assert summary("tiers", "tier", tier="T1", agent_model="terminus:gpt-5")["tier_uplift"] > 0
    corrected = summary("corrections", "run")
    assert (corrected["trials"], corrected["resolved"]) == (2, 1)
    assert summary("speedups", "agent_model", agent="terminus")["formulacode"]["mean_speedup"] is not None


# -----------------------------------------------------------------------------
# What was written once is read forever.
#
# The directories under recorded/ hold the bytes of events and messages as some version of this code wrote
# them, and what it made of them. **They are only ever added to**: a log that was written years ago is folded
# by the newest worker, and must give the same answer.
#
# - A test here fails, and no formula changed: the change breaks old logs. Mend the code, not the recording.
# - A formula or a ruling changed on purpose: raise SEMANTICS_VERSION. Summaries of older semantics are not
#   compared any more, the meaning of each event still is. Record anew: python -m tests.schemas.recording NAME
# - A field or a type of event was added: likewise record anew, beside the old ones.
# - A type of message was added: older recordings lack it, and what they hold is compared. Record again.
# - A field of a summary was added: give it a default, since older messages lack it. What was recorded must
#   keep its values; the digest changes, and nothing has to be recorded.


RECORDINGS = sorted(path for path in RECORDED.iterdir() if path.is_dir())


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def expected_of(recording: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((recording / DIGESTS).read_text(encoding="utf-8"))
    return result


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


def is_kept(recorded: Any, result: Any) -> bool:
    """Whether every recorded value is there; an object may have gained fields."""
    if isinstance(recorded, dict) and isinstance(result, dict):
        return all(name in result and is_kept(value, result[name]) for name, value in recorded.items())
    if isinstance(recorded, list) and isinstance(result, list):
        return len(recorded) == len(result) and all(map(is_kept, recorded, result))
    return type(recorded) is type(result) and bool(recorded == result)


@every_recording
def test_recorded_events_are_folded_to_the_same_summaries(recording: Path) -> None:
    """Also backwards; a summary that has gained no field is the same to the byte, its digest included."""
    recorded = lines_of(recording / EVENTS)
    expected = gzip.decompress((recording / SUMMARIES).read_bytes()).removesuffix(b"\n").split(b"\n")
    known = {name_of(summary)[0] for summary in expected}
    result = [summary for summary in summaries(recorded) if name_of(summary)[0] in known]
    backwards = fold(recorded[::-1])
    assert len(result) == len(expected)
    assert fold(recorded).rejected == 0
    assert digests_of(fold(recorded)) == digests_of(backwards)
    if expected_of(recording)["semantics_version"] < SEMANTICS_VERSION:
        return
    by_name = {name_of(summary): summary for summary in result}
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
        names = {info.alias or field for field, info in kind.model_fields.items()}
        assert names - {"schema_version"} <= set().union(*of_kind), name
        required = {field for field, info in kind.model_fields.items() if info.is_required()}
        assert required in of_kind, f"no {name} with nothing but {required}"
    messages = [json.loads(line)["type"] for line in lines_of(RECORDINGS[-1] / MESSAGES)]
    assert set(messages) == {kind.model_fields["type"].annotation.__args__[0] for kind in SUMMARY_TYPES}  # type: ignore[union-attr]


def test_a_recording_is_never_written_over() -> None:
    with pytest.raises(FileExistsError):
        write(RECORDINGS[0])


@pytest.mark.parametrize("version", [EVENT_SCHEMA_VERSION + 1, 99, 0, -1])
def test_an_event_of_another_version_is_rejected_with_its_bytes_until_the_upgrade(version: int) -> None:
    value = json.dumps(SLOT_OF_EVENTS | {"schema_version": version}).encode()
    [rejected] = Pipeline().fold([Record(value, 3, key=b"r")]).rejections
    rejection = Rejection.model_validate_json(rejected.value)
    assert rejection.code == "unknown_schema_version"
    assert "Upgrade the worker, then requeue" in rejection.message
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


def test_a_time_includes_the_record_of_its_millisecond() -> None:
    """After 2037, seconds as a float have too few digits for that."""
    position = Position.of("2039-07-06T01:24:33.693Z")
    records = [Record(b"", 0, timestamp=2_193_528_273_692 + more) for more in range(3)]
    assert list(map(position.includes, records)) == [True, True, False]


# -----------------------------------------------------------------------------
# The fast reading of usual results: whatever it accepts is what the schema says, field for field.


RULES = ScoringRules(PriceTable.default())

TAKEN = """schema_version shard attempt tier subtest trial_id trial_name harness failure_mode duration_seconds
    cache_read_tokens cache_write_tokens trajectory_length"""
USUAL: dict[str, Any] = (
    {name: FULL_TRIAL[name] for name in [*SLOT_OF_EVENTS, *TAKEN.split()]}
    | {"agent": "a", "model": "anthropic/claude-sonnet-4", "revision": 1_767_225_600_000_000_000}
    | {"resolved": True, "score": 0.5, "input_tokens": 7, "output_tokens": 0, "cost_usd": 0.25}
    | {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01.250000+00:00"}
    | {"metrics": {"reward": 0.5, "z/b-1.0_": -2, "a": 1e15}, "labels": {"language": "py", "a b": ""}}
    | {"message": "no tests ran"}
)
ODD: list[Any] = [None, True, 0, -1, 1, 1.0, -0.0, 0.1, 5e-324, 1e-7, 1e308, float("nan"), float("inf")]
ODD += [2**31, 2**31 + 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**30, 1e15, 1.0000000000000002e15]
ODD += ["", "x" * 512, "x" * 513, "a\u007fb", "a\u0085b", "\t", "é", "trial_result", "unknown", "@unknown"]
ODD += [[], {}, {"a": {"agent/nop": 1.0}}, {"b": 1, "a": -0.0, "B": 5e-324, "_": 0.1}, {"b": "x", "a": ""}]
ODD += [
    {"a": value} for value in (None, True, "1", 1.0000000000000002e15, 2**63, -(10**400), 1e308, float("nan"))
]
ODD += [{key: 1} for key in ("", "a b", "a\n", "x" * 64, "x" * 65)]
ODD += [{"": "x"}, {"a\u007f": "x"}, {"x" * 64: "y" * 256}, {"x" * 65: "y"}, {"x": "y" * 257}]
ODD += [{f"m{n}": n for n in range(count)} for count in (64, 65)]
ODD += [{f"m{n}": "v" for n in range(count)} for count in (16, 17)]
ODD += """\
2026-01-01t00:00:00z; 2026-01-01 00:00:00Z; 2026-01-01T00:00:00.1234567Z; 2026-01-01T00:00:00.123456Z
2026-01-01T00:00:00,123456Z; 2026-01-01T00:00:00.Z; 2026-01-01T00:00:00.+00:00; 2026-01-01T00:00:00.
2026-01-01 00:00:00.1234567+00:00; 2026-01-01T00:00:00-00:00; 2026-01-01T00:00:00+05:00+00:00
20260101T000000.1234Z; 2026-01-01T00:00:00Z+00:00; 2026-01-01T24:00:00Z; 2026-01-01T00:00:00.1+00:00
2026-01-01T00:00:00+0000; 2026-01-01T00:00:00+05:30; 2026-01-01T00:00:60Z; 2026-02-30T00:00:00Z
2026-W01-1T00:00:00Z; 0001-01-01T00:00:00Z; 9999-12-31T23:59:59.999999Z; 2026-01-01T00:00:00; 2026-01-01\
""".replace("\n", "; ").split("; ")
DEEP = b'{"type":"trial_result","run_id":"r","task_id":"t","started_at":%b%b}' % (b"[" * 5000, b"]" * 5000)
NAMES = [*TrialResult.model_fields, "colour"]
SLOT = ("run_id", "shard", "task_id", "attempt", "agent", "model", "tier", "subtest")


START = {name: USUAL[name] for name in (*SLOT, "schema_version", "revision", "started_at")}
START |= {"type": "trial_started", "position": 7}
START_NAMES = [*TrialStarted.model_fields, "finished_at", "resolved", "colour"]


def assert_same(fast: Any, event: TrialResult | TrialStarted) -> None:
    for name in type(event).model_fields:
        ours, theirs = getattr(fast, name), getattr(event, name)
        assert (type(ours), repr(ours)) == (type(theirs), repr(theirs)), name
    assert not event.model_extra
    assert slot_key(fast) == slot_key(event)
    assert event_time(fast, 5) == event_time(event, 5)


def agree(value: bytes) -> bool:
    """Whether the fast way took the result; asserts that it then says what the schema says."""
    fast, event = plain_trial(value), decode(value)
    if fast is None:
        return False
    assert isinstance(event, TrialResult)
    assert_same(fast, event)
    scores = [score_trial(trial, RULES) for trial in (fast, event)]
    assert repr(scores[0]) == repr(scores[1])
    assert canonical_content(fast, fast.model) == canonical_json(known_content(event.__dict__))
    assert plain_trial(value) == fast
    assert fingerprint(fast) == fingerprint(event)
    return True


def start_agrees(value: bytes) -> bool:
    """The same of a start."""
    fast, event = plain_event(value), decode(value)
    if fast is None or isinstance(event, TrialResult):
        return False
    assert isinstance(event, TrialStarted)
    assert_same(fast, event)
    return True


def test_the_usual_result_or_start_is_taken_and_says_the_same() -> None:
    assert agree(json.dumps(USUAL).encode())
    assert agree(json.dumps(USUAL | dict.fromkeys(("tier", "score", "started_at", "finished_at"))).encode())
    assert agree(json.dumps(USUAL | {"duration_seconds": None}).encode())
    assert agree(b'\n {"type": "trial_result", "run_id": "r", "run_id": "q", "task_id": "t"} ')
    assert start_agrees(json.dumps(START).encode())
    assert start_agrees(json.dumps(START | {"started_at": None, "position": None}).encode())
    assert start_agrees(b'{"type": "trial_started", "run_id": "r", "task_id": "t"}')
    assert not start_agrees(json.dumps(START | {"colour": 1}).encode())


@pytest.mark.parametrize(
    ("agrees", "usual", "name"),
    [(agree, USUAL, name) for name in NAMES] + [(start_agrees, START, name) for name in START_NAMES],
)
def test_no_odd_value_of_a_field_is_read_otherwise_than_the_schema_reads_it(
    agrees: Callable[[bytes], bool], usual: dict[str, Any], name: str
) -> None:
    for odd in ODD:
        agrees(json.dumps(usual | {name: odd}).encode())
        agrees(json.dumps(usual | {name: odd}, ensure_ascii=False).encode())
    agrees(json.dumps({field: value for field, value in usual.items() if field != name}).encode())


@pytest.mark.parametrize(("agrees", "usual"), [(agree, USUAL), (start_agrees, START)])
@examples(400)
@given(odd=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=4), data=st.data())
def test_no_mixture_of_odd_values_is_read_otherwise(
    agrees: Callable[[bytes], bool], usual: dict[str, Any], odd: dict[str, Any], data: st.DataObject
) -> None:
    value = json.dumps(usual | odd).encode()
    agrees(value)
    place = data.draw(st.integers(0, len(value) - 1))
    agrees(value[:place] + bytes([data.draw(st.integers(0, 255))]) + value[place + 1 :])


@examples(400)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e16), st.floats(-1e16, 1e16))
def test_no_number_is_fingerprinted_otherwise(wide: float, cost: float, score: float) -> None:
    agree(json.dumps(USUAL | {"cost_usd": cost, "score": score, "duration_seconds": abs(wide)}).encode())
    assert agree(json.dumps(USUAL | {"cost_usd": min(cost, 1e15)}).encode())


KEYS = st.text(st.sampled_from("ab Z9_./-\x7f"), max_size=3)


@examples(400)
@given(
    st.dictionaries(KEYS, st.integers() | st.floats() | st.booleans() | st.none()),
    st.dictionaries(KEYS, st.text(st.characters(max_codepoint=130), max_size=3)),
)
def test_no_dictionary_is_read_otherwise(metrics: dict[str, Any], labels: dict[str, str]) -> None:
    agree(json.dumps(USUAL | {"metrics": metrics, "labels": labels}).encode())


@pytest.mark.parametrize(("name", "value", "most"), [("metrics", "1", 64), ("labels", '"v"', 16)])
def test_a_key_that_comes_twice_is_read_as_the_schema_reads_it(name: str, value: str, most: int) -> None:
    for count in (1, most - 1, most):
        keys = ["k0", *(f"k{number}" for number in range(count))]
        pairs = ",".join(f'"{key}":{value}' for key in keys)
        agree(
            b'{"type":"trial_result","run_id":"r","task_id":"t","%b":{%b}}' % (name.encode(), pairs.encode())
        )


def test_keys_in_any_order_have_one_fingerprint() -> None:
    values = [{"b": 1.0, "a": 2.0, "B": 3.0}, {"B": 3.0, "a": 2.0, "b": 1.0}]
    result = [plain_trial(json.dumps(USUAL | {"metrics": metrics}).encode()) for metrics in values]
    assert fingerprint(result[0]) == fingerprint(result[1])


def test_a_result_that_names_a_start_is_read_as_a_result() -> None:
    plain = plain_event(json.dumps(USUAL | {"task_id": "trial_started"}).encode())
    assert isinstance(plain, Result)
    assert plain.task_id == "trial_started"


@pytest.mark.parametrize(
    "value", [DEEP, None, b"", b"[]", b"{}", b"\xff", b'{"type": "run_deleted"}', b"{" * 10_000]
)
def test_what_is_no_usual_result_is_left_to_the_schema(value: bytes | None) -> None:
    assert plain_trial(value) is None
    assert plain_event(value) is None
