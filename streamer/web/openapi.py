"""The OpenAPI 3.1 document of the API, made from the operations and their models."""

from __future__ import annotations

import re
from typing import Any

from pydantic.json_schema import models_json_schema

from streamer.schemas.export import VERSION
from streamer.web.answers import OPERATIONS, Operation
from streamer.web.models import Problem

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


def openapi() -> dict[str, Any]:
    """The whole document."""
    models = {operation.model for operation in OPERATIONS} | {Problem}
    in_order = sorted(models, key=lambda model: model.__name__)
    references, definitions = models_json_schema(
        [(model, "serialization") for model in in_order], ref_template=REFERENCE, by_alias=True
    )
    named = {model: reference for (model, _), reference in references.items()}
    paths = {operation.path: {"get": _get(operation, named[operation.model])} for operation in OPERATIONS}
    paths |= {path: {"get": _stream(path, summary)} for path, summary in STREAMS.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Streamer",
            "version": VERSION,
            "description": "Read-only. Numbers that are not finite are the texts Infinity, -Infinity and "
            "NaN. Ids in paths are percent-encoded, a slash as %2F.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where serve has a --token."}
            },
        },
        "security": [{}, {"token": []}],
    }


def _get(operation: Operation, reference: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "array", "items": reference} if operation.many else reference
    return {
        "operationId": _id(operation.path),
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation)],
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
            "default": _PROBLEM,
        },
    }


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


_PROBLEM = {
    "description": "What went wrong.",
    "content": {"application/problem+json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    schema = operation.query.model_json_schema()
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
