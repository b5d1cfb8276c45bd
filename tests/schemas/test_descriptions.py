"""Every field says what it is, in which unit and range."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator

import pytest
from pydantic import BaseModel

import streamer.schemas
from streamer.schemas import events
from streamer.schemas.events import SnapshotCounts, TestCounts
from streamer.schemas.export import MESSAGES

UNITS = {
    r"cost|_usd$": r"USD|US dollars",
    r"_seconds$|duration": r"seconds",
    r"_ms$": r"milliseconds",
    r"_bytes$": r"bytes",
    r"_percentage$": r"percent",
    r"_tokens$": r"tokens",
    r"_at$": r"UTC|RFC 3339|of the run",
    r"_base64$": r"base64",
}
"""Part of a field's name to what its description must say."""

NO_NUMBER = {"cost_source"}


def models() -> Iterator[type[BaseModel]]:
    """Every model of the package, nested ones included."""
    for found in pkgutil.iter_modules(streamer.schemas.__path__):
        module = importlib.import_module(f"streamer.schemas.{found.name}")
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, BaseModel) and item.__module__ == module.__name__:
                yield item


DESCRIPTIONS = {
    (model, name): field.description or "" for model in models() for name, field in model.model_fields.items()
}
"""Model and field to what the field says of itself."""


def named(fields: Iterable[tuple[type[BaseModel], str]]) -> list[str]:
    return [f"{model.__name__}.{name}" for model, name in fields]


def test_the_walk_finds_every_message() -> None:
    assert set(MESSAGES) <= set(models())


def test_a_model_says_what_it_is() -> None:
    first_lines = {model.__name__: (model.__doc__ or "").strip().partition("\n")[0] for model in models()}
    assert {name: line for name, line in first_lines.items() if not line.endswith((".", "`)."))} == {}


def test_a_field_says_what_it_is() -> None:
    assert named(field for field, description in DESCRIPTIONS.items() if not description.endswith(".")) == []


@pytest.mark.parametrize(("part", "unit"), UNITS.items())
def test_a_field_with_a_unit_says_it(part: str, unit: str) -> None:
    measured = {
        (model, name): description
        for (model, name), description in DESCRIPTIONS.items()
        if re.search(part, name) and name not in NO_NUMBER
    }
    assert measured
    silent = named(field for field, description in measured.items() if not re.search(unit, description))
    assert silent == [], f"each must say its unit ({unit})"


def test_an_integer_of_an_event_has_a_range() -> None:
    """Without one, canonical JSON could meet an integer that it cannot write."""
    integers = [
        (f"{model.__name__}.{name}", part)
        for model in models()
        if issubclass(model, (events.Event, TestCounts, SnapshotCounts))
        for name, schema in model.model_json_schema()["properties"].items()
        for part in schema.get("anyOf", [schema])
        if part.get("type") == "integer"
    ]
    assert len(integers) > 20
    assert [
        n for n, part in integers if "const" not in part and not {"minimum", "maximum"} <= set(part)
    ] == []
