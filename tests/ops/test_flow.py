"""What is in flight, and which partitions nothing is known of, by the heartbeats of the workers."""

from __future__ import annotations

from typing import Any

from streamer.operate.health import Flow, PartitionLag

PARTITIONS = tuple(PartitionLag(number, beginning=0, end=9, committed=9) for number in range(3))
FIRST = {"partitions": [0, 2], "published_to": {"0": 9, "2": 9}}
SECOND = {"partitions": [1], "published_to": {"1": 9}}


def flow(*workers: dict[str, Any]) -> Flow:
    """All three partitions, and these heartbeats."""
    return Flow(PARTITIONS, workers)


def test_nothing_is_known_of_the_partitions_of_a_worker_that_is_not_heard() -> None:
    assert flow(FIRST, SECOND).without_owner == []
    assert flow(FIRST).without_owner == [1]
    assert flow(SECOND, {"partitions": [], "waits": "for its group"}).without_owner == [0, 2]
    assert flow().without_owner == [0, 1, 2]


def test_what_an_owner_has_not_published_is_in_flight() -> None:
    assert flow(FIRST, SECOND).in_flight is None
    assert flow(FIRST).in_flight is None
    behind = flow(FIRST, SECOND | {"published_to": {"1": 8}}).in_flight
    assert behind == "workers have not published everything of partitions 1 yet"
    assert flow(FIRST, SECOND | {"published_to": {}}).in_flight == behind
    assert flow(SECOND | {"published_to": {}}, SECOND).in_flight is None, "its owner before is heard, too"


def test_workers_of_a_release_that_does_not_say_what_is_published_count_as_busy() -> None:
    assert "partitions 0, 2 yet" in (flow({"partitions": [0, 2]}, SECOND).in_flight or "")


def test_events_that_wait_and_workers_with_work_are_in_flight() -> None:
    waiting = Flow((PartitionLag(0, beginning=0, end=9, committed=4),), ())
    assert "5 events are not processed yet" in (waiting.in_flight or "")
    assert flow(FIRST | {"unsent": 1}, SECOND | {"catching_up": [1]}).in_flight == (
        "2 workers have not sent everything to Redis yet"
    )
