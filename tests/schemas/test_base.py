"""Every number, text, list and map of an event has a limit, in the schema and in both ways of reading."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from streamer.schemas import base
from streamer.schemas.base import model_for_pricing, model_for_reporting
from streamer.schemas.events import EVENT_TYPES, NAMED, TrialResult
from streamer.schemas.export import message_schema
from streamer.schemas.wire import Reason, decode, plain_trial, type_of
from tests.schemas.examples import FULL_PLAN, SLOT

END: dict[str, Any] = {"type": "run_finished", "run_id": "r"}
RETRACTION: dict[str, Any] = {"type": "trial_retracted", "run_id": "r", "task_id": "t", "revision": 1}
START: dict[str, Any] = {"type": "trial_started", "run_id": "r", "task_id": "t"}
SCORE: dict[str, Any] = {"type": "trial_scored", "run_id": "r", "task_id": "t"}
DELETION: dict[str, Any] = {"type": "run_deleted", "run_id": "r", "revision": 1}

Pair = tuple[Any, Any]
"""The greatest (or least) value allowed, and the next one beyond."""


def text(most: int) -> Pair:
    return "x" * most, "x" * (most + 1)


def link(most: int) -> Pair:
    at = "https://".ljust(most, "x")
    return at, at + "x"


def names(most: int) -> Pair:
    return [f"n{n}" for n in range(most)], [f"n{n}" for n in range(most + 1)]


def entries(most: int, value: Any) -> Pair:
    return {f"n{n}": value for n in range(most)}, {f"n{n}": value for n in range(most + 1)}


def places(**fields: tuple[str, str]) -> list[Pair]:
    at = {"name": "n", "path": "p"}
    return [([at | {name: least}], [at | {name: beyond}]) for name, (least, beyond) in fields.items()]


def keyed(most: int, value: Any) -> Pair:
    return {"x" * most: value}, {"x" * (most + 1): value}


ID, NAME, TEXT = text(base.MAX_ID_CHARACTERS), text(base.MAX_NAME_CHARACTERS), text(base.MAX_TEXT_CHARACTERS)
COUNT, ORDINAL = (base.MAX_COUNT, base.MAX_COUNT + 1), (base.MAX_ORDINAL, base.MAX_ORDINAL + 1)
REVISION, LEAST_REVISION = (base.MAX_REVISION, base.MAX_REVISION + 1), (-(2**63), -(2**63) - 1)
AMOUNT, INTEGER = (sys.float_info.max, float("inf")), ({"a": 2**63 - 1}, {"a": 2**63})
SLOT_FIELDS: dict[str, list[Pair]] = {
    "run_id": [ID],
    "shard": [ID],
    "task_id": [ID],
    "attempt": [ORDINAL, (1, 0)],
    "agent": [NAME],
    "model": [NAME],
    "tier": [NAME],
    "subtest": [NAME],
    "revision": [REVISION, LEAST_REVISION],
}
PROVENANCE = [
    entries(base.MAX_PROVENANCE, "v"),
    keyed(base.MAX_TRIAL_LABEL_KEY_CHARACTERS, "v"),
    ({"k": (of := text(base.MAX_PROVENANCE_CHARACTERS))[0]}, {"k": of[1]}),
]
TRIAL_FIELDS: dict[str, list[Pair]] = SLOT_FIELDS | {
    "provenance": PROVENANCE,
    "agent_index": [ORDINAL, (1, 0)],
    "trial_id": [TEXT],
    "trial_name": [TEXT],
    "harness": [NAME],
    "failure_mode": [NAME],
    "score": [AMOUNT, (-sys.float_info.max, float("-inf"))],
    "input_tokens": [COUNT, (0, -1)],
    "output_tokens": [COUNT, (0, -1)],
    "cache_read_tokens": [COUNT, (0, -1)],
    "cache_write_tokens": [COUNT, (0, -1)],
    "cost_usd": [AMOUNT, (0, -5e-324)],
    "duration_seconds": [AMOUNT, (0, -5e-324)],
    "trajectory_length": [COUNT, (0, -1)],
    "tests": [({"status": "ok", "passed": base.MAX_COUNT}, {"status": "ok", "passed": base.MAX_COUNT + 1})],
    "snapshot": [
        ({"status": "passed", "total": -base.MAX_COUNT}, {"status": "passed", "total": -base.MAX_COUNT - 1})
    ],
    "claimed": [entries(base.MAX_CLAIMS, 1.5), keyed(base.MAX_NAME_CHARACTERS, 1.5), INTEGER],
    "speedup_percentage": [AMOUNT],
    "benchmarks": [
        entries(base.MAX_BENCHMARKS_PER_TRIAL, {"agent/nop": 1.5}),
        keyed(base.MAX_BENCHMARK_NAME_CHARACTERS, {"agent/nop": 1.5}),
        INTEGER,
    ],
    "metrics": [
        entries(base.MAX_METRICS, 1.5),
        keyed(base.MAX_METRIC_NAME_CHARACTERS, 1.5),
        ({"a": AMOUNT[0]}, {"a": AMOUNT[1]}),
        ({"a": -AMOUNT[0]}, {"a": -AMOUNT[1]}),
    ],
    "labels": [
        entries(base.MAX_TRIAL_LABELS, "v"),
        keyed(base.MAX_TRIAL_LABEL_KEY_CHARACTERS, "v"),
        ({"k": (of := text(base.MAX_TRIAL_LABEL_VALUE_CHARACTERS))[0]}, {"k": of[1]}),
    ],
    "message": [text(base.MAX_MESSAGE_CHARACTERS)],
    "artifacts": [
        (
            [{"name": "n", "path": "p"}] * base.MAX_ARTIFACTS,
            [{"name": "n", "path": "p"}] * (base.MAX_ARTIFACTS + 1),
        ),
        *places(name=NAME, path=TEXT, media_type=NAME),
        ([{"name": "n", "url": (of := link(base.MAX_LINK_CHARACTERS))[0]}], [{"name": "n", "url": of[1]}]),
    ],
}
PLAN_FIELDS: dict[str, list[Pair]] = {
    "run_id": [ID],
    "revision": [REVISION, LEAST_REVISION],
    "harness": [NAME],
    "tasks": [(base.MAX_TASKS, base.MAX_TASKS + 1), (0, -1), ([ID[0]], [ID[1]])],
    "attempts": [(base.MAX_PLANNED_ATTEMPTS, base.MAX_PLANNED_ATTEMPTS + 1), (1, 0)],
    "order": [
        (["t"], [""]),
        ([["t", base.MAX_ORDINAL]], [["t", base.MAX_ORDINAL + 1]]),
        ([["t", 1]], [["t", 0]]),
    ],
    "order_kind": [("shuffled", "random")],
    "order_reason": [NAME],
    "order_history": [names(base.MAX_ORDER_HISTORY), ([ID[0]], [ID[1]])],
    "ledger": [
        ({"name": NAME[0], "baseline": "r"}, {"name": NAME[1], "baseline": "r"}),
        ({"name": "n", "baseline": TEXT[0]}, {"name": "n", "baseline": TEXT[1]}),
    ],
    "part": [NAME],
    "parts": [(base.MAX_PARTS, base.MAX_PARTS + 1), (1, 0)],
    "provenance": PROVENANCE,
    "varies": [names(base.MAX_PROVENANCE)],
    "concurrency": [ORDINAL, (1, 0)],
    "task_difficulty": [({"t": 1}, {"t": 1.5}), ({"t": 0}, {"t": -0.5}), keyed(base.MAX_ID_CHARACTERS, 0.5)],
    "agent_models": [
        names(base.MAX_AGENT_MODELS),
        tuple([label] for label in text(base.MAX_AGENT_MODEL_CHARACTERS)),
    ],
    "tiers": [names(base.MAX_TIERS), ([NAME[0]], [NAME[1]])],
    "subtests": [
        entries(base.MAX_TIERS, 1),
        keyed(base.MAX_NAME_CHARACTERS, 1),
        ({"T0": base.MAX_SUBTESTS}, {"T0": 1001}),
    ],
    "baseline_tier": [NAME],
    "baselines": [names(base.MAX_BASELINES), ([NAME[0]], [NAME[1]])],
    "infrastructure_failures": [names(base.MAX_INFRASTRUCTURE_FAILURES), ([NAME[0]], [NAME[1]])],
    "grading_profile": [NAME],
    "metrics": [
        entries(base.MAX_METRICS, {}),
        keyed(base.MAX_METRIC_NAME_CHARACTERS, {}),
        ({"a": {"unit": NAME[0]}}, {"a": {"unit": NAME[1]}}),
        ({"a": {"label": NAME[0]}}, {"a": {"label": NAME[1]}}),
    ],
    "primary_metric": [text(len(NAMED) + base.MAX_METRIC_NAME_CHARACTERS)],
    "project": [TEXT],
    "benchmark": [NAME],
    "benchmark_version": [TEXT],
    "display_name": [TEXT],
    "labels": [
        entries(base.MAX_LABELS, "v"),
        keyed(base.MAX_NAME_CHARACTERS, "v"),
        ({"k": "v" * base.MAX_LABEL_VALUE_CHARACTERS}, {"k": "v" * (base.MAX_LABEL_VALUE_CHARACTERS + 1)}),
    ],
}
LIMITS: dict[str, tuple[dict[str, Any], dict[str, list[Pair]]]] = {
    "trial_result": (SLOT, TRIAL_FIELDS),
    "run_started": (FULL_PLAN, PLAN_FIELDS),
    "run_finished": (
        END,
        {
            "run_id": [ID],
            "revision": [REVISION, LEAST_REVISION],
            "status": [TEXT],
            "part": [NAME],
            "try": [ORDINAL, (1, 0)],
        },
    ),
    "trial_scored": (
        SCORE,
        SLOT_FIELDS
        | {"of_revision": [REVISION, LEAST_REVISION]}
        | {name: TRIAL_FIELDS[name] for name in ("score", "metrics")},
    ),
    "trial_started": (START, SLOT_FIELDS | {"position": [(base.MAX_ORDINAL, base.MAX_ORDINAL + 1), (0, -1)]}),
    "trial_retracted": (RETRACTION, SLOT_FIELDS | {"reason": [TEXT]}),
    "run_deleted": (DELETION, {"run_id": [ID], "revision": [REVISION, LEAST_REVISION]}),
}
WITHOUT_A_LIMIT = {
    *("type", "schema_version", "resolved", "judged", "verdicts", "scores_pending", "plan_complete"),
    *("started_at", "finished_at", "planned_at"),
}
"""Fixed words, truth values, and times, which are missing outside 2000 to 2199."""

CASES = [
    pytest.param(event | {field: at}, event | {field: beyond}, id=f"{kind}-{field}-{number}")
    for kind, (event, fields) in LIMITS.items()
    for field, pairs in fields.items()
    for number, (at, beyond) in enumerate(pairs)
]


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_the_limit_of_each_field_is_tested(kind: Any) -> None:
    [name] = kind.model_fields["type"].annotation.__args__
    names = {info.alias or field for field, info in kind.model_fields.items()}
    assert names - WITHOUT_A_LIMIT == LIMITS[name][1].keys()


VALIDATORS = {type_of(model): Draft202012Validator(message_schema(model)) for model in EVENT_TYPES}


@pytest.mark.parametrize(("at", "beyond"), CASES)
def test_a_value_at_its_limit_is_read_and_the_next_is_a_rejection(
    at: dict[str, Any], beyond: dict[str, Any]
) -> None:
    assert not isinstance(decode(json.dumps(at).encode()), Reason)
    assert isinstance(decode(json.dumps(beyond).encode()), Reason)
    schema = VALIDATORS[at["type"]]
    assert schema.is_valid(at)
    assert schema.is_valid(beyond) is (INTEGER[1] in beyond.values()), "of free JSON it has no integers"


@pytest.mark.parametrize(("at", "beyond"), [case for case in CASES if "trial_result" in str(case.id)])
def test_the_fast_reading_has_the_same_limits(at: dict[str, Any], beyond: dict[str, Any]) -> None:
    assert plain_trial(json.dumps(beyond).encode()) is None
    fast, event = plain_trial(json.dumps(at).encode()), decode(json.dumps(at).encode())
    assert isinstance(event, TrialResult)
    if fast is not None:
        assert {name: getattr(fast, name) for name in TrialResult.model_fields} == {
            name: getattr(event, name) for name in TrialResult.model_fields
        }


def test_the_fast_reading_takes_ids_names_texts_and_counts_at_their_limits() -> None:
    unusual = {"agent_index", "tests", "snapshot", "claimed", "speedup_percentage", "benchmarks"}
    unusual |= {"metrics", "labels", "artifacts", "provenance"}
    beyond_usual_floats = {"score", "cost_usd", "duration_seconds"}
    for field in TRIAL_FIELDS.keys() - unusual - beyond_usual_floats:
        for at, _ in TRIAL_FIELDS[field]:
            assert plain_trial(json.dumps(SLOT | {field: at}).encode()) is not None, field


def test_the_name_of_a_benchmark_has_its_limit_also_in_large_results() -> None:
    """Large dictionaries of floats are read in a way of their own."""
    usual = {f"b{n}": {"agent/nop": 1.5} for n in range(500)}
    at, beyond = keyed(base.MAX_BENCHMARK_NAME_CHARACTERS, {"agent/nop": 1.5})
    assert isinstance(decode(json.dumps(SLOT | {"benchmarks": usual | at}).encode()), TrialResult)
    assert isinstance(decode(json.dumps(SLOT | {"benchmarks": usual | beyond}).encode()), Reason)


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_the_json_schema_shows_a_limit_for_every_number_text_list_and_map(kind: Any) -> None:
    schema = kind.model_json_schema()
    shown = list(_unlimited(schema, schema))
    assert shown == []


def _unlimited(node: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of what the schema leaves without a limit."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    if "const" in node or "enum" in node or node.get("format") == "date-time":
        return
    match node.get("type"):
        case "integer" | "number" if not {"maximum", "minimum"} <= node.keys():
            yield path
        case "string" if "maxLength" not in node:
            yield path
        case "array" if "maxItems" not in node:
            yield path
        case "object" if "properties" not in node and "maxProperties" not in node:
            yield path
    for name, part in node.get("properties", {}).items():
        yield from _unlimited(part, schema, f"{path}/{name}")
    parts = [*node.get("anyOf", ()), *([node["items"]] if "items" in node else [])]
    if node.get("type") == "object" and isinstance(node.get("additionalProperties"), dict):
        parts.append(node["additionalProperties"])
    for part in parts:
        yield from _unlimited(part, schema, path)


# -----------------------------------------------------------------------------
# Spellings of model names (E9, E10).


@pytest.mark.parametrize("name", ["gpt-5", "@@openai/gpt-5", "accounts/fireworks/models/x", "", "@", "a/b/c"])
def test_the_reporting_name_is_its_own_reporting_name(name: str) -> None:
    once = model_for_reporting(name)
    assert model_for_reporting(once) == once


@pytest.mark.parametrize("name", ["accounts/fireworks/models/x", "@openai/gpt-5", "openai/openai/gpt-5"])
def test_the_reporting_name_is_priced_like_the_name_itself(name: str) -> None:
    assert model_for_pricing(model_for_reporting(name)) == model_for_pricing(name)
