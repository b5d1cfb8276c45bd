"""Workers of a group publish with one configuration: one with other prices waits until they are current."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client.readers import StateReader
from streamer.folding.score import made_with
from streamer.folding.score.prices import PriceTable
from streamer.operate.health import read_health
from streamer.operate.local.processes import free_port
from tests.support.cli import streamer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.deployment import Deployment
from tests.worker.test_changed_prices import CHEAP, DEAR, DEARER, trial

OWN = made_with(PriceTable.default())
OTHER = made_with(PriceTable.from_toml(DEARER))
RUNS = [f"run {n}" for n in range(12)]
"""Spread over all partitions."""


@pytest.fixture
def prices(tmp_path: Path) -> dict[str, str]:
    """The setting of a worker with other prices."""
    (file := tmp_path / "prices.toml").write_text(DEARER)
    return {"STREAMER_PRICES_FILE": str(file)}


def trials(task: str) -> list[bytes]:
    """A trial without a reported cost in each run."""
    return [orjson.dumps(orjson.loads(trial(task)) | {"run_id": run}) for run in RUNS]


def published(deployment: Deployment) -> set[tuple[float, str]]:
    """Mean cost of a trial and `made_with`, over all runs, in topic and Redis."""
    found: list[dict[str, Any]] = [
        orjson.loads(value) for value in deployment.latest("agent-model-summaries").values()
    ]
    with StateReader(deployment.settings) as reader:
        found += [agent.model_dump() for run in reader.runs() for agent in reader.agents(run.run_id)]
    return {(summary["mean_cost"], summary["made_with"]) for summary in found}


def owns(deployment: Deployment) -> dict[str, Any]:
    """Status of each worker that has told one, by what it is made with."""
    with StateReader(deployment.settings) as reader:
        return {worker.status["made_with"]: worker.status for worker in reader.workers()}


def adopt(deployment: Deployment, environment: dict[str, str], *arguments: str) -> Any:
    """`streamer config adopt` where the new workers run."""
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    settings = {f"STREAMER_{n.upper()}": str(getattr(deployment.settings, n)) for n in names}
    return streamer("config", "adopt", *arguments, environment=settings | environment)


def test_a_worker_with_other_prices_waits_and_says_so_until_they_are_current(
    on_both: Deployment, prices: dict[str, str]
) -> None:
    deployment = on_both
    first = deployment.worker().start()
    deployment.publish(trials("task 1"))
    first.wait_until(lambda: published(deployment) == {(CHEAP, OWN)}, "all is published")
    port = free_port()
    more = prices | {"STREAMER_METRICS_ADDRESS": f"127.0.0.1:{port}"}
    second: WorkerProcess = deployment.worker(environment=more).start(ready=False)
    second.wait_until(lambda: OTHER in owns(deployment), "the second one says that it is there")
    assert owns(deployment)[OTHER]["partitions"] == []
    assert OWN in owns(deployment)[OTHER]["waits"]
    assert any(f"config adopt {OTHER}" in problem for problem in read_health(deployment.settings).problems)
    assert "are not those of the group" in second.output
    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
    assert b"are not those of the group" in refused.value.read()
    deployment.publish(trials("task 2"))
    first.wait_until(lambda: deployment.committed() == 2 * len(RUNS), "the first one goes on alone")
    assert published(deployment) == {(CHEAP, OWN)}
    first.kill()
    survivor = deployment.worker().start()
    survivor.wait_until(
        lambda: len(owns(deployment)[OWN]["partitions"]) == deployment.partitions, "the others take over"
    )
    assert published(deployment) == {(CHEAP, OWN)}

    assert adopt(deployment, prices).returncode == 0
    assert survivor.wait(60) != 0
    assert "are no longer those of the group" in survivor.output
    second.wait_until(lambda: published(deployment) == {(DEAR, OTHER)}, "all is published by the new prices")
    again = deployment.worker().start(ready=False)
    again.wait_until(lambda: "are not those of the group" in again.output, "the old one waits now")
    third = deployment.worker(environment=prices).start()
    deployment.publish(trials("task 3"))
    third.wait_until(lambda: deployment.committed() == 3 * len(RUNS), "both new ones work")
    third.wait_until(lambda: published(deployment) == {(DEAR, OTHER)}, "and agree")
    assert again.stop() == 0


def test_a_worker_that_is_to_adopt_its_configuration_does_not_wait(
    on_embedded: Deployment, prices: dict[str, str]
) -> None:
    first = on_embedded.worker().start()
    on_embedded.publish(trials("task 1"))
    first.wait_until(lambda: published(on_embedded) == {(CHEAP, OWN)}, "all is published")
    assert first.stop() == 0
    successor = on_embedded.worker(environment=prices | {"STREAMER_ADOPT_CONFIGURATION": "true"}).start()
    successor.wait_until(lambda: published(on_embedded) == {(DEAR, OTHER)}, "all is published again")


def test_a_configuration_that_nobody_has_is_not_adopted(on_embedded: Deployment) -> None:
    on_embedded.worker().start()
    wait_for(lambda: OWN in owns(on_embedded), "the worker says what it has")
    refused = adopt(on_embedded, {}, "0123456789abcdef")
    assert refused.returncode == 2
    assert OWN in refused.stderr.decode()
    assert "current already" in adopt(on_embedded, {}).stderr.decode()
