"""The trials of a run as files: the same bytes as a report, under a harmless name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from streamer.settings import Settings
from streamer.web import log
from streamer.web.report import FORMATS, from_stack
from tests.support.events import a_trial
from tests.web.feeding import Feed
from tests.web.serving import Serving


@pytest.fixture
async def fed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        await feed.take(a_trial(run_id="r", task_id=f"=t{number}", cost_usd=number) for number in range(5))
        yield feed


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


@pytest.mark.parametrize("ending", ["csv", "parquet"])
async def test_a_file_has_the_bytes_of_a_report(
    fed: Feed, serving: Serving, logged: Settings, ending: str
) -> None:
    answer = serving.get(f"/api/runs/r/trials.{ending}")
    assert answer.status == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="r-trials.{ending}"'
    data = await asyncio.to_thread(from_stack, logged, "r", datetime.now(UTC))
    assert answer.body == FORMATS[ending](data)


async def test_a_hostile_run_id_gives_a_harmless_file_name(fed: Feed, serving: Serving) -> None:
    run = '../a "run"; x=.csv'
    await fed.take([a_trial(run_id=run)])
    answer = serving.get(f"/api/runs/{quote(run, safe='')}/trials.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="_a_run_x_.csv-trials.csv"'


async def test_what_cannot_be_answered_is_a_problem(
    fed: Feed, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serving.get("/api/runs/nothing/trials.csv").status == 404
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    missing = serving.get("/api/runs/r/trials.parquet")
    assert (missing.status, "trialstream[report]" in missing.json()["detail"]) == (501, True)
    monkeypatch.setattr(log, "MAX_TRIALS", 1)
    assert serving.get("/api/runs/r/trials.csv").status == 422, "asking again does not help"
