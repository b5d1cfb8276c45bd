"""The corpus for other languages is current, valid by the published schemas, and what its names promise."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from streamer.schemas.wire import digest_of
from tests.schemas.corpus import EXAMPLES, FOLDER, documents, expected

SCHEMAS = FOLDER.parent


def committed(name: str, file: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (FOLDER / name / file).read_bytes().splitlines()]


def summary(name: str, kind: str, **fields: str) -> dict[str, Any]:
    found = [
        one
        for one in committed(name, "summaries.ndjson")
        if one["type"] == f"{kind}_summary" and fields.items() <= one.items()
    ]
    assert len(found) == 1
    return found[0]


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
            errors = list(Draft202012Validator(schema).iter_errors(message))
            assert errors == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_order_and_any_repetition_of_the_events_gives_the_expected_summaries(name: str) -> None:
    events = committed(name, "events.ndjson") * 2
    random.Random(name).shuffle(events)
    assert expected(events) == committed(name, "summaries.ndjson")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_client_can_recompute_each_digest_from_the_summary(name: str) -> None:
    for one in committed(name, "summaries.ndjson"):
        assert digest_of(one) == one["digest"]


def test_the_examples_show_what_they_are_named_for() -> None:
    assert summary("smallest", "run")["no_verdict"] == 1
    passes = summary("attempts", "agent_model")["pass_at_k"]
    assert [passes[k]["value"] for k in ("1", "2")] == [0.5, 2 / 3]  # (1 + .5 + 0) / 3, (1 + 1 + 0) / 3
    assert summary("tiers", "tier", tier="T1", agent_model="terminus:gpt-5")["tier_uplift"] > 0
    corrected = summary("corrections", "run")
    assert (corrected["trials"], corrected["resolved"]) == (2, 1)
    assert summary("speedups", "agent_model", agent="terminus")["formulacode"]["mean_speedup"] is not None
