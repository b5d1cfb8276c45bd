"""The connectors that a `--harness` value admits."""

from __future__ import annotations

import pytest

from streamer.sources.base import AUTO
from streamer.sources.convert import HARNESSES, SOURCES, sources_for


def test_every_connector_of_ours_is_asked_in_its_order_unless_one_is_named() -> None:
    assert tuple(sources_for(AUTO)[: len(SOURCES)]) == SOURCES
    for source in SOURCES:
        assert list(sources_for(source.name)) == [source]


def test_no_two_connectors_have_one_name() -> None:
    assert len(set(HARNESSES)) == len(HARNESSES)


def test_a_harness_that_nobody_knows_is_refused_with_the_names_that_are_allowed() -> None:
    with pytest.raises(ValueError, match=r"'harbour' is unknown; allowed are auto, .*harbor"):
        sources_for("harbour")
