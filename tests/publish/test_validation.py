"""An event is checked in slices; a mapping and its model are the same record."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from streamer.client import TrialPublisher
from streamer.client.capture import CHANGED, SLICE_ENTRIES, AnEvent, capture, validate
from streamer.schemas.events import EVENT
from streamer.schemas.wire import decode
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing
from tests.publish.publishing import DEADLINE_SECONDS, LARGE, events
from tests.support.events import a_trial


def record_of(event: AnEvent) -> Outgoing:
    record = validate(capture(event))
    assert isinstance(record, Outgoing)
    return record


def test_many_benchmarks_arrive_as_they_were_handed_over(
    publisher: TrialPublisher, settings: Settings
) -> None:
    publisher.publish(a_trial(task_id="mapping", benchmarks=LARGE))
    publisher.publish(a_trial(task_id="proxy", benchmarks=MappingProxyType(LARGE)))
    publisher.publish(EVENT.validate_python(a_trial(task_id="model", benchmarks=LARGE)))
    assert publisher.flush(DEADLINE_SECONDS)
    found = {event["task_id"]: event for event in events(settings)}
    assert found.keys() == {"mapping", "proxy", "model"}
    assert all(event["benchmarks"] == LARGE for event in found.values())
    value = record_of(a_trial(benchmarks=LARGE)).value
    assert decode(value) == EVENT.validate_python(a_trial(benchmarks=LARGE))


@pytest.mark.parametrize(
    "change",
    [
        lambda benchmarks: benchmarks.clear(),
        lambda benchmarks: benchmarks.update(more={}),
        lambda benchmarks: benchmarks.update({name: dict(entry) for name, entry in LARGE.items()}),
    ],
)
def test_benchmarks_that_are_filled_anew_for_the_next_event_are_noticed(
    change: Callable[[dict[str, Any]], None],
) -> None:
    """A harness that uses one dictionary for all its trials must not send those of another trial."""
    benchmarks = dict(LARGE)
    taken = capture(a_trial(benchmarks=benchmarks))
    change(benchmarks)
    assert validate(taken) is CHANGED


def test_other_threads_may_run_between_slices_of_a_large_event() -> None:
    pauses: list[None] = []
    validate(capture(a_trial(benchmarks=LARGE)), lambda: pauses.append(None))
    assert len(pauses) == -(-len(LARGE) // SLICE_ENTRIES)


@pytest.mark.parametrize("benchmarks", [None, {}, dict(list(LARGE.items())[:64]), LARGE])
def test_a_model_and_its_mapping_are_the_same_record(benchmarks: dict[str, Any] | None) -> None:
    mapping = a_trial(tests={"status": "ok", "passed": 3}, extra="kept", benchmarks=benchmarks)
    model = EVENT.validate_python(mapping)
    assert record_of(model) == record_of(mapping)
    assert decode(record_of(model).value) == model
