"""The application: problems, and what it answers without a broker."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from functools import partial
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from starlette.requests import Request

from streamer.schemas.base import task_key
from streamer.settings import Settings
from streamer.views.decide.history import TaskRun
from streamer.web.api import Web, _trials_link
from streamer.web.app import _answer, _endpoint, create_app, openapi, player
from streamer.web.models import NoQuery, Operation
from streamer.web.protocols.live import Room
from tests.support.events import a_plan, a_trial
from tests.web.feeding import Feed
from tests.web.rooms import a_room
from tests.web.serving import Serving

DOCUMENT = openapi()


PROBLEMS = [
    ("runs/nothing", 404, "There is no run 'nothing'"),
    ("runs/nothing/trials", 404, "There is no run 'nothing'"),
    ("runs/nothing/updates", 404, "There is no run 'nothing'"),
    ("runs/run-1/trials/abc", 404, "has no trial 'abc'"),
    ("leaderboard?metric=luck", 400, "Metrics: accuracy"),
    ("leaderboard?benchmark=b", 404, "Benchmarks: none yet"),
    ("leaderboard?label=x", 400, "KEY=VALUE"),
    ("runs?label=a=1&label=a=2", 400, "label='a=1' and label='a=2': no run has both"),
    ("leaderboard?metrik=accuracy", 400, "Allowed: metric, run"),
    ("runs/run-1/trials?limit=501", 400, "less than or equal to 500"),
    ("health?x=1", 400, "Allowed: nothing"),
    ("compare?a=run-1", 400, "Field required"),
    ("compare?a=run-1&b=run-1&b_agent=who", 404, "run 'run-1' has no agent:model 'who'"),
    ("updates?view=luck", 400, "view: Input should be 'runs', "),
    ("compare?a=run-1&b=run-1&allow=luck", 400, "'luck' cannot be allowed; use one of tasks, dataset, "),
    ("nothing", 404, "/api/openapi.json"),
    ("runs/run-1?as_of=yesterday", 400, "neither an offset (41) nor a time with a zone"),
    ("runs/run-1?as_of=99", 400, "the last record is at 2"),
    ("runs/run-1?as_of=2999-01-01T00:00:00Z", 400, "in the future"),
    ("runs/run-1?as_of=2001-01-01T00:00:00%2B01:00", 404, "its first event is at offset 0"),
    ("runs/run-1?as_of=" + "1" * 65, 400, "at most 64 characters"),
    ("runs/run-1/why?since=yesterday", 400, "neither an offset"),
    ("runs/run-1/why?metric=reward", 400, "No board for 'reward'"),
    ("runs/run-1/why?agent=who", 404, "no agent 'who'; it has b:gpt-5, terminus:gpt-5"),
    ("runs/run-1/why?limit=0", 400, "limit"),
    ("runs/run%2F9?as_of=1", 404, "run 'run/9'"),
    ("runs/run%2F9/why", 404, "run 'run/9'"),
]


SHEET_PROBLEMS = [
    ("/pages/ledgers/nothing", 404, "&#x27;nothing&#x27;. Ledgers: none yet"),
    ("/pages/ledgers?x=1", 400, "Allowed: as_of"),
    ("/pages/runs/run-1", 400, "as_of: give the offset or time"),
    ("/pages/runs/run-1?as_of=soon", 400, "soon"),
    ("/pages/runs/nothing?as_of=1", 404, "There is no run &#x27;nothing&#x27;"),
    ("/pages/tasks/t", 400, "benchmark or run: give one"),
    ("/pages/tasks/t?run=nothing", 404, "There is no run &#x27;nothing&#x27;"),
    ("/pages/tasks/t?benchmark=b", 404, "Benchmarks: none yet"),
]


async def test_a_page_that_cannot_be_drawn_is_a_page_that_says_why(
    logging_feed: Feed, answering: Serving
) -> None:
    await logging_feed.take([a_plan(), a_trial()])
    for path, status, says in SHEET_PROBLEMS:
        answer = answering.get(path)
        told = (answer.status, answer.headers["content-type"].partition(";")[0])
        assert told == (status, "text/html"), path
        assert says in answer.body.decode(), path


async def test_a_run_as_of_an_offset_is_a_page_that_says_so_and_links_to_the_live_one(
    logging_feed: Feed, answering: Serving
) -> None:
    run = {"run_id": "r/1"}
    plan = a_plan(**run, tasks=["a", "b"], attempts=1, agent_models=["terminus:gpt-5"])
    for event in (
        plan,
        a_trial(**run, task_id="a", cost_usd=0.25),
        a_trial(**run, task_id="b", cost_usd=64.0),
    ):
        await logging_feed.take([event])
    before = answering.get("/api/runs/r%2F1").json()["state_version"] - 1
    page = answering.get(f"/pages/runs/r%2F1?as_of={before}").body.decode()
    link = '<a href="/#/run/r%2F1">The run as it stands now</a>'
    assert f'<div class="banner" role="status"><p>As of offset {before}, not live. {link}</p></div>' in page
    assert "$0.25" in page
    assert "$64" not in page
    assert "Nothing yet." not in page
    now = answering.get(f"/pages/runs/r%2F1?as_of={before + 1}&tab=tiers").body.decode()
    assert '<a href="/#/run/r%2F1/tiers">The run as it stands now</a>' in now
    assert "$64" in now


async def test_ledgers_and_a_task_over_all_runs_are_pages_with_links(
    logging_feed: Feed, answering: Serving
) -> None:
    def page_of(path: str) -> str:
        return answering.get(f"/pages/{path}").body.decode()

    plan = {"tasks": ["a/b"], "attempts": 1, "planned_at": "2026-01-01T00:00:00Z", "benchmark": "b/1"}
    entered = {"name": "night/<ly>", "baseline": "run-0"}
    done = {"started_at": "2026-01-01T01:00:00Z", "cost_usd": 2.0, "duration_seconds": 30.0}
    assert "No run belongs to a ledger yet" in page_of("ledgers")
    await logging_feed.take(
        [
            a_plan(run_id="run-0", **plan),
            a_trial(run_id="run-0", task_id="a/b", resolved=False, **done),
            a_plan(run_id="r/2", ledger=entered, **plan),
            a_trial(run_id="r/2", task_id="a/b", model="<i>m</i>", **done),
        ]
    )
    link = '<a href="/pages/ledgers/night%2F%3Cly%3E"><bdi class="name">night/&lt;ly&gt;'
    assert link in page_of("ledgers")
    ledger = page_of("ledgers/night%2F%3Cly%3E")
    assert "<p>1 candidate tried, 0 better than the baseline.</p>" in ledger
    assert '<a href="/#/run/r%2F2"><bdi class="name">r/2</bdi></a>' in ledger
    assert "terminus:&lt;i&gt;m&lt;/i&gt;</bdi>" in ledger
    task = page_of("tasks/a%2Fb?run=r%2F2")
    assert task == page_of("tasks/a%2Fb?benchmark=b%2F1")
    assert '<bdi class="name">2 runs of b/1</bdi>' in task
    trials = "/#/run/r%2F2/trials?agent=terminus%3A%3Ci%3Em%3C%2Fi%3E&amp;task=a%2Fb"
    assert len(re.findall(r'<a href="/#/run/[^"]+/trials\?[^"]+"', task)) == 2
    assert f'<a href="{trials}">' in task
    assert "No trial of this task has a verdict yet." in page_of("tasks/x?run=r%2F2")


@pytest.mark.parametrize(
    ("tier", "subtest", "asked"),
    [(None, None, ""), ("T/0", None, "&tier=T%2F0"), ("T0", "s", "&tier=T0"), (None, "s", "")],
)
def test_a_task_of_a_tier_leads_to_the_trials_of_that_tier(
    tier: str | None, subtest: str | None, asked: str
) -> None:
    key = task_key(tier, subtest, "a|b")
    of = TaskRun(
        run="r", at=None, agent_model="a:m", task=key, attempts=1, passed=1, cost_usd=None, seconds=None
    )
    assert _trials_link(of, "a|b") == f"/#/run/r/trials?agent=a%3Am&task=a%7Cb{asked}"


async def test_problems_say_what_was_wrong_and_what_is_allowed(
    logging_feed: Feed, answering: Serving
) -> None:
    schema = {"$ref": "#/components/schemas/Problem", "components": DOCUMENT["components"]}
    await logging_feed.take([a_plan(), a_trial(), a_trial(agent="b")])
    for path, status, says in PROBLEMS:
        answer = answering.get(f"/api/{path}")
        told = (answer.status, answer.headers["content-type"])
        assert told == (status, "application/problem+json"), path
        assert says.lower() in answer.json()["detail"].lower(), path
        assert Draft202012Validator(schema).is_valid(answer.json()), path


async def test_without_a_broker_everything_but_trials_is_answered(feed: Feed, serving: Serving) -> None:
    await feed.take([a_trial()])
    assert serving.get("/api/runs/run-1").status == 200
    assert serving.get("/api/runs/run-1/trials").status == 503


async def test_a_head_request_to_a_stream_ends_and_leaves_no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    web, sent = Web(Settings()), list[Any]()
    room = a_room()
    room.viewers = 1

    async def enter(run: str | None, address: str) -> Room:
        return room

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return await asyncio.Future()

    monkeypatch.setattr(web.hub, "enter", enter)
    monkeypatch.setattr(web.hub, "_viewers", Counter({"": 1}))
    asked = {"type": "http", "method": "HEAD", "path": "/api/updates", "raw_path": b"/api/updates"}
    scope = asked | {"query_string": b"", "headers": [(b"host", b"localhost")], "http_version": "1.1"}
    await asyncio.wait_for(create_app(web)(scope, receive, send), 5)
    assert [message.get("status") for message in sent] == [200, None]
    assert room.viewers == 0


async def test_an_answer_that_cannot_be_written_as_json_is_a_problem_too() -> None:
    class Large(BaseModel):
        number: int

    async def answer(web: Web, query: NoQuery) -> Large:
        return Large(number=10**30)

    operation, web = Operation("/large", "A number.", NoQuery, Large, False, answer), Web(Settings())
    scope = {"type": "http", "query_string": b"", "headers": [], "path_params": {}}
    result = await _endpoint(web, partial(_answer, web, operation))(Request(scope))
    assert (result.status_code, result.media_type) == (500, "application/problem+json")


# -----------------------------------------------------------------------------
# The player's page: its policy fits what stands in it, and a recording cannot leave its element.


RECORDING = '{"version": 2}\n[0, "o", "</script><script>alert(1)</script><!--"]\n\u2028'


def test_a_hostile_recording_and_title_stay_text_and_the_policy_allows_the_page_alone() -> None:
    answer = player(RECORDING, "</title><script>alert(1)</script>\u202e")
    body, policy = bytes(answer.body).decode(), answer.headers["content-security-policy"]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", body, re.DOTALL)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert body.count("<script") == 2
    assert "<!--" not in body.split("<script>")[0]
    [data] = re.findall(r'id="recorded">(.*?)</script>', body, re.DOTALL)
    assert json.loads(data) == RECORDING
    assert "\u202e" not in body.split("</title>")[0]
    assert "Apache License" in body
