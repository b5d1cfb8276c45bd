"""The worker's tables: a value counts as published at once, and stands once it is acknowledged."""

from __future__ import annotations

import pytest

from streamer.worker.tables import StateTable, Tables
from tests.worker.processor_bench import Bench


@pytest.fixture
def tables() -> Tables:
    return Bench().tables


@pytest.fixture
def runs(tables: Tables) -> StateTable:
    return tables.summaries["run"]


def test_a_value_stands_in_the_table_when_it_is_acknowledged(tables: Tables, runs: StateTable) -> None:
    record = runs.publish(0, "r1", b"one")
    assert (runs.published("r1"), runs.get("r1")) == (b"one", None)
    tables.written(record.topic, 0, 0, [record])
    assert (runs.published("r1"), runs.get("r1")) == (b"one", b"one")
    assert list(runs.of_partition(0)) == [("r1", b"one")]


def test_an_acknowledgement_of_an_older_value_leaves_the_newer_one_published(
    tables: Tables, runs: StateTable
) -> None:
    old = runs.publish(0, "r1", b"old")
    runs.publish(0, "r1", b"new")
    tables.written(old.topic, 0, 0, [old])
    assert (runs.published("r1"), runs.get("r1")) == (b"new", b"old")


def test_what_was_not_acknowledged_can_be_taken_back(tables: Tables, runs: StateTable) -> None:
    first = runs.publish(0, "r1", b"one")
    tables.written(first.topic, 0, 0, [first])
    runs.publish(0, "r1", None)
    runs.publish(0, "r2", b"two")
    runs.take_back("r1".__eq__)
    assert (runs.published("r1"), runs.published("r2")) == (b"one", b"two")


def test_records_of_other_topics_change_no_table(tables: Tables, runs: StateTable) -> None:
    record = runs.put(0, "r1", b"one")
    tables.written("another", 0, 0, [record])
    assert runs.get("r1") is None
    assert tables.summary_rows([record, record._replace(topic="another")]) == {("run", "r1"): None}
