"""A worker that finds what an earlier version of the semantics published does all of it again."""

from __future__ import annotations

from typing import Any

import orjson

from streamer.folding.score import made_with
from streamer.folding.score.prices import PriceTable
from streamer.schemas.base import SEMANTICS_VERSION
from tests.worker.deployment import Deployment

TRIALS, PASSES = 20, 11
TOPICS = ("agent-model-summaries", "run-summaries", "scored-trials")


def events() -> list[bytes]:
    """One run of one agent: 55 % of the trials pass."""
    event: dict[str, Any] = {"type": "trial_result", "run_id": "r", "agent": "a", "model": "m"}
    return [orjson.dumps(event | {"task_id": f"t{n}", "resolved": n < PASSES}) for n in range(TRIALS)]


def versions(deployment: Deployment) -> set[int]:
    """Versions of the semantics of all that the topics hold now."""
    values = [value for topic in TOPICS for value in deployment.latest(topic).values()]
    return {orjson.loads(value)["semantics_version"] for value in values}


def grades(deployment: Deployment) -> set[str]:
    values = deployment.latest("agent-model-summaries").values()
    return {orjson.loads(value)["grade"] for value in values}


def test_state_of_an_earlier_version_is_published_by_the_rules_of_this_one(on_embedded: Deployment) -> None:
    earlier = on_embedded.worker(module="tests.worker.earlier").start()
    on_embedded.publish(events())
    earlier.wait_until(lambda: len(on_embedded.latest("scored-trials")) == TRIALS, "all is published")
    earlier.wait_until(lambda: on_embedded.committed() == TRIALS, "all offsets are committed")
    assert (versions(on_embedded), grades(on_embedded)) == ({1}, {"A"})
    earlier.kill()
    on_embedded.make_current(made_with(PriceTable.default()))
    worker = on_embedded.worker().start()
    worker.wait_until(lambda: versions(on_embedded) == {SEMANTICS_VERSION}, "all is published again", 120)
    assert grades(on_embedded) == {"F"}
    on_embedded.wait_until_equal(worker)
