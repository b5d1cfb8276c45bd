"""The one word for a run's state, row by row of the table in docs/viewer.md."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
import redis

from streamer.client import finished
from streamer.client.queries import PageOfRuns
from streamer.client.readers import StateReader
from streamer.operate.health import live_workers
from streamer.schemas.base import digest_of
from streamer.schemas.summaries import (
    SILENT_AFTER,
    RunSummary,
    State,
    is_over,
    plan_words,
    state_and_status,
    state_of,
    with_state,
)
from streamer.settings import Settings
from streamer.storage.redis import BadRedisUrl, RedisSink, async_client, sync_client
from tests.client.writing import KEYS, a_benchmark_of_three_runs, write
from tests.house.repository import ROOT
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.eventually import eventually
from tests.support.servers import RedisServer

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
JUST_NOW = (NOW - SILENT_AFTER).isoformat()
LONG_AGO = (NOW - SILENT_AFTER - timedelta(seconds=1)).isoformat()
AHEAD = (NOW + timedelta(hours=3)).isoformat()


def a_run(
    done: int = 3, planned: int | None = 12, *, plan_complete: bool = True, **fields: Any
) -> RunSummary:
    given = {"last_event_at": JUST_NOW} | fields
    progress = {"done": done, "planned": planned, "plan_complete": plan_complete}
    summary = a_run_change(progress=progress, **given).summary
    return RunSummary.model_validate(summary)


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (a_run(10_080, 10_080), "complete"),
        (a_run(10_080, 10_080, last_event_at=LONG_AGO), "complete"),
        (a_run(10_080, 10_080, status="completed"), "complete"),
        (a_run(13, 12), "complete"),
        (a_run(status="completed"), "finished"),
        (a_run(status="aborted", last_event_at=LONG_AGO), "finished"),
        (a_run(planned=None, status="completed"), "finished"),
        (a_run(), "running"),
        (a_run(done=0), "running"),
        (a_run(planned=None), "running"),
        (a_run(last_event_at=AHEAD), "running"),
        (a_run(last_event_at=LONG_AGO), "stalled"),
        (a_run(done=0, last_event_at=LONG_AGO), "stalled"),
        (a_run(last_event_at=None), "stalled"),
        (a_run(planned=None, last_event_at=LONG_AGO), "unfinished"),
        (a_run(planned=None, last_event_at=None), "unfinished"),
        (a_run(planned=None, plan_complete=False), "running"),
        (a_run(planned=None, plan_complete=False, last_event_at=LONG_AGO), "unfinished"),
        (a_run(done=0, planned=0), "running"),
        (a_run(done=0, planned=0, status="completed"), "finished"),
        (a_run(done=0, planned=0, last_event_at=LONG_AGO), "unfinished"),
    ],
)
def test_the_state_of_a_run(run: RunSummary, state: State) -> None:
    assert state_of(run, NOW) == state
    assert state_of(run.model_dump(mode="json"), NOW) == state


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (a_run(last_event_at=LONG_AGO), "running"),
        (a_run(planned=None, last_event_at=None), "running"),
        (a_run(12, last_event_at=None), "complete"),
        (a_run(status="aborted"), "finished"),
    ],
)
def test_a_run_is_not_silent_at_a_moment_that_is_not_known(run: RunSummary, state: State) -> None:
    assert state_of(run, None) == state


@pytest.mark.parametrize("status", [None, "completed"])
@pytest.mark.parametrize("planned", [None, 0, 2, 3])
@pytest.mark.parametrize("last_event_at", [None, JUST_NOW, LONG_AGO])
def test_a_run_is_waited_for_until_it_is_finished_or_complete(
    status: str | None, planned: int | None, last_event_at: str | None
) -> None:
    run = a_run(2, planned, status=status, last_event_at=last_event_at)
    over = state_of(run, NOW) in ("finished", "complete")
    assert is_over(run) == finished(run) == over


def test_a_plan_that_is_incomplete_is_told_from_no_plan_in_model_and_json_also_of_older_summaries() -> None:
    reading, silent, known = a_run(planned=None, plan_complete=False), a_run(planned=None), a_run()
    for run in (reading, silent, known):
        assert plan_words(run) == plan_words(run.model_dump(mode="json"))
    assert [plan_words(run) for run in (reading, silent, known)] == [
        "plan not complete yet",
        "no plan known",
        "",
    ]
    assert plan_words({"progress": {"done": 1, "planned": None}}) == "no plan known"


def test_readers_add_the_state_and_the_digest_still_fits() -> None:
    result = with_state(a_run(12), NOW)
    assert result["state"] == "complete"
    assert result["digest"] == digest_of(result)


def test_what_the_harness_calls_the_end_stands_beside_the_state_not_in_its_place() -> None:
    assert state_and_status("complete", "completed") == "complete"
    assert state_and_status("complete", "error") == "complete (error)"
    assert state_and_status("running", None) == "running"


def test_the_guide_for_viewers_has_the_table_with_every_word_and_the_time() -> None:
    guide = (ROOT / "docs" / "viewer.md").read_text("utf-8")
    section = guide.partition("## The state of a run")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == get_args(State)
    assert f"{SILENT_AFTER.seconds // 60} minutes" in section


# -----------------------------------------------------------------------------
# The questions to Redis: boards, histories, and stale places.


async def test_a_board_is_best_first_in_the_direction_of_its_metric(
    sink: RedisSink, plain: StateReader, redis_server: RedisServer
) -> None:
    await a_benchmark_of_three_runs(sink)
    cheapest = plain.leaderboard("mean_cost")
    assert [(row.rank, row.run, row.agent_model, row.value) for row in cheapest] == [
        (1, "r3", "a:opus", 0.5),
        (2, "r2", "a:opus", 1.0),
        (3, "r2", "b:opus", 2.0),
        (4, "r1", "a:opus", 3.0),
        (5, "r1", "early:opus", 1.0),
    ]
    best = plain.leaderboard("accuracy", benchmark="tb")
    assert [(row.rank, row.run, row.agent_model, row.grade, row.provisional) for row in best] == [
        (1, "r2", "b:opus", None, False),
        (2, "r1", "a:opus", "B", False),
        (2, "r2", "a:opus", None, False),
        (4, "r2", "unpriced:opus", None, False),
        (5, "r1", "early:opus", None, True),
    ]
    with redis.Redis.from_url(redis_server.url) as client:  # stale places
        client.zadd(KEYS.benchmark_board("tb", "accuracy"), {"r2|b:opus": 0.0, "gone|a:b": 1.0})
    assert plain.leaderboard("accuracy", benchmark="tb", limit=1) == best[:1]


async def test_a_board_can_be_narrowed_to_a_run_a_benchmark_labels_and_a_length(
    sink: RedisSink, plain: StateReader
) -> None:
    await a_benchmark_of_three_runs(sink)

    def runs(**narrowed: object) -> list[str]:
        return [row.run for row in plain.leaderboard("accuracy", **narrowed)]  # type: ignore[arg-type]

    assert runs(run="r1") == ["r1", "r1"]
    assert runs(labels={"team": "x"}) == ["r3", "r1", "r1"]
    assert runs(labels={"team": "x", "gpu": "no"}) == ["r1", "r1"]
    assert runs(benchmark="tb", labels={"team": "x"}) == ["r1", "r1"]
    assert runs(benchmark="tb", limit=2) == ["r2", "r1"]
    assert runs(labels={"team": "z"}) == []
    assert runs(run="r3", benchmark="tb") == []
    [row] = plain.leaderboard("cost_of_pass")
    assert row.value == float("inf")


async def test_history_tells_each_emission_oldest_first(sink: RedisSink, plain: StateReader) -> None:
    await write(sink, a_run_change(version=1, progress={"done": 3, "planned": 5}))
    await write(sink, a_tier_change(tier="T 1", version=2, means={"pass_rate": 0.5}))
    await write(sink, a_tier_change(tier="T 1", version=3, deleted=True))
    first, second, third = plain.history("r1")
    assert (first.kind, first.group, first.state_version) == ("run", "", 1)
    assert (first.headline["done"], first.headline["planned"]) == ("3", "5")
    assert (second.group, second.headline["pass_rate"], second.deleted) == ("T 1", "0.5", False)
    assert second.last_event_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (third.deleted, third.last_event_at, third.headline) == (True, None, {})
    assert plain.history("r1", limit=1) == [third]


# -----------------------------------------------------------------------------
# What a reader says of what a sink wrote.


async def test_runs_come_newest_first_and_each_reads_back_as_it_was_published(
    sink: RedisSink, plain: StateReader
) -> None:
    times = {"r/1": "01", "b:|{}": "03", "c": None, "d": "02"}
    given: dict[str, Any] = {"trials": 7, "labels": {"team": "x"}, "total_cost": "Infinity"}
    changes = [
        a_run_change(run, last_event_at=day and f"2026-01-{day}T00:00:00Z", **given)
        for run, day in times.items()
    ]
    await write(sink, *changes)
    assert [run.run_id for run in plain.runs()] == ["b:|{}", "d", "r/1", "c"]
    run = plain.run("r/1")
    assert (run.digest, {name: getattr(run, name) for name in given}) == (changes[0].digest, given)


async def test_pages_of_runs_are_the_list_of_runs_in_parts_and_find_them_by_a_search(
    sink: RedisSink, plain: StateReader
) -> None:
    at = "2026-01-01T00:00:00Z"
    named = {"r3": {"display_name": "Nightly"}, "night": {}, "r5": {"benchmark": "NIGHT-bench"}}
    runs = {f"r{number}": {} for number in range(7)} | named
    await write(sink, *[a_run_change(run, last_event_at=at, **fields) for run, fields in runs.items()])
    every = plain.runs()
    assert [run.run_id for run in every] == sorted(runs, reverse=True)
    for limit in (1, 3, 8, 100):
        pages = [plain.page_of_runs(offset=first, limit=limit) for first in range(0, 10, limit)]
        assert [run for page in pages for run in page.runs] == every
        assert {page.total for page in pages} == {8}
    some = plain.page_of_runs(search="NIGHT", offset=1, limit=1)
    assert ([run.run_id for run in some.runs], some.total) == (["r3"], 3)
    assert plain.page_of_runs(search="day") == PageOfRuns([], 0)


async def test_agents_come_by_label_and_tiers_by_name_each_followed_by_the_agents_within(
    sink: RedisSink, plain: StateReader
) -> None:
    agents = [an_agent_model_change(agent=agent, model="m:1/2") for agent in ("nop", "b:c", "a")]
    tiers = [("T:1", None), ("T0", None), ("T0", "a"), ("T:1", "a|")]
    changes = [a_tier_change(tier=tier, agent=agent, model=agent and "m") for tier, agent in tiers]
    await write(sink, a_run_change(), *agents, *changes)
    assert [agent.agent_model for agent in plain.agents("r1")] == ["a:m:1/2", "b%3Ac:m:1/2", "nop:m:1/2"]
    assert [tier.tier for tier in plain.tiers("r1")] == ["T0", "T:1"]
    listed = [(tier.tier, tier.agent_model) for tier in plain.tiers("r1", within=True)]
    assert listed == [("T0", None), ("T0", "a:m"), ("T:1", None), ("T:1", "a|:m")]


async def test_workers_tell_when_they_last_spoke(
    sink: RedisSink, plain: StateReader, redis_server: RedisServer
) -> None:
    """The first one is as an earlier release writes it."""
    now = datetime.now(UTC)
    await sink.heartbeat("w2", {"lag": 5}, at=now)
    with redis.Redis.from_url(redis_server.url) as client:
        client.hset(KEYS.workers, "w1", json.dumps({"at": (now - timedelta(minutes=1)).isoformat()}))
    first, second = plain.workers()
    assert (first.worker_id, first.stale(), second.stale(), second.status) == ("w1", True, False, {"lag": 5})


@pytest.mark.parametrize("seconds", [-3600, -40, 40, 3600])
async def test_a_worker_whose_clock_is_wrong_lives_as_long_as_it_speaks(
    sink: RedisSink, plain: StateReader, seconds: int
) -> None:
    await sink.heartbeat("w", {}, at=datetime.now(UTC) + timedelta(seconds=seconds))
    [worker] = live_workers(plain)
    assert worker.age < timedelta(seconds=20)
    await eventually(lambda: plain.workers()[0].stale(after=timedelta(seconds=0.2)), "the worker is silent")


async def test_without_permission_to_ask_for_the_time_clocks_count_as_before(
    settings: Settings, redis_server: RedisServer
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.acl_setuser("old", enabled=True, passwords=["+p"], keys=["*"], commands=["+@all", "-time"])
    url = redis_server.url.replace("redis://", "redis://old:p@")
    old = settings.model_copy(update={"redis": url})
    sink, at = RedisSink.from_settings(old), datetime.now(UTC) - timedelta(seconds=40)
    await sink.heartbeat("w", {}, at=at)
    with StateReader(old) as reader:
        [worker] = reader.workers()
    await sink.close()
    assert (worker.at, worker.read_at, worker.stale()) == (at, None, True)


def test_an_empty_redis_has_no_runs_boards_or_workers(plain: StateReader) -> None:
    assert (plain.runs(), plain.leaderboard("accuracy"), plain.workers()) == ([], [], [])


@pytest.mark.parametrize("client", [sync_client, async_client])
def test_a_socket_of_this_machine_is_an_address(client: Any) -> None:
    options = client("unix:///run/redis.sock?db=2", {}, 1.0).connection_pool.connection_kwargs
    assert (options["path"], options["db"]) == ("/run/redis.sock", 2)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:6379",
        "http://host",
        "redis://user:secret@host:port/0",
        "redis://user:secret@host/0?ssl_cert_reqs=none",
        "redis://user:secret@host/0?db=evals",
        "redis://user:secret@host/evals",
        "redis://user:secret@host/0/1",
        "rediss://user:secret@127.0.0.1:1/0?ssl_cert_reqs=some",
    ],
)
def test_a_url_that_is_none_of_redis_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(BadRedisUrl, match="redis://HOST:PORT/0") as caught:
        StateReader(Settings(redis=url))
    assert "secret" not in str(caught.value)
