"""The API: what its OpenAPI document says, the same numbers as Redis has, problems that say what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import pytest
import redis
from jsonschema import Draft202012Validator

from streamer.client.readers import StateReader
from streamer.folding.breakdowns import by_label
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import with_state
from streamer.schemas.wire import canonical_json
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web.api import OPERATIONS
from streamer.web.app import openapi
from tests.support.events import a_plan, a_start, a_trial
from tests.support.simulated import PLAIN_RUN, TIERED_RUN, simulate
from tests.web.feeding import Feed
from tests.web.serving import Serving

DOCUMENT = openapi()
LABELLED_RUN = "labelled"
LABELLED = a_trial(run_id=LABELLED_RUN, labels={"a/b": "<i>"})
START = datetime(2026, 1, 1, tzinfo=UTC)
QUERIES = {
    "/api/runs/{run}/tiers": "?within=true",
    "/api/runs/{run}/history": "?points=5",
    "/api/runs/{run}/trials": "?limit=7&sort=cost_usd&descending=true",
    "/api/leaderboard": "?metric=cost_of_pass",
    "/api/compare": f"?a={TIERED_RUN}&b={TIERED_RUN}&a_agent=codex:openai/gpt-4o&limit=3",
}


@pytest.fixture
async def simulated(logged: Settings) -> AsyncIterator[Feed]:
    """Both runs of the simulated benchmark, in Redis and in the log."""
    async with Feed(logged, log=True) as feed:
        lines = simulate(seed=3, start=START)
        for start in range(0, len(lines), 60):
            await feed.take(lines[start : start + 60])
        yield feed


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


def schema_of(path: str) -> dict[str, Any]:
    """Schema of the answer of a path, with the components that it refers to."""
    content = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
    return {**content["application/json"]["schema"], "components": DOCUMENT["components"]}


async def test_every_answer_fits_its_schema(simulated: Feed, serving: Serving) -> None:
    await simulated.take([LABELLED])
    trial = serving.get(f"/api/runs/{TIERED_RUN}/trials").json()["trials"][0]["id"]
    for operation in OPERATIONS:
        run = LABELLED_RUN if "{label}" in operation.path else TIERED_RUN
        of = {"run": run, "trial": trial, "label": "a%2Fb"}
        if "{artifact}" in operation.path:  # tests/web/test_trial_answers.py has a run with files
            continue
        path = operation.path.format(**of) + QUERIES.get(operation.path, "")
        answer = serving.get(path)
        if operation.file_name is not None:
            assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, operation.media)
            assert answer.headers["content-disposition"] == f'attachment; filename="{operation.file_name}"'
            continue
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), path
        problems = Draft202012Validator(schema_of(operation.path)).iter_errors(answer.json())
        assert [problem.message for problem in problems] == [], path
        assert answer.json(), path


async def test_a_run_is_what_redis_holds(simulated: Feed, serving: Serving, settings: Settings) -> None:
    with redis.Redis.from_url(settings.redis) as client:
        held = client.get(Keys(settings.namespace).run(TIERED_RUN))
    published = json.loads(str(held, "utf-8"))
    assert published["progress"]["done"] == published["progress"]["planned"]
    assert serving.get(f"/api/runs/{TIERED_RUN}").json() == published | {"state": "complete"}


async def test_summaries_are_the_readers(simulated: Feed, serving: Serving, logged: Settings) -> None:
    with StateReader(logged) as reader:
        wanted = {
            f"/api/runs/{PLAIN_RUN}/agents": reader.agents(PLAIN_RUN),
            f"/api/runs/{TIERED_RUN}/tiers": reader.tiers(TIERED_RUN),
            f"/api/runs/{TIERED_RUN}/tiers?within=true": reader.tiers(TIERED_RUN, within=True),
        }
        runs = [with_state(run, datetime.now(UTC)) for run in reader.runs()]
    assert serving.get("/api/runs").json() == runs
    for path, summaries in wanted.items():
        assert serving.get(path).json() == [summary.model_dump(mode="json") for summary in summaries]


async def test_boards_are_those_of_the_command_line(
    simulated: Feed, serving: Serving, logged: Settings
) -> None:
    states = {TIERED_RUN: "complete", PLAIN_RUN: "finished"}
    for metric in BOARD_METRICS:
        with StateReader(logged) as reader:
            rows = [(row.rank, row.run, row.agent_model) for row in reader.leaderboard(metric)]
        found = serving.get(f"/api/leaderboard?metric={metric}").json()
        assert [(row["rank"], row["run"], row["agent_model"]) for row in found] == rows, metric
        assert all(row["state"] == states[row["run"]] for row in found), metric
        labelled = serving.get(f"/api/leaderboard?metric={metric}&label=purpose=demo&limit=2").json()
        assert {row["run"] for row in labelled} <= {PLAIN_RUN}, metric
        assert len(labelled) <= 2, metric


async def test_a_named_metric_has_a_board_and_stands_in_the_history(feed: Feed, serving: Serving) -> None:
    plan = a_plan(metrics={"latency": {"direction": "lower"}})
    await feed.take([plan, a_trial(metrics={"latency": 0.5, "style": 2.0})])
    await feed.take(
        [a_trial(task_id="task-2", metrics={"latency": 0.25}), a_trial(agent="b", metrics={"latency": 3})]
    )
    rows = serving.get("/api/leaderboard?metric=metrics/latency&run=run-1").json()
    assert [(row["agent_model"], row["metric"], row["value"]) for row in rows] == [
        ("terminus:gpt-5", "metrics/latency", 0.375),
        ("b:gpt-5", "metrics/latency", 3.0),
    ]
    points = serving.get("/api/runs/run-1/history").json()
    mine = [point["metrics"] for point in points if point["agent_model"] == "terminus:gpt-5"]
    assert mine == [{"latency": 0.5}, {"latency": 0.375}]
    assert [point["metrics"] for point in points if point["kind"] == "run"] == [{}, {}]
    for path, found in (("/api/leaderboard", rows), ("/api/runs/{run}/history", points)):
        assert list(Draft202012Validator(schema_of(path)).iter_errors(found)) == []
    assert serving.get("/api/leaderboard?metric=metrics/unheard-of&run=run-1").json() == []


async def test_a_metric_that_cannot_have_a_board_is_a_problem(serving: Serving) -> None:
    [parameter] = [
        one for one in DOCUMENT["paths"]["/api/leaderboard"]["get"]["parameters"] if one["name"] == "metric"
    ]
    assert Draft202012Validator(parameter["schema"]).is_valid("metrics/latency")
    for metric in ("latency", "metrics/", "metrics/a%20b", "metrics/%3Cb%3E", "metrics/" + "x" * 65):
        answer = serving.get(f"/api/leaderboard?metric={metric}")
        assert answer.status == 400, metric
        assert "and metrics/NAME" in answer.json()["detail"], metric
        assert not Draft202012Validator(parameter["schema"]).is_valid(unquote(metric)), metric


async def test_the_history_is_thinned_per_group_and_ends_with_the_present(
    simulated: Feed, serving: Serving
) -> None:
    points = serving.get(f"/api/runs/{TIERED_RUN}/history?kind=agent_model&points=3").json()
    groups: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        groups.setdefault(point["agent_model"], []).append(point)
    agents = {agent["agent_model"]: agent for agent in serving.get(f"/api/runs/{TIERED_RUN}/agents").json()}
    assert set(groups) == set(agents)
    for label, found in groups.items():
        assert len(found) == 3
        assert found[-1]["trials"] == agents[label]["trials"]
        assert found[-1]["pass_rate"] == agents[label]["statistics"]["pass_rate"]["mean"]
        assert [point["last_event_at"] for point in found] == sorted(p["last_event_at"] for p in found)


async def test_a_snapshot_has_what_may_be_concluded_and_the_trials_in_flight(
    feed: Feed, serving: Serving
) -> None:
    tasks = [f"t{n}" for n in range(9)]
    await feed.take([a_plan(tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")])
    await feed.take(a_trial(task_id=task) for task in tasks[:5])
    await feed.take(a_start(task_id=task, started_at="2026-01-01T00:00:00Z") for task in tasks[5:7])
    found = serving.get("/api/runs/run-1/snapshot").json()
    [agent] = found["agents"]
    assert (agent["in_flight"], found["run"]["in_flight"]) == (2, 2)
    assert agent["uncertainty"]["final"]["order_kind"] == "shuffled"
    assert agent["uncertainty"]["reachable"]["pass_rate"]["high"] == 1.0
    assert [(trial["task_id"], trial["started_at"]) for trial in found["in_flight"]] == [
        ("t5", "2026-01-01T00:00:00Z"),
        ("t6", "2026-01-01T00:00:00Z"),
    ]


async def test_ids_may_hold_anything_that_an_id_may_hold(feed: Feed, serving: Serving) -> None:
    hostile = ["a/b", "a/agents", "%2F", "<script>alert(1)</script>", "‮abc", "x" * 128, "ä|{}:?#&=+ "]
    await feed.take(a_trial(run_id=run, agent=run, model=run, tier=run, task_id=run) for run in hostile)
    for run in hostile:
        path = f"/api/runs/{quote(run, safe='')}"
        answer = serving.get(path)
        assert (answer.status, answer.json()["run_id"]) == (200, run)
        assert answer.headers["content-type"] == "application/json"
        assert serving.get(f"{path}/agents").json()[0]["agent"] == run
        assert serving.get(f"{path}/tiers").json()[0]["tier"] == run
        assert {point["tier"] for point in serving.get(f"{path}/history?kind=tier").json()} == {run}


async def test_a_run_is_broken_down_by_a_label(simulated: Feed, serving: Serving) -> None:
    await simulated.take([LABELLED])
    groups = serving.get(f"/api/runs/{LABELLED_RUN}/labels/a%2Fb").json()
    expected = by_label(simulated.pipeline.run(LABELLED_RUN).state, "a/b")
    assert groups == json.loads(canonical_json(expected))
    assert groups[0]["value"] == "<i>"
    unknown = serving.get(f"/api/runs/{LABELLED_RUN}/labels/colour")
    assert (unknown.status, unknown.json()["detail"]) == (
        404,
        f"no trial of run '{LABELLED_RUN}' has a label 'colour'. Labels: 'a/b'.",
    )


async def test_large_answers_are_compressed_and_streams_are_not(simulated: Feed, serving: Serving) -> None:
    answer = serving.get(f"/api/runs/{TIERED_RUN}/tiers?within=true", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(answer.body))) > 20
