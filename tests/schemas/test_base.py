"""Every number, text, list and map of an event has a limit, in the schema and in both ways of reading."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
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


def each(fields: str, *pairs: Pair) -> dict[str, list[Pair]]:
    return {field: [*pairs] for field in fields.split()}


def both(make: Callable[[Any], Any], values: Pair) -> Pair:
    return make(values[0]), make(values[1])


def valued(key: str, values: Pair) -> Pair:
    return both(lambda value: {key: value}, values)


def listed(values: Pair) -> Pair:
    return both(lambda value: [value], values)


def places(**fields: tuple[str, str]) -> list[Pair]:
    at = {"name": "n", "path": "p"}
    return [([at | {name: least}], [at | {name: beyond}]) for name, (least, beyond) in fields.items()]


def keyed(most: int, value: Any) -> Pair:
    return {"x" * most: value}, {"x" * (most + 1): value}


ID, NAME, TEXT = text(base.MAX_ID_CHARACTERS), text(base.MAX_NAME_CHARACTERS), text(base.MAX_TEXT_CHARACTERS)
COUNT, ORDINAL = (base.MAX_COUNT, base.MAX_COUNT + 1), (base.MAX_ORDINAL, base.MAX_ORDINAL + 1)
REVISION, LEAST_REVISION = (base.MAX_REVISION, base.MAX_REVISION + 1), (-(2**63), -(2**63) - 1)
AMOUNT, INTEGER = (sys.float_info.max, float("inf")), ({"a": 2**63 - 1}, {"a": 2**63})
SLOT_FIELDS: dict[str, list[Pair]] = (
    each("run_id shard task_id", ID)
    | each("agent model tier subtest", NAME)
    | {"attempt": [ORDINAL, (1, 0)], "revision": [REVISION, LEAST_REVISION]}
)
COUNTS = "input_tokens output_tokens cache_read_tokens cache_write_tokens trajectory_length"
PROVENANCE = [
    entries(base.MAX_PROVENANCE, "v"),
    keyed(base.MAX_TRIAL_LABEL_KEY_CHARACTERS, "v"),
    valued("k", text(base.MAX_PROVENANCE_CHARACTERS)),
]
SUITE, ARTIFACT = {"agent/nop": 1.5}, {"name": "n", "path": "p"}
TRIAL_FIELDS: dict[str, list[Pair]] = (
    SLOT_FIELDS
    | each("trial_id trial_name", TEXT)
    | each("harness failure_mode", NAME)
    | each(COUNTS, COUNT, (0, -1))
    | each("cost_usd duration_seconds", AMOUNT, (0, -5e-324))
    | {"provenance": PROVENANCE, "agent_index": [ORDINAL, (1, 0)], "speedup_percentage": [AMOUNT]}
    | {"score": [AMOUNT, (-sys.float_info.max, float("-inf"))]}
    | {"tests": [both(lambda count: {"status": "ok", "passed": count}, COUNT)]}
    | {"snapshot": [both(lambda count: {"status": "passed", "total": -count}, COUNT)]}
    | {"claimed": [entries(base.MAX_CLAIMS, 1.5), keyed(base.MAX_NAME_CHARACTERS, 1.5), INTEGER]}
    | {
        "benchmarks": [
            entries(base.MAX_BENCHMARKS_PER_TRIAL, SUITE),
            keyed(base.MAX_BENCHMARK_NAME_CHARACTERS, SUITE),
            INTEGER,
        ],
        "metrics": [
            entries(base.MAX_METRICS, 1.5),
            keyed(base.MAX_METRIC_NAME_CHARACTERS, 1.5),
            valued("a", AMOUNT),
            ({"a": -AMOUNT[0]}, {"a": -AMOUNT[1]}),
        ],
        "labels": [
            entries(base.MAX_TRIAL_LABELS, "v"),
            keyed(base.MAX_TRIAL_LABEL_KEY_CHARACTERS, "v"),
            valued("k", text(base.MAX_TRIAL_LABEL_VALUE_CHARACTERS)),
        ],
        "message": [text(base.MAX_MESSAGE_CHARACTERS)],
        "artifacts": [
            ([ARTIFACT] * base.MAX_ARTIFACTS, [ARTIFACT] * (base.MAX_ARTIFACTS + 1)),
            *places(name=NAME, path=TEXT, media_type=NAME),
            both(lambda at: [{"name": "n", "url": at}], link(base.MAX_LINK_CHARACTERS)),
        ],
    }
)
PLAN_FIELDS: dict[str, list[Pair]] = (
    each("harness baseline_tier grading_profile benchmark order_reason part", NAME)
    | each("project benchmark_version display_name", TEXT)
    | {"run_id": [ID], "revision": [REVISION, LEAST_REVISION], "order_kind": [("shuffled", "random")]}
    | {"tasks": [(base.MAX_TASKS, base.MAX_TASKS + 1), (0, -1), listed(ID)], "concurrency": [ORDINAL, (1, 0)]}
    | {"attempts": [(base.MAX_PLANNED_ATTEMPTS, base.MAX_PLANNED_ATTEMPTS + 1), (1, 0)]}
    | {"order": [(["t"], [""]), *(([["t", at]], [["t", beyond]]) for at, beyond in (ORDINAL, (1, 0)))]}
    | {"order_history": [names(base.MAX_ORDER_HISTORY), listed(ID)], "provenance": PROVENANCE}
    | {"parts": [(base.MAX_PARTS, base.MAX_PARTS + 1), (1, 0)], "varies": [names(base.MAX_PROVENANCE)]}
    | {"agent_models": [names(base.MAX_AGENT_MODELS), listed(text(base.MAX_AGENT_MODEL_CHARACTERS))]}
    | {"tiers": [names(base.MAX_TIERS), listed(NAME)], "baselines": [names(base.MAX_BASELINES), listed(NAME)]}
    | {"infrastructure_failures": [names(base.MAX_INFRASTRUCTURE_FAILURES), listed(NAME)]}
    | {"primary_metric": [text(len(NAMED) + base.MAX_METRIC_NAME_CHARACTERS)]}
    | {
        "ledger": [
            both(lambda name: {"name": name, "baseline": "r"}, NAME),
            both(lambda baseline: {"name": "n", "baseline": baseline}, TEXT),
        ],
        "task_difficulty": [
            *(valued("t", ends) for ends in ((1, 1.5), (0, -0.5))),
            keyed(base.MAX_ID_CHARACTERS, 0.5),
        ],
        "subtests": [
            entries(base.MAX_TIERS, 1),
            keyed(base.MAX_NAME_CHARACTERS, 1),
            valued("T0", (base.MAX_SUBTESTS, 1001)),
        ],
        "metrics": [
            entries(base.MAX_METRICS, {}),
            keyed(base.MAX_METRIC_NAME_CHARACTERS, {}),
            *(valued("a", valued(said, NAME)) for said in ("unit", "label")),
        ],
        "labels": [
            entries(base.MAX_LABELS, "v"),
            keyed(base.MAX_NAME_CHARACTERS, "v"),
            valued("k", text(base.MAX_LABEL_VALUE_CHARACTERS)),
        ],
    }
)
RUN: dict[str, list[Pair]] = {"run_id": [ID], "revision": [REVISION, LEAST_REVISION]}
JUDGED = {"of_revision": RUN["revision"]} | {name: TRIAL_FIELDS[name] for name in ("score", "metrics")}
LIMITS: dict[str, tuple[dict[str, Any], dict[str, list[Pair]]]] = {
    "trial_result": (SLOT, TRIAL_FIELDS),
    "run_started": (FULL_PLAN, PLAN_FIELDS),
    "run_finished": (END, RUN | {"status": [TEXT], "part": [NAME], "try": [ORDINAL, (1, 0)]}),
    "trial_scored": (SCORE, SLOT_FIELDS | JUDGED),
    "trial_started": (START, SLOT_FIELDS | {"position": [ORDINAL, (0, -1)]}),
    "trial_retracted": (RETRACTION, SLOT_FIELDS | {"reason": [TEXT]}),
    "run_deleted": (DELETION, RUN),
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
def test_a_value_at_its_limit_is_read_and_the_next_one_not(
    at: dict[str, Any], beyond: dict[str, Any]
) -> None:
    """Also in the fast reading."""
    event, fast = decode(json.dumps(at).encode()), plain_trial(json.dumps(at).encode())
    assert not isinstance(event, Reason)
    assert isinstance(decode(json.dumps(beyond).encode()), Reason)
    assert plain_trial(json.dumps(beyond).encode()) is None
    fields = TrialResult.model_fields if fast else ()
    assert [getattr(fast, name) for name in fields] == [getattr(event, name) for name in fields]
    schema = VALIDATORS[at["type"]]
    assert schema.is_valid(at)
    assert schema.is_valid(beyond) is (INTEGER[1] in beyond.values()), "of free JSON it has no integers"


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


@pytest.mark.parametrize(
    "name",
    ["gpt-5", "@@openai/gpt-5", "accounts/fireworks/models/x", "", "@", "a/b/c", "openai/openai/gpt-5"],
)
def test_the_reporting_name_is_its_own_and_priced_like_the_name_itself(name: str) -> None:
    once = model_for_reporting(name)
    assert (model_for_reporting(once), model_for_pricing(once)) == (once, model_for_pricing(name))
