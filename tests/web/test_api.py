"""The API: what its OpenAPI document says, the same numbers as Redis has, problems that say what to do."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from io import BytesIO, StringIO
from pathlib import Path
from threading import Event
from typing import Any, get_args
from unittest.mock import AsyncMock
from urllib.parse import quote, unquote

import pytest
import redis
from jsonschema import Draft202012Validator
from pyarrow import parquet

from streamer.client.feeds import NotInLog
from streamer.client.queries import ReaderError
from streamer.client.readers import StateReader
from streamer.folding.breakdowns import by_label
from streamer.folding.prices import PriceTable
from streamer.schemas.base import canonical_json
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import with_state
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.views.cells import sort_value
from streamer.views.columns import RUNS
from streamer.web import api as web_api
from streamer.web.api import OPERATIONS, Web, curves_of, download, labels, moves_of, run_at, trials_of
from streamer.web.app import STREAMS, openapi
from streamer.web.log import LogTruncated
from streamer.web.models import AsOfQuery, NoQuery, RunSort, TrialsQuery, WhyQuery
from streamer.web.protocols.connections import EVENTS_PATH
from streamer.web.report import FORMATS, from_stack
from tests.support.cli import found_by, streamer
from tests.support.events import a_plan, a_start, a_trial
from tests.support.eventually import eventually
from tests.support.servers import RedisServer
from tests.support.simulated import BENCHMARK, PLAIN_RUN, TIERED_RUN, simulate
from tests.web.feeding import Feed
from tests.web.serving import Serving

DOCUMENT = openapi()
LABELLED_RUN = "labelled"
LABELLED = [
    a_trial(run_id=LABELLED_RUN, labels={"a/b": "<i>"}),
    a_plan(run_id=LABELLED_RUN, ledger={"name": "a/b", "baseline": TIERED_RUN}),
]
START = datetime(2026, 1, 1, tzinfo=UTC)
QUERIES = {
    "/api/runs/{run}/tiers": "?within=true",
    "/api/runs/{run}/history": "?points=5",
    "/api/runs/{run}/trials": "?limit=7&sort=cost_usd&descending=true",
    "/api/leaderboard": "?metric=cost_of_pass",
    "/api/compare": f"?a={TIERED_RUN}&b={TIERED_RUN}&a_agent=codex:openai/gpt-4o&limit=3",
    "/api/tasks": f"?benchmark={BENCHMARK}",
    "/api/tasks/{task}": f"?benchmark={BENCHMARK}",
}


@pytest.fixture
async def simulated(log_feed: Feed) -> Feed:
    """Both runs of the simulated benchmark, in Redis and in the log."""
    lines = simulate(seed=3, start=START)
    for start in range(0, len(lines), 60):
        await log_feed.take(lines[start : start + 60])
    return log_feed


@pytest.fixture
async def web(logged: Settings) -> AsyncIterator[Web]:
    """What a server draws on, without the server."""
    web = Web(logged)
    yield web
    await web.reader.close()


def misfits(path: str, answer: Any) -> list[str]:
    """What is wrong with the answer of a path, by its schema."""
    content = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
    schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
    return [problem.message for problem in Draft202012Validator(schema).iter_errors(answer)]


async def test_every_answer_fits_its_schema(simulated: Feed, api: Serving) -> None:
    await simulated.take(LABELLED)
    first = api.get(f"/api/runs/{TIERED_RUN}/trials").json()["trials"][0]
    trial, task = first["id"], quote(first["task_id"], safe="")
    for operation in OPERATIONS:
        run = LABELLED_RUN if "{label}" in operation.path else TIERED_RUN
        of = {"run": run, "trial": trial, "label": "a%2Fb", "name": "a%2Fb", "task": task}
        if "{artifact}" in operation.path:  # tests/web/test_trial_answers.py has a run with files
            continue
        path = operation.path.format(**of) + QUERIES.get(operation.path, "")
        answer = api.get(path)
        if operation.file_name is not None:
            assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, operation.media)
            assert answer.headers["content-disposition"] == f'attachment; filename="{operation.file_name}"'
            continue
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), path
        assert misfits(operation.path, answer.json()) == [], path
        assert answer.json(), path


async def test_a_task_is_there_with_who_tried_it_in_each_run(simulated: Feed, api: Serving) -> None:
    """The rows of a task add up to its history (inference 8b)."""
    tasks = api.get(f"/api/tasks?benchmark={BENCHMARK}").json()
    trials = api.get(f"/api/runs/{PLAIN_RUN}/trials?limit=500").json()["trials"]
    assert {trial["task_id"] for trial in trials} <= {task["task_id"] for task in tasks}
    of_task = tasks[0]
    page = api.get(f"/api/tasks/{quote(of_task['task_id'], safe='')}?benchmark={BENCHMARK}").json()
    assert of_task in page["tasks"]
    rows = [row for row in page["runs"] if row["task"] == of_task["task"]]
    sums = {field: sum(row[field] for row in rows) for field in ("attempts", "passed")}
    counts = {"agents": len({row["agent_model"] for row in rows}), "runs": len({row["run"] for row in rows})}
    assert (sums | counts).items() <= of_task.items()
    unknown = api.get(f"/api/tasks/none?benchmark={BENCHMARK}")
    assert (unknown.status, "No trial of a task 'none' has" in unknown.json()["detail"]) == (404, True)


async def test_summaries_are_the_readers_and_a_run_is_what_redis_holds(
    simulated: Feed, api: Serving, logged: Settings
) -> None:
    with StateReader(logged) as reader:
        expected: dict[str, list[Any]] = {
            f"/api/runs/{PLAIN_RUN}/agents": reader.agents(PLAIN_RUN),
            f"/api/runs/{TIERED_RUN}/tiers": reader.tiers(TIERED_RUN),
            f"/api/runs/{TIERED_RUN}/tiers?within=true": reader.tiers(TIERED_RUN, within=True),
        }
        runs, leaders = reader.runs(), reader.leaders(reader.runs())
    listed = api.get("/api/runs").json()
    assert [one.pop("leader") for one in listed] == [leaders[run.run_id].model_dump() for run in runs]
    assert listed == [with_state(run, datetime.now(UTC)) for run in runs]
    for path, summaries in expected.items():
        assert api.get(path).json() == [summary.model_dump(mode="json") for summary in summaries]
    with redis.Redis.from_url(logged.redis) as client:
        stored = client.get(Keys(logged.namespace).run(TIERED_RUN))
    published = json.loads(str(stored, "utf-8"))
    assert published["progress"]["done"] == published["progress"]["planned"]
    assert api.get(f"/api/runs/{TIERED_RUN}").json() == published | {"state": "complete"}


async def test_thousands_of_runs_are_read_in_bounded_pages(
    logged: Settings, feed: Feed, api: Serving
) -> None:
    def listed(query: str) -> list[str]:
        return [run["run_id"] for run in api.get(f"/api/runs?{query}").json()]

    def printed(*options: str) -> tuple[list[str], str]:
        done = streamer("query", "runs", "--json", *options, environment=found_by(logged))
        return [json.loads(line)["run_id"] for line in done.stdout.splitlines()], done.stderr.decode()

    await feed.take([a_plan(run_id=f"run {number:04}", tasks=4) for number in range(3000)])
    first = api.get("/api/runs")
    assert (len(first.json()), first.headers["x-total-count"]) == (100, "3000")
    assert len(first.body) < 100 * 2500
    every = [run for offset in range(0, 3001, 500) for run in listed(f"offset={offset}&limit=500")]
    assert sorted(every) == [f"run {number:04}" for number in range(3000)]
    assert api.get("/api/runs?limit=501").status == 400
    found = api.get("/api/runs?search=N+29&limit=50")
    assert (len(found.json()), found.headers["x-total-count"]) == (50, "100")
    assert listed("sort=run&search=N+29&offset=20&limit=2") == ["run 2920", "run 2921"]
    for _ in range(2):
        assert [run["run_id"] for run in beginning_of_stream(api.port)] == every[99::-1]
    runs, said = printed("--offset", "2950")
    assert (runs, "runs 2,951 to 3,000 of 3,000" in said) == (every[2950:], True)
    runs, said = printed("--search", "run 1")
    assert (len(runs), "runs 1 to 100 of 1,000. --offset 100 shows the next ones" in said) == (100, True)
    beyond = "--offset 1000 is beyond the last of 1,000 runs\n"
    assert printed("--search", "run 1", "--offset", "1000") == ([], beyond)


def beginning_of_stream(port: int) -> list[Any]:
    """The runs that a viewer of the list of runs is told first."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/api/updates")
    runs = []
    with connection.getresponse() as stream:
        while (line := stream.readline()) != b"event: told\n":
            if line == b"event: run_summary\n":
                runs.append(json.loads(stream.readline().removeprefix(b"data: ")))
    connection.close()
    return runs


async def test_runs_are_sorted_by_each_column_over_all_pages(simulated: Feed, api: Serving) -> None:
    by_default = api.get("/api/runs").json()
    for sort in get_args(RunSort):
        column = next(column for column in RUNS.columns if column.name == sort)
        for descending in (None, False, True):
            query = f"sort={sort}" + ("" if descending is None else f"&descending={descending}")
            pages = [api.get(f"/api/runs?{query}&offset={n}&limit=1").json() for n in range(9)]
            rows = [run for page in pages for run in page]
            assert {run["run_id"] for run in rows} == {run["run_id"] for run in by_default}
            values = [sort_value(column, run) for run in rows]
            filled = [value for value in values if value is not None]
            down = column.sort == "greatest" if descending is None else descending
            assert values == sorted(filled, reverse=down) + [None] * (len(values) - len(filled)), query
    assert api.get("/api/runs?sort=last&descending=true").json() == by_default
    assert api.get("/api/runs?sort=id").status == 400


async def test_boards_are_those_of_the_command_line(simulated: Feed, api: Serving, logged: Settings) -> None:
    states = {TIERED_RUN: "complete", PLAIN_RUN: "finished"}
    for metric in BOARD_METRICS:
        with StateReader(logged) as reader:
            rows = [(row.rank, row.run, row.agent_model) for row in reader.leaderboard(metric)]
        result = api.get(f"/api/leaderboard?metric={metric}").json()
        assert [(row["rank"], row["run"], row["agent_model"]) for row in result] == rows, metric
        assert all(row["state"] == states[row["run"]] for row in result), metric
        labelled = api.get(f"/api/leaderboard?metric={metric}&label=purpose=demo&limit=2").json()
        assert {row["run"] for row in labelled} <= {PLAIN_RUN}, metric
        assert len(labelled) <= 2, metric


async def test_a_named_metric_has_a_board_and_stands_in_the_history(feed: Feed, api: Serving) -> None:
    plan = a_plan(metrics={"latency": {"direction": "lower"}})
    await feed.take([plan, a_trial(metrics={"latency": 0.5, "style": 2.0})])
    later = [a_trial(task_id="task-2", metrics={"latency": 0.25}), a_trial(agent="b", metrics={"latency": 3})]
    await feed.take(later)
    rows = api.get("/api/leaderboard?metric=metrics/latency&run=run-1").json()
    assert [(row["agent_model"], row["metric"], row["value"]) for row in rows] == [
        ("terminus:gpt-5", "metrics/latency", 0.375),
        ("b:gpt-5", "metrics/latency", 3.0),
    ]
    points = api.get("/api/runs/run-1/history").json()
    mine = [point["metrics"] for point in points if point["agent_model"] == "terminus:gpt-5"]
    assert mine == [{"latency": 0.5}, {"latency": 0.375}]
    assert [point["metrics"] for point in points if point["kind"] == "run"] == [{}, {}]
    assert misfits("/api/leaderboard", rows) == misfits("/api/runs/{run}/history", points) == []
    assert api.get("/api/leaderboard?metric=metrics/unheard-of&run=run-1").json() == []


async def test_a_metric_that_cannot_have_a_board_is_a_problem(serving: Serving) -> None:
    parameters = DOCUMENT["paths"]["/api/leaderboard"]["get"]["parameters"]
    [schema] = [Draft202012Validator(one["schema"]) for one in parameters if one["name"] == "metric"]
    assert schema.is_valid("metrics/latency")
    for metric in ("latency", "metrics/", "metrics/a%20b", "metrics/%3Cb%3E", "metrics/" + "x" * 65):
        answer = serving.get(f"/api/leaderboard?metric={metric}")
        assert (answer.status, "and metrics/NAME" in answer.json()["detail"]) == (400, True), metric
        assert not schema.is_valid(unquote(metric)), metric


async def test_the_history_is_thinned_by_group_and_ends_with_today(simulated: Feed, api: Serving) -> None:
    points = api.get(f"/api/runs/{TIERED_RUN}/history?kind=agent_model&points=3").json()
    groups: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        groups.setdefault(point["agent_model"], []).append(point)
    agents = {agent["agent_model"]: agent for agent in api.get(f"/api/runs/{TIERED_RUN}/agents").json()}
    assert set(groups) == set(agents)
    for label, result in groups.items():
        assert len(result) == 3
        assert result[-1]["trials"] == agents[label]["trials"]
        assert result[-1]["pass_rate"] == agents[label]["statistics"]["pass_rate"]["mean"]
        assert [point["last_event_at"] for point in result] == sorted(p["last_event_at"] for p in result)


async def test_a_snapshot_has_conclusions_and_the_trials_in_flight(feed: Feed, api: Serving) -> None:
    tasks, at = [f"t{n}" for n in range(9)], "2026-01-01T00:00:00Z"
    await feed.take([a_plan(tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")])
    await feed.take(a_trial(task_id=task) for task in tasks[:5])
    await feed.take(a_start(task_id=task, started_at=at) for task in tasks[5:7])
    result = api.get("/api/runs/run-1/snapshot").json()
    [agent] = result["agents"]
    assert (agent["in_flight"], result["run"]["in_flight"]) == (2, 2)
    assert agent["uncertainty"]["final"]["order_kind"] == "shuffled"
    assert agent["uncertainty"]["reachable"]["pass_rate"]["high"] == 1.0
    running = [(trial["task_id"], trial["started_at"]) for trial in result["in_flight"]]
    assert running == [("t5", at), ("t6", at)]


async def test_ids_may_hold_anything_that_an_id_may_hold(feed: Feed, api: Serving) -> None:
    hostile = ["a/b", "a/agents", "%2F", "<script>alert(1)</script>", "‮abc", "x" * 128, "ä|{}:?#&=+ "]
    await feed.take(a_trial(run_id=run, agent=run, model=run, tier=run, task_id=run) for run in hostile)
    for run in hostile:
        path = f"/api/runs/{quote(run, safe='')}"
        answer = api.get(path)
        assert (answer.status, answer.json()["run_id"]) == (200, run)
        assert answer.headers["content-type"] == "application/json"
        assert api.get(f"{path}/agents").json()[0]["agent"] == run
        assert api.get(f"{path}/tiers").json()[0]["tier"] == run
        assert {point["tier"] for point in api.get(f"{path}/history?kind=tier").json()} == {run}


async def test_a_run_is_broken_down_by_a_label(simulated: Feed, api: Serving) -> None:
    await simulated.take(LABELLED)
    groups = api.get(f"/api/runs/{LABELLED_RUN}/labels/a%2Fb").json()
    expected = by_label(simulated.pipeline.run(LABELLED_RUN).state, "a/b")
    assert groups == json.loads(canonical_json(expected))
    assert groups[0]["value"] == "<i>"
    unknown = api.get(f"/api/runs/{LABELLED_RUN}/labels/colour")
    says = f"no trial in run '{LABELLED_RUN}' has a label 'colour'. Labels: 'a/b'."
    assert (unknown.status, unknown.json()["detail"]) == (404, says)


async def test_large_answers_are_compressed_and_streams_are_not(simulated: Feed, api: Serving) -> None:
    answer = api.get(f"/api/runs/{TIERED_RUN}/tiers?within=true", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(answer.body))) > 20


# -----------------------------------------------------------------------------
# Answers as of an earlier position, and what moved a number: the same as published, folded one at a time.


RED = {"team": "red"}
PORTIONS = [
    [a_plan(tasks=4), a_trial(resolved=False, labels=RED), a_trial(agent="b", tier="T0", cost_usd=0.5)],
    [a_start(task_id="task-2"), a_trial(task_id="task-3")],
    [a_trial(revision=1, labels=RED), a_trial(task_id="task-2")],
]
ENDS = (2, 4, 6)
"""Offset of the last event of each portion."""


def lately() -> datetime:
    """When runs begin that are heard of lately both now and then, so that their states are the same."""
    return datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)


async def test_as_of_each_version_the_answers_are_those_of_then(logged: Settings, api: Serving) -> None:
    paths = ["", "/snapshot", "/agents", "/tiers", "/tiers?within=true", "/comparison", "/labels/team"]
    paths += ["/outlook", "/curves", "/matrix", "/matrix?metric=cost_usd&sort=task"]
    start, run = lately(), "/api/runs/run-1"
    async with Feed(logged, log=True, start=start) as feed:
        then, files = dict[tuple[int, str], Any](), dict[tuple[int, str], bytes]()
        for end, portion in zip(ENDS, PORTIONS, strict=True):
            await feed.take(portion)
            api.web.trials._log.read_again("run-1")
            api.web.curves._stored.clear()
            then |= {(end, path): api.get(run + path).json() for path in paths}
            files |= {(end, path): api.get(run + path).body for path in ("/trials.csv", "/trials.parquet")}
        for (end, path), answer in then.items():
            again = api.get(as_of(run + path, end))
            assert again.status == 200
            if path == "/curves":
                assert again.json()["state_version"] == end
            now, before = without_way(again.json()), without_way(answer)
            if path == "/outlook":  # at the time of the last record, not of asking
                moment = start + timedelta(minutes=ENDS.index(end))
                assert (datetime.fromisoformat(now.pop("at")), before.pop("at") > "2026") == (moment, True)
            assert now == before, (end, path)
        for (end, path), body in files.items():
            assert rows_in(api.get(as_of(run + path, end)).body) == rows_in(body) != [], (end, path)


def as_of(path: str, position: object) -> str:
    """The path as of a position or time."""
    return f"{path}{'&' if '?' in path else '?'}as_of={quote(str(position))}"


def rows_in(file: bytes) -> list[Any]:
    """The trials of a CSV or Parquet file."""
    if file.startswith(b"PAR1"):
        return without_way(parquet.read_table(BytesIO(file)).to_pylist())  # type: ignore[no-any-return]
    return without_way(list(csv.DictReader(StringIO(file.decode()))))  # type: ignore[no-any-return]


def without_way(answer: Any) -> Any:
    """The answer without what depends on when a summary was built last."""
    if isinstance(answer, list):
        return [without_way(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    left_out = ("last_event_at", "state_version")
    return {name: without_way(value) for name, value in answer.items() if name not in left_out}


async def test_what_moved_a_number_ends_with_the_published_one(log_feed: Feed, api: Serving) -> None:
    await log_feed.take([event for portion in PORTIONS for event in portion])
    result = api.get("/api/runs/run-1/why").json()
    published = api.get("/api/runs/run-1/agents").json()
    cost = api.get("/api/runs/run-1/why?metric=total_cost&agent=b&since=1&as_of=3&limit=1").json()
    rates = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in published}
    assert {total["agent_model"]: total["after"] for total in result["totals"]} == rates
    causes = [(5, "correction"), (4, "result"), (2, "result"), (1, "result")]
    assert [(move["offset"], move["cause"]) for move in result["moves"]] == causes
    assert [(move["before"], move["after"]) for move in cost["moves"]] == [(None, 0.5)]
    assert (cost["state_version"], cost["unit"]) == (3, "USD")


async def test_what_is_left_to_run_is_listed_now_and_as_of_a_position(log_feed: Feed, api: Serving) -> None:
    plan = a_plan(tasks=["t1", "t2"], attempts=1, agent_models=["terminus:gpt-5"])
    await log_feed.take([plan, a_trial(task_id="t1"), a_trial(task_id="t2", resolved=None)])
    for query, task, why, more in (("", "t2", "no_verdict", 0), ("?as_of=0&limit=1", "t1", "missing", 1)):
        answer = api.get(f"/api/runs/run-1/unfinished{query}").json()
        assert [(one["task_id"], one["why"]) for one in answer["trials"]] == [(task, why)]
        assert answer["not_listed"] == more


async def test_one_run_is_folded_at_a_time(web: Web, log_feed: Feed) -> None:
    await log_feed.take([*PORTIONS[0], a_trial(task_id="task-2", labels={"team": "red"})])
    gate = Event()
    first = asyncio.create_task(web.folds.answer("another question", lambda: gate.wait(30)))
    questions = (
        moves_of(web, WhyQuery(), "run-1"),
        run_at(web, "run-1", "2").answers(),
        web_api.comparison(web, AsOfQuery(as_of="2"), "run-1"),
        labels(web, AsOfQuery(), "run-1", "team"),
        download(web, AsOfQuery(), "run-1", "csv"),
    )
    asked: list[asyncio.Task[Any]] = [asyncio.create_task(question) for question in questions]
    await eventually(lambda: len(web.folds._under_way) == len(asked), "all wait, two of them for one answer")
    gate.set()
    moves, answers, compared, groups, file = await asyncio.gather(*asked)
    assert await first
    assert moves.state_version == 3
    assert answers.run.state_version == compared.comparison.state_version == 2
    assert {group.value for group in groups} == {"red", None}
    assert file.body.count(b"\n") == 4


async def test_a_truncated_log_is_not_read(feed: Feed, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.client.folded.beginning_of", AsyncMock(return_value=7))
    await feed.take([a_trial()])
    with pytest.raises(LogTruncated, match=r"log of run .run-1. begins at offset 7.*leave out as_of"):
        await run_at(web, "run-1", "9").answers()


@pytest.mark.parametrize("events", [True, False])
async def test_two_runs_are_compared_in_order_only_where_the_log_has_all_their_events(
    logged: Settings, api: Serving, monkeypatch: pytest.MonkeyPatch, *, events: bool
) -> None:
    def told(query: str = "") -> list[str]:
        words: list[str] = api.get(f"/api/compare?a=run-1&b=run-2{query}").json()["words"]
        return words

    tasks = ["task-1", "task-2"]
    async with Feed(logged, log=True, events=events) as feed:
        for run in ("run-1", "run-2"):
            plan = a_plan(run_id=run, attempts=1, tasks=tasks, order=tasks, order_kind="shuffled")
            await feed.take([plan, a_trial(run_id=run)])
        first = told()
        assert any("in the end" in words for words in first) is events
        monkeypatch.setattr("streamer.client.folded.beginning_of", AsyncMock(return_value=7))
        assert told("&offset=1") == first, "the same runs are folded once"
        await feed.take([a_trial(run_id="run-1", task_id="task-2")])
        left = told()
        assert left
        assert not any("in the end" in words for words in left)


@pytest.mark.parametrize("finished", [True, False])
async def test_what_a_comparison_allows_to_differ_is_judged_as_the_command_judges_it(
    logged: Settings, api: Serving, *, finished: bool
) -> None:
    tasks = [f"task-{number}" for number in range(1, 7)]
    plan = {"tasks": tasks, "order": tasks, "order_kind": "shuffled"}
    events = []
    for run, seconds in (("run-1", "600"), ("run-2", "900")):
        events.append(a_plan(run_id=run, attempts=1, provenance={"timeout": seconds}, **plan))
        shown = tasks if finished else tasks[:4]
        events += [a_trial(run_id=run, task_id=task, resolved=run == "run-2") for task in shown]
        events += [END | {"run_id": run}] if finished else []
    async with Feed(logged, log=True) as feed:
        await feed.take(events)
        path = "/api/compare?a=run-1&b=run-2"
        for refused in (path, f"{path}&allow=judge", f"{path}&allow=tasks"):
            answer = api.get(refused).json()
            assert (answer["refused"], answer["differences"]["pass_rate"]["interval"]) == (["timeout"], None)
            assert answer["not_comparable"] == "timeout 600 against 900"
            assert not any("in the end" in words for words in answer["words"])
        allowed = api.get(f"{path}&allow=judge&allow=timeout").json()
        assert (allowed["refused"], allowed["not_comparable"]) == ([], None)
        assert "timeout 600 against 900" in allowed["words"], "what differs is said all the same"
        assert (allowed["differences"]["pass_rate"]["interval"] is not None) is finished
        assert any("in the end" in words for words in allowed["words"]) is not finished


async def test_the_document_is_served_and_hangs_together(serving: Serving) -> None:
    assert serving.get("/api/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    references = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(DOCUMENT))
    assert set(references) <= set(DOCUMENT["components"]["schemas"])
    paths = (
        {operation.path for operation in OPERATIONS} | set(STREAMS) | set(web_api.DOWNLOADS) | {EVENTS_PATH}
    )
    assert set(DOCUMENT["paths"]) == paths
    ids = [done["operationId"] for path in DOCUMENT["paths"].values() for done in path.values()]
    assert len(set(ids)) == len(ids)
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_a_history_is_read_once_for_all_who_ask_and_the_latest_are_kept(feed: Feed, web: Web) -> None:
    names = [f"r{number}" for number in range(web_api.MAX_HISTORIES + 1)]
    await feed.take([a_trial(run_id=name) for name in names])
    first, second = await asyncio.gather(web.history("r0"), web.history("r0"))
    assert first is second
    assert {entry.kind for entry in first} == {"run", "agent_model"}
    for name in names[1:]:
        await web.history(name)
    assert list(web._histories._stored) == names[1:]


async def test_prices_are_those_of_the_file(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[models."gpt-5"]\ninput = 100\noutput = 200\n')
    with_file = Web(settings.model_copy(update={"prices_file": file}))
    assert with_file.prices.digest() == PriceTable.from_toml(file.read_text()).digest()
    await with_file.reader.close()


# -----------------------------------------------------------------------------
# Answers about large runs are ready before somebody asks.


END = {"type": "run_finished", "run_id": "run-1"}


def results(first: int, last: int, run: str = "run-1") -> list[dict[str, Any]]:
    return [a_trial(run_id=run, task_id=f"task-{number}") for number in range(first, last)]


@pytest.fixture
def ahead(web: Web, monkeypatch: pytest.MonkeyPatch) -> Web:
    """A server for which 8 trials are many, and 20 all that it holds."""
    monkeypatch.setattr("streamer.web.api.LARGE", 8)
    monkeypatch.setattr("streamer.web.api.MAX_TRIALS", 20)
    monkeypatch.setattr("streamer.web.log.REST", 0)
    return web


async def test_a_large_run_needs_no_log_when_asked_about(
    ahead: Web, log_feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.web.log.FRESH_LOG_SECONDS", float("inf"))
    failed = a_trial(task_id="task-7", resolved=False)
    await log_feed.take([*results(0, 7), failed, *results(0, 7, "small")])
    await ahead.read_large_runs()
    for reads in ("log.read_batches", "log.fold_run"):
        monkeypatch.setattr(f"streamer.web.{reads}", lambda *_, **__: pytest.fail("the log is read"))
    assert (await curves_of(ahead, AsOfQuery(), "run-1")).curves[0].points[-1].trials == 8
    assert (await trials_of(ahead, TrialsQuery(), "run-1")).matching == 8
    assert [group.count for group in await web_api.failures_of(ahead, NoQuery(), "run-1")] == [1]
    assert set(ahead.curves._stored) == {"run-1"}, "a small run waits until somebody asks"


async def test_a_run_is_read_ahead_again_once_a_quarter_larger_or_over(ahead: Web, log_feed: Feed) -> None:
    async def ready() -> int:
        await ahead.read_large_runs()
        return ahead.curves._stored["run-1"].version[1]

    last, seen = 0, []
    for events in (results(0, 8), results(8, 9), results(9, 10), [END], results(10, 11)):
        await log_feed.take(events)
        last += len(events)
        seen.append(await ready() == last - 1)
    assert seen == [True, False, True, True, True]


async def test_runs_are_read_ahead_as_far_as_they_fit_the_shown_first(ahead: Web, log_feed: Feed) -> None:
    for minute, run in enumerate(("seen", "older", "latest")):
        at = f"2026-01-31T09:{minute:02}:00Z"
        await log_feed.take([event | {"finished_at": at} for event in results(0, 9, run)])
    await ahead.hub.enter("seen", "127.0.0.1")
    await ahead.read_large_runs()
    assert list(ahead.curves._stored) == ["seen", "latest"]
    assert set(ahead.trials._log.runs) == {"seen", "latest"}


async def test_a_run_that_cannot_be_read_ahead_keeps_no_other_from_it(
    ahead: Web, log_feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_feed.take([*results(0, 9, "a"), *results(0, 9, "b")])
    first, last = (run.run_id for run in (await ahead.reader.page_of_runs()).runs)
    work = ahead.curves.work_ahead

    async def work_ahead(run_id: str, version: tuple[int, int]) -> None:
        if run_id == first:
            raise NotInLog(run_id, "trial-events")
        await work(run_id, version)

    monkeypatch.setattr(ahead.curves, "work_ahead", work_ahead)
    await ahead.read_large_runs()
    assert set(ahead.curves._stored) == {last}
    assert set(ahead.trials._log.runs) == {first, last}, "its trials may be read"


async def test_large_runs_are_looked_for_after_an_outage(ahead: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    look = AsyncMock(side_effect=ReaderError("Redis does not answer"))
    monkeypatch.setattr("streamer.web.api.LOOK_SECONDS", 0.01)
    monkeypatch.setattr(ahead, "read_large_runs", look)
    following = asyncio.create_task(ahead.follow_large_runs())
    await eventually(lambda: look.await_count >= 3, "three looks")
    following.cancel()


def torn(serving: Serving, ended: Event) -> tuple[int, list[str]]:
    """Ask for the snapshot again and again: how often there was one, and what did not sum up."""
    answers, result = 0, []
    while not ended.is_set():
        answer = serving.get("/api/runs/run-1/snapshot")
        if answer.status == 404:  # Redis was just emptied
            continue
        snapshot = answer.json()
        answers += 1
        done, parts = snapshot["run"]["progress"]["done"], [agent["trials"] for agent in snapshot["agents"]]
        if sum(parts) != done:
            result.append(f"{done} is not the sum of {parts}")
    return answers, result


async def test_a_snapshot_is_never_torn_while_redis_is_written_and_emptied(
    feed: Feed, serving: Serving, redis_server: RedisServer
) -> None:
    ended = Event()
    reading = asyncio.create_task(asyncio.to_thread(torn, serving, ended))
    try:
        for number in range(300):
            await feed.take([a_trial(task_id=f"t{number}", agent=f"agent {number % 6}")])
            if number % 50 == 25:
                redis_server.flush()
    finally:
        ended.set()
    answers, result = await asyncio.wait_for(reading, 60)
    assert (result, answers > 10) == ([], True)


# -----------------------------------------------------------------------------
# The trials of a run as files: the same bytes as a report, under a harmless name.


@pytest.mark.parametrize("ending", ["csv", "parquet"])
async def test_a_file_is_as_in_a_report(log_feed: Feed, api: Serving, logged: Settings, ending: str) -> None:
    trials = [a_trial(task_id=f"=t{number}", cost_usd=number) for number in range(5)]
    await log_feed.take([*trials, a_plan(run_id="begun", tasks=3)])
    for run in ("run-1", "begun"):  # the second has no result yet
        answer = api.get(f"/api/runs/{run}/trials.{ending}")
        assert answer.status == 200, answer.body
        assert answer.headers["content-disposition"] == f'attachment; filename="{run}-trials.{ending}"'
        data = await asyncio.to_thread(from_stack, logged, run, datetime.now(UTC))
        assert answer.body == FORMATS[ending](data)


async def test_a_hostile_run_id_gives_a_harmless_file_name(log_feed: Feed, api: Serving) -> None:
    run = '../a "run"; x=.csv'
    await log_feed.take([a_trial(run_id=run)])
    answer = api.get(f"/api/runs/{quote(run, safe='')}/trials.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="_a_run_x_.csv-trials.csv"'


async def test_a_file_that_cannot_be_made_is_a_problem(
    log_feed: Feed, api: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_feed.take(a_trial(task_id=f"t{number}") for number in range(5))
    assert api.get("/api/runs/nothing/trials.csv").status == 404
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    missing = api.get("/api/runs/run-1/trials.parquet")
    assert (missing.status, "trialstream[report]" in missing.json()["detail"]) == (501, True)
    monkeypatch.setattr("streamer.web.log.MAX_TRIALS", 1)
    assert api.get("/api/runs/run-1/trials.csv").status == 422, "asking again does not help"
