"""The exported documents say what the models do, and the committed copies are the current ones."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from streamer.schemas.base import canonical_json
from streamer.schemas.events import EVENT
from streamer.schemas.export import ASYNCAPI_FILE, MESSAGES, asyncapi, documents, message_schema
from streamer.schemas.summaries import SUMMARY, SUMMARY_TYPES, Rescored
from streamer.schemas.wire import TOPICS, type_of
from streamer.settings import Settings
from streamer.worker.process import plan
from tests.schemas.examples import BAD_EVENTS, GOOD_EVENTS, published
from tests.support.revealed import revealed

HERE = Path(__file__).parent
COMMITTED = HERE.parents[1] / "schemas"
SPECIFICATION = HERE / "asyncapi-3.0.0.json.gz"
"""The AsyncAPI initiative's own JSON Schema of AsyncAPI 3.0.0 (Apache-2.0), unchanged but compressed."""

VALIDATORS = {type_of(model): Draft202012Validator(message_schema(model)) for model in MESSAGES}
PUBLISHED = published()


def accepted_by_schema(message: dict[str, Any]) -> bool:
    validator = VALIDATORS.get(str(message.get("type")))
    return validator is not None and validator.is_valid(message)


def accepted_by_model(message: dict[str, Any], adapter: TypeAdapter[Any]) -> bool:
    with suppress(ValidationError):
        return bool(adapter.validate_json(json.dumps(message)))
    return False


@pytest.mark.slow
def test_a_strict_type_checker_knows_the_type_of_every_field_of_every_message(tmp_path: Path) -> None:
    """Only the fields of `Rescored` are free JSON."""
    fields = [(model.__name__, name) for model in SUMMARY_TYPES for name in model.model_fields]
    head = "import streamer.schemas.summaries as s\n"
    head += "\n".join(f"{model.__name__}: s.{model.__name__}" for model in SUMMARY_TYPES)
    types = revealed(tmp_path, head, [f"{model}.{name}" for model, name in fields])
    free = {field for field, type_ in zip(fields, types, strict=True) if "Any" in type_}
    assert free == {(Rescored.__name__, name) for name in ("trial", "because", "before", "after")}


def test_the_committed_copies_are_current() -> None:
    fresh = {name: text.encode() for name, text in documents().items()}
    committed = {path.name: path.read_bytes() for path in COMMITTED.glob("*.json")}
    stale = {name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name)}
    assert not stale, "schemas/ is stale: run `make schema` and commit the result"


@pytest.mark.parametrize("model", MESSAGES, ids=type_of)
def test_a_schema_is_valid_names_itself_and_says_whether_unknown_fields_are_refused(model: Any) -> None:
    schema = message_schema(model)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith("urn:streamer:schema:")
    assert schema["properties"]["type"]["const"] == type_of(model)
    assert schema["additionalProperties"] is (model.model_config.get("extra") != "forbid")


@pytest.mark.parametrize(
    ("event", "good"),
    [(event, True) for event in GOOD_EVENTS.values()] + [(event, False) for event in BAD_EVENTS.values()],
    ids=[*GOOD_EVENTS, *BAD_EVENTS],
)
def test_schema_and_model_accept_and_refuse_the_same_events(event: dict[str, Any], good: bool) -> None:
    assert accepted_by_model(event, EVENT) is accepted_by_schema(event) is good


def test_the_examples_hold_every_message() -> None:
    seen = {message["type"] for message in (*GOOD_EVENTS.values(), *PUBLISHED)}
    assert seen == {type_of(model) for model in MESSAGES}


def test_what_the_pipeline_publishes_is_valid_and_reads_back_to_the_bytes_it_was_written_as() -> None:
    for message in PUBLISHED:
        assert accepted_by_schema(message), message
        read = SUMMARY.validate_json(json.dumps(message), extra="forbid")
        assert canonical_json(read.model_dump(mode="json")) == canonical_json(message)


NEWEST = {message["type"]: message for message in PUBLISHED}


@pytest.mark.parametrize("kind", NEWEST)
def test_schema_and_model_refuse_a_spoilt_summary_and_read_one_of_another_version(kind: str) -> None:
    """Fields that came after the first version may be missing, and others may be there."""
    message, required = NEWEST[kind], VALIDATORS[kind].schema["required"]
    older = {name: message[name] for name in required}
    spoilt = [message | {field: [[]]} for field in message]
    spoilt += [{k: v for k, v in message.items() if k != field} for field in required]
    for one, read in [
        (older, True),
        (message | {"strange": 1}, True),
        *((broken, False) for broken in spoilt),
    ]:
        assert accepted_by_model(one, SUMMARY) is accepted_by_schema(one) is read, one


def test_the_asyncapi_document_is_valid_by_the_specification() -> None:
    validator = Draft7Validator(json.loads(gzip.decompress(SPECIFICATION.read_bytes())))
    assert [error.message for error in validator.iter_errors(asyncapi())] == []
    broken = asyncapi()
    broken["channels"]["trial-events"]["bindings"]["kafka"]["partitions"] = "eight"
    assert not validator.is_valid(broken)


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [ref for item in node for ref in references(item)]
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for item in node.values() for ref in references(item)]
    return []


def test_every_reference_of_the_asyncapi_document_leads_somewhere_inside_it() -> None:
    document = asyncapi()
    result = references(document)
    assert result
    for reference in result:
        node: Any = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_the_asyncapi_payloads_accept_what_the_message_schemas_accept() -> None:
    schemas = asyncapi()["components"]["schemas"]
    by_type = {type_of(model): model.__name__ for model in MESSAGES}
    for message in (*GOOD_EVENTS.values(), *PUBLISHED):
        # In draft 7 a $ref hides its siblings from validation, not from resolution.
        root = {
            "$ref": f"#/components/schemas/{by_type[message['type']]}",
            "components": {"schemas": schemas},
        }
        assert Draft7Validator(root).is_valid(message), message


def test_every_message_lies_in_exactly_one_topic() -> None:
    names = [name for topic in TOPICS for name in topic.messages]
    assert sorted(names) == sorted(map(type_of, MESSAGES))


def test_the_document_describes_the_topics_that_the_worker_creates() -> None:
    created = {topic.name: topic for topic in plan(Settings.model_construct())}
    assert {topic.name for topic in TOPICS} == set(created)
    for topic in TOPICS:
        config = created[topic.name].config
        assert topic.partitions == created[topic.name].partitions, topic.name
        assert topic.compacted is (config.get("cleanup.policy") == "compact"), topic.name
        assert topic.retention_ms == (int(config["retention.ms"]) if "retention.ms" in config else None)


def test_every_channel_is_used_by_an_operation_and_every_message_names_its_key() -> None:
    document = asyncapi()
    used = {operation["channel"]["$ref"].split("/")[-1] for operation in document["operations"].values()}
    assert used == set(document["channels"])
    for message in document["components"]["messages"].values():
        assert message["bindings"]["kafka"]["key"]["description"]


def test_exported_documents_name_no_host() -> None:
    for path in COMMITTED.glob("*.json"):
        text = path.read_text(encoding="utf-8").replace("https://json-schema.org/draft/2020-12/schema", "")
        assert "://" not in text, path.name
    assert (COMMITTED / ASYNCAPI_FILE).is_file()
