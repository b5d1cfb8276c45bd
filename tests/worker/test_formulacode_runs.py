"""fc-eval's run directories through a worker: what a fold says, oracles last, and the news of what moved."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.conformance.fc_runs import unpacked
from tests.support.cli import streamer
from tests.worker.deployment import Deployment

RUNS_WITH_ORACLE = {"fc-nop-oracle-gpt5", "fc-rough", "fc-two-attempts"}
WITHOUT_ORACLE = "fc-no-oracle-same-framework"


def test_run_directories_through_a_worker_give_the_digests_of_a_fold(
    on_embedded: Deployment, tmp_path: Path
) -> None:
    """Published backwards, so that every oracle comes after the agents it is the measure of (R9)."""
    converted = streamer("convert", "--harness", "fc-eval", unpacked(tmp_path / "fc-eval"))
    assert converted.returncode == 0, converted.stderr.decode()
    worker = on_embedded.worker().start()
    on_embedded.publish(converted.stdout.splitlines()[::-1])
    on_embedded.wait_until_equal(worker)
    news = [orjson.loads(record.value) for record in on_embedded.records("grade-changes")]
    moved = [item for item in news if item["type"] == "rescored"]
    by_oracle = [item for item in moved if item["because"]["agent"] == "oracle"]
    assert {item["run_id"] for item in by_oracle} == RUNS_WITH_ORACLE
    others = [item for item in moved if item["because"]["agent"] != "oracle"]
    assert {item["run_id"] for item in others} >= {WITHOUT_ORACLE}
    assert all(item["after"]["formulacode"]["fallback"] for item in others)  # another's benchmarks (R21)
    assert all(item["before"] != item["after"] for item in moved)
    assert worker.stop() == 0
