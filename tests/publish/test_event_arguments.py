"""The arguments of the helpers are the fields of the events."""

from __future__ import annotations

from tests.publish import make_arguments


def test_the_helpers_take_every_field_of_their_event() -> None:
    assert make_arguments.MODULE.read_text("utf-8") == make_arguments.module(), "run: make schema"
