"""JSON Schema of every message, and one AsyncAPI 3 document of every topic, generated from the models.

The output is deterministic. `make schema` writes the copies in schemas/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import CoreSchema

from streamer.schemas.base import EVENT_SCHEMA_VERSION, NO_CONTROL_CHARACTERS, SEMANTICS_VERSION, Message
from streamer.schemas.events import EVENT_TYPES
from streamer.schemas.summaries import SUMMARY_TYPES
from streamer.schemas.wire import TOPICS, Topic, type_of

# -----------------------------------------------------------------------------
# JSON Schema of every message and one AsyncAPI 3 document of every topic, made from the models.


MESSAGES: tuple[type[Message], ...] = (*EVENT_TYPES, *SUMMARY_TYPES)
VERSION = f"{EVENT_SCHEMA_VERSION}.{SEMANTICS_VERSION}.0"
"""Version of the exported documents, from event schema and semantics."""

ASYNCAPI_FILE = "asyncapi.json"
_CONTROL_CHARACTERS = "[\\u0000-\\u001f\\u007f-\\u009f]"
_BINDING_VERSION = "0.5.0"


def documents() -> dict[str, str]:
    """The text of each document by file name: one JSON Schema per message, and `asyncapi.json`."""
    schemas = {f"{type_of(model)}.schema.json": message_schema(model) for model in MESSAGES}
    schemas[ASYNCAPI_FILE] = asyncapi()
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


def message_schema(model: type[Message]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Generator)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": f"urn:streamer:schema:{VERSION}:{type_of(model)}",
        **_portable(schema),
    }


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3 document: channels, operations and messages of every topic, from the worker's view."""
    return {
        "asyncapi": "3.0.0",
        "id": "urn:streamer",
        "info": {
            "title": "Streamer",
            "version": VERSION,
            "description": "Results of LLM-agent benchmarks: events in, running summaries and grades out. "
            "Topics are named as in the default namespace; with a namespace NS they are NS.topic. "
            'Numbers that are not finite are the texts "Infinity", "-Infinity" and "NaN".',
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in TOPICS},
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": definitions(MESSAGES)},
    }


def _channel(topic: Topic) -> dict[str, Any]:
    configuration: dict[str, Any] = {"cleanup.policy": ["compact" if topic.compacted else "delete"]}
    if topic.retention_ms is not None:
        configuration["retention.ms"] = topic.retention_ms
    tombstones = " Compacted; a record without a value is a tombstone." if topic.compacted else ""
    return {
        "address": topic.name,
        "title": topic.title,
        "description": topic.description + tombstones,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _message_names(topic)},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": configuration,
                "bindingVersion": _BINDING_VERSION,
            }
        },
    }


def _operations() -> dict[str, Any]:
    operations = {}
    for topic in TOPICS:
        operations[f"{topic.action}-{topic.name}"] = _operation(topic, topic.action, topic.description)
        if topic.action == "receive":
            why = "Send a record that lies in the wrong partition to the right one, once."
            operations[f"forward-{topic.name}"] = _operation(topic, "send", why)
    return operations


def _operation(topic: Topic, action: str, summary: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic.name}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{topic.name}/messages/{name}"} for name in _message_names(topic)],
    }
    if action == "receive":
        group = {"type": "string", "const": "streamer", "description": "In the default namespace."}
        operation["bindings"] = {"kafka": {"groupId": group, "bindingVersion": _BINDING_VERSION}}
    return operation


def _message_names(topic: Topic) -> list[str]:
    return list(topic.messages) or [_private_name(topic)]


def _private_name(topic: Topic) -> str:
    return topic.name.replace("-", "_")


def _messages() -> dict[str, Any]:
    messages, models = {}, {type_of(model): model for model in MESSAGES}
    for topic in TOPICS:
        for name in topic.messages:
            payload = {"$ref": f"#/components/schemas/{models[name].__name__}"}
            messages[name] = _message(topic, name, models[name].__doc__ or "", payload)
        if not topic.messages:
            name = _private_name(topic)
            messages[name] = _message(topic, name, topic.description, {"description": "Private."})
    return messages


def _message(topic: Topic, name: str, doc: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "summary": doc.strip().splitlines()[0],
        "payload": payload,
        "bindings": {
            "kafka": {"key": {"type": "string", "description": topic.key}, "bindingVersion": _BINDING_VERSION}
        },
    }


def definitions(models: Sequence[type[Message]]) -> dict[str, Any]:
    _, schemas = models_json_schema(
        [(model, "validation") for model in models],
        schema_generator=_Generator,
        ref_template="#/components/schemas/{model}",
    )
    portable: dict[str, Any] = _portable(schemas["$defs"])
    return dict(sorted(portable.items()))


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: JsonSchemaValue | CoreSchema) -> bool:
        return False


def _portable(schema: Any) -> Any:
    """The schema in terms that every regular expression dialect understands.

    Many validators do not know `\\p{Cc}`, and `$` may match before a final newline. Models that ignore
    unknown fields get `additionalProperties: true`.
    """
    if isinstance(schema, list):
        return [_portable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    portable = {key: _portable(value) for key, value in schema.items()}
    if isinstance(portable.get("pattern"), str):
        portable |= _without_control_characters(portable.pop("pattern"))
    if "patternProperties" in portable:
        [(pattern, value)] = portable.pop("patternProperties").items()
        portable["additionalProperties"] = value
        portable["propertyNames"] = portable.get("propertyNames", {}) | _without_control_characters(pattern)
    if isinstance(portable.get("properties"), dict) and portable.get("type") == "object":
        portable.setdefault("additionalProperties", True)
    return portable


def _without_control_characters(pattern: str) -> dict[str, Any]:
    banned = {"not": {"pattern": _CONTROL_CHARACTERS}}
    return banned if pattern == NO_CONTROL_CHARACTERS else {"pattern": pattern} | banned
