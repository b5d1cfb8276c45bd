"""Answers as of an earlier position, and what moved a number: the same as published, folded one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from streamer.settings import Settings
from streamer.views.compare_sides import ComparedSide
from streamer.web.downloads import download
from streamer.web.folded import (
    LogTruncated,
    comparison_as_of,
    moves_of,
    ordered_words_of,
    snapshot_as_of,
)
from streamer.web.models import NoQuery, WhyQuery
from streamer.web.resources import Web
from streamer.web.run_views import labels
from tests.support.events import a_plan, a_start, a_trial
from tests.support.eventually import eventually
from tests.web.feeding import Feed
from tests.web.serving import Serving

PORTIONS = [
    [a_plan(tasks=4), a_trial(resolved=False), a_trial(agent="b", tier="T0", cost_usd=0.5)],
    [a_start(task_id="task-2"), a_trial(task_id="task-3")],
    [a_trial(revision=1), a_trial(task_id="task-2")],
]
ENDS = (2, 4, 6)
"""Offset of the last event of each portion."""


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


async def test_as_of_each_version_the_answers_are_those_of_then(logged: Settings, serving: Serving) -> None:
    paths = ["", "/snapshot", "/agents", "/tiers", "/tiers?within=true", "/comparison"]
    async with Feed(logged, log=True) as feed:
        then = {}
        for end, portion in zip(ENDS, PORTIONS, strict=True):
            await feed.take(portion)
            for path in paths:
                then[end, path] = serving.get(f"/api/runs/run-1{path}").json()
        for (end, path), answer in then.items():
            again = serving.get(f"/api/runs/run-1{path}{'&' if '?' in path else '?'}as_of={end}")
            assert again.status == 200
            assert without_way(again.json()) == without_way(answer), (end, path)


def without_way(answer: Any) -> Any:
    """The answer without what depends on the broker's time, and on when a summary was built last."""
    if isinstance(answer, list):
        return [without_way(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: without_way(value)
        for name, value in answer.items()
        if name not in ("last_event_at", "state", "state_version")
    }


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
                labels(web, NoQuery(), "run-1", "team"),
                download(web, "run-1", "csv"),
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

    monkeypatch.setattr("streamer.client.run_log.beginning_of", begins_later)
    await feed.take([a_trial()])
    web = Web(settings)
    with pytest.raises(LogTruncated, match="begins at offset 7"):
        await snapshot_as_of(web, "run-1", "9")
    await web.reader.close()


async def test_of_a_log_that_lost_its_beginning_the_order_says_nothing(
    logged: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begins_later(*_: object) -> int:
        return 7

    tasks = [f"t{n}" for n in range(9)]
    plan = {"tasks": tasks, "attempts": 1, "order": tasks, "order_kind": "shuffled"}
    events: list[dict[str, Any]] = []
    for run, passed in (("r", True), ("s", False)):
        events += [a_plan(run_id=run, **plan)]
        events += [a_trial(run_id=run, task_id=task, resolved=passed) for task in tasks[:8]]
    async with Feed(logged, log=True) as feed:
        await feed.take(events)
    web = Web(logged)
    a, b = [ComparedSide(await web.reader.comparison(run), (), None, ()) for run in ("r", "s")]
    assert await ordered_words_of(web, a, b)
    monkeypatch.setattr("streamer.client.run_log.beginning_of", begins_later)
    assert await ordered_words_of(web, a, b) == []
    await web.reader.close()


def test_a_log_that_lost_its_beginning_says_where_it_begins_and_what_to_do() -> None:
    text = str(LogTruncated("r", 7))
    assert "begins at offset 7" in text
    assert "leave as_of out" in text
