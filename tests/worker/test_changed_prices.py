"""A worker that works with other prices than the one before it publishes everything by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from streamer.folding.score import made_with
from streamer.folding.score.prices import PriceTable
from tests.worker.deployment import Deployment

DEARER = '[models."gpt-4o"]\ninput = 100\noutput = 200\n'
CHEAP, DEAR = 0.0065, 0.12


def trial(task: str) -> bytes:
    """A trial whose cost nobody reported: 1,000 tokens in, 100 out."""
    event: dict[str, Any] = {"type": "trial_result", "run_id": "r", "task_id": task, "agent": "a"}
    tokens = {"model": "gpt-4o", "input_tokens": 1000, "output_tokens": 100}
    return orjson.dumps(event | tokens | {"resolved": True, "trial_name": task * 140})


def costs(deployment: Deployment) -> dict[str, float]:
    """Cost of each scored trial, by task."""
    trials = map(orjson.loads, deployment.latest("scored-trials").values())
    return {trial["task_id"]: trial["cost_usd"] for trial in trials}


def test_trials_of_a_run_in_progress_are_priced_anew_too(on_embedded: Deployment, tmp_path: Path) -> None:
    tasks = [f"task-{n}" for n in range(60)]
    worker = on_embedded.worker().start()
    on_embedded.publish([trial(task) for task in tasks])
    worker.wait_until(lambda: costs(on_embedded) == dict.fromkeys(tasks, CHEAP), "all are priced")
    worker.wait_until(lambda: on_embedded.committed() == 60, "all offsets committed")
    worker.kill()
    (prices := tmp_path / "prices.toml").write_text(DEARER)
    on_embedded.publish([trial("late")])
    on_embedded.make_current(made_with(PriceTable.from_toml(DEARER)))
    successor = on_embedded.worker(environment={"STREAMER_PRICES_FILE": str(prices)}).start()
    wanted = dict.fromkeys([*tasks, "late"], DEAR)
    successor.wait_until(lambda: costs(on_embedded) == wanted, "all are priced anew")
    before = len(on_embedded.records("scored-trials"))
    successor.kill()
    on_embedded.publish([trial("later")])
    third = on_embedded.worker(environment={"STREAMER_PRICES_FILE": str(prices)}).start()
    third.wait_until(lambda: costs(on_embedded) == wanted | {"later": DEAR}, "the last one is priced")
    assert len(on_embedded.records("scored-trials")) < before + 61
