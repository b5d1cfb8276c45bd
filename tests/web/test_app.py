"""The application: problems, pages that the server draws, and what it answers without a broker."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from functools import partial
from unittest.mock import AsyncMock

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from starlette.requests import Request

from streamer.client.feeds import NotInLog
from streamer.client.queries import RedisUnavailable, UnknownBenchmark, UnknownMetric, UnknownRun
from streamer.folding.breakdowns import UnknownLabel
from streamer.folding.fold import CannotBeFolded
from streamer.schemas.base import task_key
from streamer.schemas.wire import BadPosition
from streamer.settings import Settings
from streamer.storage.kafka import KafkaConnectionError, TopicMissing
from streamer.views.decide.gate import NoSuchSide
from streamer.views.decide.history import TaskRun
from streamer.views.models import TooManyCells
from streamer.web.api import Web, _trials_link
from streamer.web.app import _answer, _endpoint, create_app, openapi, player
from streamer.web.log import LogTruncated, TooManyTrials
from streamer.web.models import MEDIA_TYPE, BadQuery, NoQuery, Operation, problem, status_of
from streamer.web.protocols.live import TooManyViewers
from tests.house.repository import ROOT
from tests.support.events import a_plan, a_trial
from tests.web import screenshots
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.viewer import a_room

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
    ("events", 405, "POST to /api/events"),
    ("tasks?benchmark=none", 404, "No run names the benchmark 'none'"),
]
SHEET_PROBLEMS = [
    ("ledgers/nothing", 404, "&#x27;nothing&#x27;. Ledgers: none yet"),
    ("ledgers?x=1", 400, "Allowed: as_of"),
    ("runs/run-1", 400, "as_of: give the offset or time"),
    ("runs/run-1?as_of=soon", 400, "soon"),
    ("runs/nothing?as_of=1", 404, "There is no run &#x27;nothing&#x27;"),
    ("tasks/t", 400, "benchmark or run: give one"),
    ("tasks/t?run=nothing", 404, "There is no run &#x27;nothing&#x27;"),
    ("tasks/t?benchmark=b", 404, "Benchmarks: none yet"),
]


async def test_a_run_as_of_an_offset_is_a_page_with_a_link_to_live(log_feed: Feed, api: Serving) -> None:
    plan = a_plan(run_id="r/1", tasks=["a", "b"], attempts=1, agent_models=["terminus:gpt-5"])
    costs = {"a": 0.25, "b": 64.0}
    for event in (
        plan,
        *(a_trial(run_id="r/1", task_id=task, cost_usd=cost) for task, cost in costs.items()),
    ):
        await log_feed.take([event])
    before = api.get("/api/runs/r%2F1").json()["state_version"] - 1
    page = api.get(f"/pages/runs/r%2F1?as_of={before}").body.decode()
    link = '<a href="/#/run/r%2F1">The run as it stands now</a>'
    assert f'<div class="banner" role="status"><p>As of offset {before}, not live. {link}</p></div>' in page
    assert [words in page for words in ("$0.25", "$64", "Nothing yet.")] == [True, False, False]
    now = api.get(f"/pages/runs/r%2F1?as_of={before + 1}&tab=tiers").body.decode()
    assert '<a href="/#/run/r%2F1/tiers">The run as it stands now</a>' in now
    assert "$64" in now


async def test_ledgers_and_a_task_over_all_runs_are_pages_with_links(log_feed: Feed, api: Serving) -> None:
    def page_of(path: str) -> str:
        return api.get(f"/pages/{path}").body.decode()

    plan = {"tasks": ["a/b"], "attempts": 1, "planned_at": "2026-01-01T00:00:00Z", "benchmark": "b/1"}
    entered = {"name": "night/<ly>", "baseline": "run-0"}
    done = {"started_at": "2026-01-01T01:00:00Z", "cost_usd": 2.0, "duration_seconds": 30.0, "task_id": "a/b"}
    assert "No run belongs to a ledger yet" in page_of("ledgers")
    first = [a_plan(run_id="run-0", **plan), a_trial(run_id="run-0", resolved=False, **done)]
    second = [a_plan(run_id="r/2", ledger=entered, **plan), a_trial(run_id="r/2", model="<i>m</i>", **done)]
    await log_feed.take(first + second)
    link = '<a href="/pages/ledgers/night%2F%3Cly%3E"><bdi class="name">night/&lt;ly&gt;'
    assert link in page_of("ledgers")
    ledger, task = page_of("ledgers/night%2F%3Cly%3E"), page_of("tasks/a%2Fb?run=r%2F2")
    assert "<p>1 candidate tried, 0 better than the baseline.</p>" in ledger
    assert '<a href="/#/run/r%2F2"><bdi class="name">r/2</bdi></a>' in ledger
    assert "terminus:&lt;i&gt;m&lt;/i&gt;</bdi>" in ledger
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
def test_a_task_of_a_tier_leads_to_its_trials(tier: str | None, subtest: str | None, asked: str) -> None:
    unknown = {"at": None, "cost_usd": None, "seconds": None}
    of = TaskRun.model_validate(
        {"run": "r", "agent_model": "a:m", "task": task_key(tier, subtest, "a|b"), "attempts": 1, "passed": 1}
        | unknown
    )
    assert _trials_link(of, "a|b") == f"/#/run/r/trials?agent=a%3Am&task=a%7Cb{asked}"


async def test_problems_say_what_was_wrong_and_what_is_allowed(log_feed: Feed, api: Serving) -> None:
    """The API says so in JSON, and a page that cannot be drawn on a page."""
    schema = {"$ref": "#/components/schemas/Problem", "components": DOCUMENT["components"]}
    await log_feed.take([a_plan(), a_trial(), a_trial(agent="b")])
    for path, status, says in PROBLEMS:
        answer = api.get(f"/api/{path}")
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), path
        assert says.lower() in answer.json()["detail"].lower(), path
        assert Draft202012Validator(schema).is_valid(answer.json()), path
    for path, status, says in SHEET_PROBLEMS:
        answer = api.get(f"/pages/{path}")
        assert (answer.status, answer.headers["content-type"][:9]) == (status, "text/html"), path
        assert says in answer.body.decode(), path


async def test_without_a_broker_everything_but_trials_is_answered(feed: Feed, serving: Serving) -> None:
    await feed.take([a_trial()])
    assert serving.get("/api/runs/run-1").status == 200
    assert serving.get("/api/runs/run-1/trials").status == 503


async def test_a_head_request_to_a_stream_ends_and_leaves_no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    web, room, send = Web(Settings()), a_room(), AsyncMock()
    room.viewers = 1
    monkeypatch.setattr(web.hub, "enter", AsyncMock(return_value=room))
    monkeypatch.setattr(web.hub, "_viewers", Counter({"": 1}))
    asked = {"type": "http", "method": "HEAD", "path": "/api/updates", "raw_path": b"/api/updates"}
    scope = asked | {"query_string": b"", "headers": [(b"host", b"localhost")], "http_version": "1.1"}
    never = asyncio.get_running_loop().create_future()
    await asyncio.wait_for(create_app(web)(scope, lambda: never, send), 5)
    assert [call.args[0].get("status") for call in send.await_args_list] == [200, None]
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


STATUS: dict[int | None, tuple[type[Exception], ...]] = {
    400: (UnknownMetric, BadPosition, BadQuery),
    404: (UnknownRun, UnknownBenchmark, NoSuchSide, UnknownLabel, NotInLog),
    409: (CannotBeFolded, LogTruncated),
    422: (TooManyCells, TooManyTrials),
    503: (RedisUnavailable, KafkaConnectionError, TopicMissing, TooManyViewers),
    None: (KeyError,),
}
"""The status of each error that can be explained; our own mistakes have none."""


@pytest.mark.parametrize(("status", "kind"), [(status, kind) for status in STATUS for kind in STATUS[status]])
def test_each_error_has_its_status(status: int | None, kind: type[Exception]) -> None:
    assert status_of(kind.__new__(kind)) == status


def test_a_problem_is_an_answer_that_nobody_keeps() -> None:
    answer = problem(404, "there is no such run")
    assert (answer.status_code, answer.media_type) == (404, MEDIA_TYPE)
    assert answer.headers["cache-control"] == "no-store"
    body = json.loads(bytes(answer.body))
    assert (body["title"], body["status"], body["detail"]) == ("Not Found", 404, "there is no such run")


def test_the_documents_show_screenshots_that_a_command_makes() -> None:
    shown = (ROOT / "docs" / "web.md").read_text("utf-8")
    for name in screenshots.FOR_DOCS:
        assert (ROOT / "docs" / "screenshots" / f"{name}.png").is_file(), "make screenshots"
        assert f"screenshots/{name}.png" in shown


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
