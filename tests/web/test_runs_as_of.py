"""Lists of runs and leaderboards as of an earlier time, and who takes `as_of` at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from streamer.client.folded import PastRuns
from streamer.folding.fold import CannotBeFolded
from streamer.folding.score.prices import PriceTable
from streamer.schemas.wire import Failure
from streamer.settings import Settings
from streamer.storage.kafka import partition_of
from streamer.web.api import DOWNLOADS, OPERATIONS
from streamer.web.app import STREAMS
from streamer.web.log import Folds, LogTruncated, RunsAsOf
from tests.support.board_runs import a_night
from tests.web.feeding import PARTITIONS, Feed
from tests.web.serving import Serving
from tests.web.test_folded import lately, without_way

PORTIONS = [
    [*a_night("n1", 1, {"best": "+" * 10, "mid": "++" + "-" * 8}, attempts=1)],
    [*a_night("n2", 2, {"mid": "+" * 9}, ended=False, tasks=10, attempts=1)],
    [
        *a_night("n4", 3, {"best": "-" * 10}, attempts=1),
        {"type": "run_deleted", "run_id": "n1", "revision": 0},
    ],
]
BOARDS = ("", "?metric=metrics/reward", "?benchmark=tb", "?all_benchmarks=true")
PATHS = ["/api/runs", "/api/leaderboard", "/api/leaderboard?metric=metrics/reward&limit=1"]
PATHS += [f"/api/leaderboards{query}" for query in BOARDS]


@pytest.fixture
def serving(logged: Settings) -> Iterator[Serving]:
    with Serving(logged) as serving:
        yield serving


async def test_as_of_each_time_the_answers_are_those_of_then(logged: Settings, serving: Serving) -> None:
    assert len({partition_of(run, PARTITIONS) for run in ("n1", "n2", "n4")}) > 1
    start = lately()
    async with Feed(logged, log=True, start=start) as feed:
        then = {}
        for minute, portion in enumerate(PORTIONS):
            await feed.take(portion)
            moment = (start + timedelta(minutes=minute)).isoformat()
            for path in PATHS:
                then[moment, path] = serving.get(path).json()
            serving.web.leaderboards._held.clear()
        for (moment, path), answer in then.items():
            again = serving.get(f"{path}{'&' if '?' in path else '?'}as_of={quote(moment)}")
            assert again.status == 200, again.body
            assert without_way(again.json()) == without_way(answer), (moment, path)
        assert len({str(without_way(answer)) for (_, path), answer in then.items() if path == PATHS[0]}) == 3
        assert serving.get(f"/api/leaderboards.html?as_of={quote(moment)}").body.count(b"as of 2026-") == 1


async def test_of_one_run_an_offset_will_do(logged: Settings, serving: Serving) -> None:
    start = lately()
    async with Feed(logged, log=True, start=start) as feed:
        await feed.take(PORTIONS[0])
        end = len(PORTIONS[0]) - 1
        for board in ("leaderboard", "leaderboards"):
            now = serving.get(f"/api/{board}?run=n1").json()
            assert now
            assert serving.get(f"/api/{board}?run=n1&as_of={end}").json() == now
            early = serving.get(f"/api/{board}?run=n1&as_of={end - 12}").json()
            assert early != now
            refused = serving.get(f"/api/{board}?as_of={end}")
            assert (refused.status, "Give a time" in refused.json()["detail"]) == (400, True)
        assert serving.get("/api/runs?as_of=3").status == 400


def test_every_path_takes_as_of_or_says_that_it_does_not(serving: Serving) -> None:
    told = "as_of: this path says how things stand now"
    taking = {one.path for one in OPERATIONS if "as_of" in one.query.model_fields} | DOWNLOADS.keys()
    for path in [*(one.path for one in OPERATIONS), *STREAMS, *DOWNLOADS]:
        answer = serving.get(re.sub(r"{\w+}", "0", path) + "?as_of=yesterday&a=0&b=0")
        assert answer.status in (400, 404), path
        assert (told in answer.json()["detail"]) == (path not in taking), path
    assert {"/api/runs", "/api/runs/{run}", "/api/leaderboards", "/api/runs/{run}/matrix"} <= taking


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"truncated": {"partition 1": 7}}, LogTruncated),
        ({"failed": [Failure("r", "broken")]}, CannotBeFolded),
    ],
)
async def test_an_answer_that_would_lack_something_is_not_given(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, broken: dict[str, object], error: type[Exception]
) -> None:
    found = PastRuns([], datetime.now(UTC), **broken)  # type: ignore[arg-type]
    monkeypatch.setattr("streamer.web.log.fold_runs", lambda *_: found)
    with pytest.raises(error):
        await RunsAsOf(settings, PriceTable.default(), Folds()).at("2026-01-01T00:00:00Z")
