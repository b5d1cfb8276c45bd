"""The application: problems, and what it answers without a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from starlette.requests import Request

from streamer.settings import Settings
from streamer.web.api import Web
from streamer.web.app import _endpoint, openapi
from streamer.web.models import NoQuery, Operation
from tests.support.events import a_plan, a_trial
from tests.web.feeding import Feed
from tests.web.serving import Serving

DOCUMENT = openapi()


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/runs/nothing", 404, "There is no run 'nothing'"),
        ("/api/runs/nothing/trials", 404, "There is no run 'nothing'"),
        ("/api/runs/run-1/trials/abc", 404, "has no trial 'abc'"),
        ("/api/leaderboard?metric=luck", 400, "Metrics: accuracy"),
        ("/api/leaderboard?benchmark=b", 404, "Benchmarks: none yet"),
        ("/api/leaderboard?label=x", 400, "KEY=VALUE"),
        ("/api/leaderboard?metrik=accuracy", 400, "Allowed: metric, run"),
        ("/api/runs/run-1/trials?limit=501", 400, "less than or equal to 500"),
        ("/api/health?x=1", 400, "Allowed: nothing"),
        ("/api/compare?a=run-1", 400, "Field required"),
        ("/api/nothing", 404, "/api/openapi.json"),
    ],
)
async def test_problems_say_what_was_wrong_and_what_is_allowed(
    logged: Settings, serving: Serving, path: str, status: int, says: str
) -> None:
    async with Feed(logged, log=True) as feed:
        await feed.take([a_plan(), a_trial()])
        answer = serving.get(path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert says in answer.json()["detail"]
    schema = {"$ref": "#/components/schemas/Problem", "components": DOCUMENT["components"]}
    assert Draft202012Validator(schema).is_valid(answer.json())


async def test_without_a_broker_everything_but_trials_is_answered(feed: Feed, settings: Settings) -> None:
    await feed.take([a_trial()])
    with Serving(settings) as serving:
        assert serving.get("/api/runs/run-1").status == 200
        assert serving.get("/api/runs/run-1/trials").status == 503


async def test_an_answer_that_cannot_be_written_as_json_is_a_problem_too() -> None:
    class Large(BaseModel):
        number: int

    async def answer(web: Web, query: NoQuery) -> Large:
        return Large(number=10**30)

    operation = Operation("/large", "A number.", NoQuery, Large, False, answer)
    scope = {"type": "http", "query_string": b"", "headers": [], "path_params": {}}
    found = await _endpoint(Web(Settings()), operation)(Request(scope))
    assert (found.status_code, found.media_type) == (500, "application/problem+json")
