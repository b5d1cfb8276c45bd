"""Every field says what it is, in which unit and range."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

import streamer.schemas
from streamer.schemas import events
from streamer.schemas.export import MESSAGES
from streamer.schemas.formulacode import SnapshotCounts, TestCounts

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


FIELDS = [(model, name) for model in models() for name in model.model_fields]
IDS = [f"{model.__name__}.{name}" for model, name in FIELDS]


def test_the_walk_finds_every_message() -> None:
    assert set(MESSAGES) <= set(models())


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_a_model_says_what_it_is(model: type[BaseModel]) -> None:
    assert model.__doc__
    assert model.__doc__.strip().splitlines()[0].endswith((".", "`)."))


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=IDS)
def test_a_field_says_what_it_is(model: type[BaseModel], name: str) -> None:
    description = model.model_fields[name].description
    assert description
    assert description.endswith(".")


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=IDS)
def test_a_field_with_a_unit_says_it(model: type[BaseModel], name: str) -> None:
    description = model.model_fields[name].description or ""
    for part, unit in UNITS.items():
        if re.search(part, name) and name not in NO_NUMBER:
            assert re.search(unit, description), f"{name} must say its unit ({unit}): {description}"


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=IDS)
def test_an_integer_of_an_event_has_a_range(model: type[BaseModel], name: str) -> None:
    """Without one, canonical JSON could meet an integer that it cannot write."""
    if issubclass(model, (events.Event, TestCounts, SnapshotCounts)):
        schema = model.model_json_schema()["properties"][name]
        integers = [part for part in schema.get("anyOf", [schema]) if part.get("type") == "integer"]
        assert all("const" in part or {"minimum", "maximum"} <= set(part) for part in integers)
