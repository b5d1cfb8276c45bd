"""The OpenAPI 3.1 document of the API, made from the operations and their models."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from streamer.schemas.events import EVENT_TYPES
from streamer.schemas.export import VERSION, definitions
from streamer.web.answers import OPERATIONS
from streamer.web.downloads import DOWNLOADS, WRITERS
from streamer.web.event_bodies import MAX_BODY_BYTES, MAX_EVENT_BYTES, MAX_EVENTS, BodyKind
from streamer.web.models import AsOfQuery, Problem, PublishedEvents, Query
from streamer.web.operation import Operation
from streamer.web.request_checks import EVENTS_PATH

REFERENCE = "#/components/schemas/{model}"
STREAMS = {
    "/api/updates": "The list of runs as it changes.",
    "/api/runs/{run}/updates": "A run, its agents and its tiers as they change.",
}
"""Paths that answer with Server-Sent Events."""

_ABOUT_STREAMS = (
    "Server-Sent Events. `snapshot`: forget what you know, everything follows. `run_summary`, "
    "`agent_model_summary`, `tier_summary`: a summary as it stands now, the same JSON as elsewhere; a "
    "run has its `state` besides, and is told again when that changes by the passing of time alone. "
    "`deleted`: an object with run_id, type, tier and agent_model; that summary is gone. `told`: now you "
    "know everything. Send Last-Event-ID to be told only what changed since; where the server does not "
    "remember, it begins with a snapshot. Of a summary that changes often only the latest state is told."
)

_ABOUT_PUBLISHING = (
    "Answered once the broker has acknowledged every event. Events keep their order. An invalid event is "
    "published as it came: the worker puts it into the rejection topic with its bytes. No Content-Encoding; "
    f"at most {MAX_BODY_BYTES:,} bytes, {MAX_EVENTS:,} events, and {MAX_EVENT_BYTES:,} bytes an event. "
    "Sending the same events again does no harm: duplicates do not count."
)
_REFUSALS = {
    "400": "The body is not JSON, or neither an array nor an object.",
    "401": "The token for publishing is missing or wrong.",
    "403": "Publishing is off, the token is for viewing only, or a page of another site asks.",
    "413": "Too large: the body, one event, or the number of events.",
    "415": "Another Content-Type, or a Content-Encoding.",
    "429": "Too many events wait for the broker. Send the same body after Retry-After seconds.",
    "503": "The broker did not acknowledge all events. Send the same body after Retry-After seconds.",
}


def openapi() -> dict[str, Any]:
    """The whole document."""
    models: set[type[BaseModel]] = {operation.model for operation in OPERATIONS}
    models |= {Problem, PublishedEvents}
    in_order = sorted(models, key=lambda model: model.__name__)
    references, answers = models_json_schema(
        [(model, "serialization") for model in in_order], ref_template=REFERENCE, by_alias=True
    )
    named = {model: reference for (model, _), reference in references.items()}
    paths = {operation.path: {"get": _get(operation, named[operation.model])} for operation in OPERATIONS}
    paths |= {path: {"get": _stream(path, summary)} for path, summary in STREAMS.items()}
    paths |= {path: {"get": _file_operation(path, ending)} for path, ending in DOWNLOADS.items()}
    paths[EVENTS_PATH] = {"post": _post(named[PublishedEvents])}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Streamer",
            "version": VERSION,
            "description": "Numbers that are not finite are the texts Infinity, -Infinity and "
            "NaN. Ids in paths are percent-encoded, a slash as %2F.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": definitions(EVENT_TYPES) | answers["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where serve has a --token."},
                "publish_token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "To publish, where serve has a --publish-token or a --token.",
                },
            },
        },
        "security": [{}, {"token": []}],
    }


def _get(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "array", "items": reference} if operation.many else reference
    if operation.file_name is not None:
        schema = {"type": "string", "description": "A file to keep."}
    return {
        "operationId": _id(operation.path),
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation.query)],
        "responses": {
            "200": {"description": "The answer.", "content": {operation.media: {"schema": schema}}},
            "default": _PROBLEM,
        },
    }


def _post(answer: dict[str, Any]) -> dict[str, Any]:
    event = {"oneOf": [{"$ref": REFERENCE.format(model=model.__name__)} for model in EVENT_TYPES]}
    return {
        "operationId": _id(EVENTS_PATH),
        "summary": "Publish events.",
        "description": _ABOUT_PUBLISHING,
        "security": [{}, {"publish_token": []}],
        "requestBody": {
            "required": True,
            "content": {
                BodyKind.LINES.value: {"schema": {"type": "string", "description": "One event per line."}},
                BodyKind.JSON.value: {"schema": {"anyOf": [{"type": "array", "items": event}, event]}},
            },
        },
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": {"schema": answer}}},
            **{status: _refusal(status, meaning) for status, meaning in _REFUSALS.items()},
            "default": _PROBLEM,
        },
    }


def _refusal(status: str, meaning: str) -> dict[str, Any]:
    after = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return _PROBLEM | {"description": meaning} | ({"headers": after} if status in ("429", "503") else {})


def _stream(path: str, summary: str) -> dict[str, Any]:
    resume = [
        {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
        {
            "name": "last_event_id",
            "in": "query",
            "description": "For clients that cannot send the header.",
            "schema": {"type": "string"},
        },
    ]
    return {
        "operationId": _id(path),
        "summary": summary,
        "description": _ABOUT_STREAMS,
        "parameters": [*_path_parameters(path), *resume],
        "responses": {
            "200": {
                "description": "Until the viewer goes.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            "default": _PROBLEM,
        },
    }


def _file_operation(path: str, ending: str) -> dict[str, Any]:
    media_type = WRITERS[ending][1].partition(";")[0]
    return {
        "operationId": _id(path),
        "summary": f"All scored trials of a run as {ending}, as `streamer report` writes them.",
        "parameters": [*_path_parameters(path), *_query_parameters(AsOfQuery)],
        "responses": {
            "200": {"description": "A file to keep.", "content": {media_type: {}}},
            "default": _PROBLEM,
        },
    }


_PROBLEM = {
    "description": "What went wrong.",
    "content": {"application/problem+json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(query: type[Query]) -> list[dict[str, Any]]:
    schema = query.model_json_schema()
    required = schema.get("required", ())
    parameters = []
    for name, field in schema.get("properties", {}).items():
        described = {key: value for key, value in field.items() if key not in ("title", "description")}
        parameters.append(
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "description": field["description"],
                "schema": described,
            }
        )
    return parameters


def _id(path: str) -> str:
    return "_".join(re.findall(r"\w+", path.removeprefix("/api")))
