"""Answers as of an earlier position, and what moved a number: the same as published, folded one at a time."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import parquet

from streamer.settings import Settings
from streamer.web.api import Web, comparison_as_of, download, labels, moves_of, snapshot_as_of
from streamer.web.log import LogTruncated
from streamer.web.models import AsOfQuery, WhyQuery
from tests.support.events import a_plan, a_start, a_trial
from tests.support.eventually import eventually
from tests.web.feeding import Feed
from tests.web.serving import Serving

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


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


async def test_as_of_each_version_the_answers_are_those_of_then(logged: Settings, serving: Serving) -> None:
    paths = ["", "/snapshot", "/agents", "/tiers", "/tiers?within=true", "/comparison", "/labels/team"]
    paths += ["/outlook", "/curves", "/matrix", "/matrix?metric=cost_usd&sort=task"]
    start = lately()
    async with Feed(logged, log=True, start=start) as feed:
        then, files = {}, {}
        for end, portion in zip(ENDS, PORTIONS, strict=True):
            await feed.take(portion)
            serving.web.trials._log.read_again("run-1")
            serving.web.curves._held.clear()
            for path in paths:
                then[end, path] = serving.get(f"/api/runs/run-1{path}").json()
            for path in ("/trials.csv", "/trials.parquet"):
                files[end, path] = serving.get(f"/api/runs/run-1{path}").body
        for (end, path), answer in then.items():
            again = serving.get(f"/api/runs/run-1{path}{'&' if '?' in path else '?'}as_of={end}")
            assert again.status == 200
            now, before = without_way(again.json()), without_way(answer)
            if path == "/outlook":  # at the time of the last record, not of asking
                moment = start + timedelta(minutes=ENDS.index(end))
                assert (datetime.fromisoformat(now.pop("at")), before.pop("at") > "2026") == (moment, True)
            assert now == before, (end, path)
        for (end, path), body in files.items():
            again = serving.get(f"/api/runs/run-1{path}?as_of={end}")
            assert rows_in(again.body) == rows_in(body) != [], (end, path)


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


async def test_what_moved_a_number_ends_with_the_published_one(logged: Settings, serving: Serving) -> None:
    async with Feed(logged, log=True) as feed:
        await feed.take([event for portion in PORTIONS for event in portion])
        found = serving.get("/api/runs/run-1/why").json()
        published = serving.get("/api/runs/run-1/agents").json()
        cost = serving.get("/api/runs/run-1/why?metric=total_cost&agent=b&since=1&as_of=3&limit=1").json()
    rates = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in published}
    assert {total["agent_model"]: total["after"] for total in found["totals"]} == rates
    assert [(move["offset"], move["cause"]) for move in found["moves"]] == [
        *((5, "correction"), (4, "result"), (2, "result"), (1, "result"))
    ]
    assert [(move["before"], move["after"]) for move in cost["moves"]] == [(None, 0.5)]
    assert (cost["state_version"], cost["unit"]) == (3, "USD")


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        ("?as_of=yesterday", 400, "neither an offset, as 41, nor a time with a zone"),
        ("?as_of=99", 400, "the last record is at offset 2"),
        ("?as_of=2999-01-01T00:00:00Z", 400, "in the future"),
        ("?as_of=2001-01-01T00:00:00%2B01:00", 404, "its first event is at offset 0"),
        ("?as_of=" + "1" * 65, 400, "at most 64 characters"),
        ("/why?since=yesterday", 400, "neither an offset"),
        ("/why?metric=reward", 400, "There is no board of 'reward'"),
        ("/why?agent=who", 404, "no agent 'who'; it has b:gpt-5, terminus:gpt-5"),
        ("/why?limit=0", 400, "limit"),
    ],
)
async def test_what_cannot_be_answered_is_a_problem(
    logged: Settings, serving: Serving, question: str, status: int, said: str
) -> None:
    async with Feed(logged, log=True) as feed:
        await feed.take(PORTIONS[0])
        answer = serving.get(f"/api/runs/run-1{question}")
        unknown = serving.get(f"/api/runs/{quote('run/9', safe='')}{question}")
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said.lower() in answer.json()["detail"].lower()
    assert unknown.status in (400, 404)


async def test_one_run_is_folded_at_a_time(logged: Settings) -> None:
    web = Web(logged)
    async with Feed(logged, log=True) as feed:
        await feed.take([*PORTIONS[0], a_trial(task_id="task-2", labels={"team": "red"})])
        gate = Event()
        first = asyncio.create_task(web.folds.answer("another question", lambda: gate.wait(30)))
        asked: list[asyncio.Task[Any]] = [
            asyncio.create_task(question)
            for question in (
                moves_of(web, "run-1", WhyQuery()),
                snapshot_as_of(web, "run-1", "2"),
                comparison_as_of(web, "run-1", "2"),
                labels(web, AsOfQuery(), "run-1", "team"),
                download(web, AsOfQuery(), "run-1", "csv"),
            )
        ]
        await eventually(lambda: len(web.folds._under_way) == 1 + len(asked), "all of them wait")
        gate.set()
        moves, (snapshot, _), compared, groups, file = await asyncio.gather(*asked)
        assert await first
    await web.reader.close()
    assert moves.state_version == 3
    assert snapshot.run.state_version == compared.run.state_version == 2
    assert {group.value for group in groups} == {"red", None}
    assert file.body.count(b"\n") == 4


async def test_a_log_that_lost_its_beginning_is_not_read(
    feed: Feed, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begins_later(*_: object) -> int:
        return 7

    monkeypatch.setattr("streamer.client.folded.beginning_of", begins_later)
    await feed.take([a_trial()])
    web = Web(settings)
    with pytest.raises(LogTruncated, match="begins at offset 7"):
        await snapshot_as_of(web, "run-1", "9")
    await web.reader.close()


@pytest.mark.parametrize("events", [True, False])
async def test_two_runs_are_compared_in_order_only_where_the_log_has_all_their_events(
    logged: Settings, serving: Serving, monkeypatch: pytest.MonkeyPatch, *, events: bool
) -> None:
    async def begins_later(*_: object) -> int:
        return 7

    path = "/api/compare?a=run-1&b=run-2"
    plan = {"tasks": ["task-1", "task-2"], "order": ["task-1", "task-2"], "order_kind": "shuffled"}
    async with Feed(logged, log=True, events=events) as feed:
        for run in ("run-1", "run-2"):
            await feed.take([a_plan(run_id=run, attempts=1, **plan), a_trial(run_id=run)])
        told = serving.get(path).json()["words"]
        assert any("in the end" in words for words in told) is events
        monkeypatch.setattr("streamer.client.folded.beginning_of", begins_later)
        assert serving.get(f"{path}&offset=1").json()["words"] == told, "the same runs are folded once"
        await feed.take([a_trial(run_id="run-1", task_id="task-2")])
        left = serving.get(path).json()["words"]
        assert left
        assert not any("in the end" in words for words in left)
