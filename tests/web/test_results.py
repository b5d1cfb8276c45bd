"""Results as metrics: running runs alone, bounded, and what the dashboards of deploy/ show of them."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft7Validator
from prometheus_client.parser import text_string_to_metric_families

from streamer.schemas.events import BOARD_METRICS
from streamer.settings import Settings
from streamer.web.protocols import results
from streamer.web.protocols.results import AGENT_LABELS, METRICS_PATH, SHOWN
from streamer.worker.metrics import Metrics, WorkerMoment
from tests.house.repository import ROOT
from tests.support.events import a_deletion, a_plan, a_trial, an_end
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.worker.exported import STATUS

DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "deploy" / "grafana").iterdir()}
SCHEMA = ROOT / "tests" / "house" / "grafana-dashboard.jsonschema.json.gz"
"""Grafana's own schema of a dashboard (Apache-2.0), from grafana-foundation-sdk at commit f178d5a4, unchanged
but compressed."""

NAME = r"\b(?:streamer|process)_[a-z_]+"
HOSTILE = 'r"{}\\'

Samples = dict[tuple[str, ...], float]


def scraped(text: str) -> Samples:
    """Name, run, benchmark and agent:model of each sample."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        (sample.name, *(sample.labels[of] for of in AGENT_LABELS if of in sample.labels)): sample.value
        for sample in samples
    }


def asked(serving: Serving) -> Samples:
    return scraped(serving.get(METRICS_PATH).body.decode())


async def test_running_runs_have_metrics_and_what_is_unknown_has_none(serving: Serving, feed: Feed) -> None:
    plan = a_plan(run_id=HOSTILE, tasks=4, attempts=1, agent_models=["a:m"], benchmark="tb")
    own = {"run_id": HOSTILE, "agent": "a", "model": "m"}
    over = [a_trial(run_id="over"), an_end(run_id="over", status="completed")]
    await feed.take([plan, a_trial(**own, cost_usd=0.5), a_trial(**own, task_id="t2", resolved=False), *over])
    found = asked(serving)
    assert found["streamer_runs_running",] == 1
    assert found["streamer_run_slots_done", HOSTILE, "tb"] == 2
    assert found["streamer_run_slots_planned", HOSTILE, "tb"] == 4
    assert found["streamer_agent_pass_rate", HOSTILE, "tb", "a:m"] == 0.5
    assert found["streamer_agent_total_cost", HOSTILE, "tb", "a:m"] == 0.5
    assert not [key for key in found if key[0] == "streamer_agent_mean_duration" or "over" in key]
    await feed.take([a_trial(**own, task_id="t2", revision=2)])
    assert asked(serving)["streamer_agent_pass_rate", HOSTILE, "tb", "a:m"] == 1
    await feed.take([a_deletion(run_id=HOSTILE, revision=9)])
    assert not [key for key in asked(serving) if HOSTILE in key]


async def test_runs_and_agents_are_bounded_and_those_left_out_are_counted(
    serving: Serving, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST_RUNS", 2)
    monkeypatch.setattr(results, "MOST_AGENTS", 3)
    own = {"finished_at": datetime.now(UTC).isoformat()}
    await feed.take([a_trial(run_id=f"r{run}", agent=f"a{n}", **own) for run in range(5) for n in range(4)])
    found = asked(serving)
    assert (found["streamer_runs_running",], found["streamer_runs_left_out",]) == (5, 3)
    assert found["streamer_agents_left_out",] == 2
    assert len([key for key in found if key[0] == "streamer_agent_trials"]) == 6


async def test_results_name_runs_so_they_need_the_token(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    with Serving(settings, token="secret") as serving:
        assert serving.get(METRICS_PATH).status == 401
        answer = serving.get(METRICS_PATH, authorization="Bearer secret")
        assert (answer.status, answer.headers["content-type"]) == (200, results.MEDIA)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_are_valid_by_the_schema_of_grafana(name: str) -> None:
    validator = Draft7Validator(json.loads(gzip.decompress(SCHEMA.read_bytes())))
    assert [error.message for error in validator.iter_errors(DASHBOARDS[name])] == []
    assert not validator.is_valid(DASHBOARDS[name] | {"panles": []})


def expressions(name: str) -> list[str]:
    panels: list[dict[str, Any]] = DASHBOARDS[name]["panels"]
    variables = [one["query"] for one in DASHBOARDS[name]["templating"]["list"] if one["type"] == "query"]
    return [target["expr"] for panel in panels for target in panel["targets"]] + variables


def test_dashboards_ask_for_metrics_that_there_are() -> None:
    worker = Metrics(2)
    worker.status = WorkerMoment(0.0, STATUS, False, True)
    of_worker = {sample.name for family in worker.collect() for sample in family.samples}
    process = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
    named = {found for one in expressions("workers") for found in re.findall(NAME, one)}
    assert named <= of_worker | process | {"streamer_events_total"}
    of_results = {family.name for family in results.Results([], 0).collect()}
    named = {found for one in expressions("results") for found in re.findall(NAME, one)}
    assert named <= of_results
    assert set(SHOWN) <= BOARD_METRICS.keys()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_ids_and_places_of_their_own(name: str) -> None:
    places, panels = set[tuple[int, int]](), DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        x, y, width, height = (panel["gridPos"][of] for of in "xywh")
        cells = set(product(range(x, x + width), range(y, y + height)))
        assert x + width <= 24
        assert places.isdisjoint(cells), panel["title"]
        places |= cells
