"""Readers of Redis: the one word for a run's state, each question, and following what changes."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
import redis

from streamer.client import AsyncStateReader, NotReached, StateReader, finished
from streamer.client.queries import PageOfRuns, Queries, RedisUnavailable
from streamer.operate.health import live_workers
from streamer.operate.local.processes import free_port
from streamer.schemas import summaries
from streamer.schemas.base import digest_of
from streamer.schemas.summaries import state_of
from streamer.settings import Settings
from streamer.storage.redis import BadRedisUrl, RedisSink, async_client, sync_client
from tests.client.following import DEADLINE_SECONDS, KEYS, Worker, following, write
from tests.house.repository import ROOT
from tests.storage.test_redis_stack import ClusterNode
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.eventually import eventually
from tests.support.servers import RedisServer, pause

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
JUST_NOW = (NOW - summaries.SILENT_AFTER).isoformat()
LONG_AGO = (NOW - summaries.SILENT_AFTER - timedelta(seconds=1)).isoformat()
AHEAD = (NOW + timedelta(hours=3)).isoformat()


def a_run(
    done: int = 3, planned: int | None = 12, *, plan_complete: bool = True, **fields: Any
) -> summaries.RunSummary:
    given = {"last_event_at": JUST_NOW} | fields
    progress = {"done": done, "planned": planned, "plan_complete": plan_complete}
    summary = a_run_change(progress=progress, **given).summary
    return summaries.RunSummary.model_validate(summary)


@pytest.mark.parametrize(
    ("run", "state", "at_no_moment"),
    [
        (a_run(10_080, 10_080), "complete", "complete"),
        (a_run(10_080, 10_080, last_event_at=LONG_AGO), "complete", "complete"),
        (a_run(10_080, 10_080, status="completed"), "complete", "complete"),
        (a_run(13, 12), "complete", "complete"),
        (a_run(12, last_event_at=None), "complete", "complete"),
        (a_run(status="completed"), "finished", "finished"),
        (a_run(status="aborted", last_event_at=LONG_AGO), "finished", "finished"),
        (a_run(planned=None, status="completed"), "finished", "finished"),
        (a_run(), "running", "running"),
        (a_run(done=0), "running", "running"),
        (a_run(planned=None), "running", "running"),
        (a_run(last_event_at=AHEAD), "running", "running"),
        (a_run(last_event_at=LONG_AGO), "stalled", "running"),
        (a_run(done=0, last_event_at=LONG_AGO), "stalled", "running"),
        (a_run(last_event_at=None), "stalled", "running"),
        (a_run(planned=None, last_event_at=LONG_AGO), "unfinished", "running"),
        (a_run(planned=None, last_event_at=None), "unfinished", "running"),
        (a_run(planned=None, plan_complete=False), "running", "running"),
        (a_run(planned=None, plan_complete=False, last_event_at=LONG_AGO), "unfinished", "running"),
        (a_run(done=0, planned=0), "running", "running"),
        (a_run(done=0, planned=0, status="completed"), "finished", "finished"),
        (a_run(done=0, planned=0, last_event_at=LONG_AGO), "unfinished", "running"),
    ],
)
def test_the_state_of_a_run_which_is_not_silent_at_a_moment_that_is_not_known(
    run: summaries.RunSummary, state: summaries.State, at_no_moment: summaries.State
) -> None:
    assert state_of(run, NOW) == state_of(run.model_dump(mode="json"), NOW) == state
    assert state_of(run, None) == at_no_moment


@pytest.mark.parametrize("status", [None, "completed"])
@pytest.mark.parametrize("planned", [None, 0, 2, 3])
@pytest.mark.parametrize("last_event_at", [None, JUST_NOW, LONG_AGO])
def test_a_run_is_waited_for_until_it_is_finished_or_complete(
    status: str | None, planned: int | None, last_event_at: str | None
) -> None:
    run = a_run(2, planned, status=status, last_event_at=last_event_at)
    over = state_of(run, NOW) in ("finished", "complete")
    assert summaries.is_over(run) == finished(run) == over


def test_a_plan_that_is_incomplete_is_not_called_no_plan_in_model_and_json_also_of_older_summaries() -> None:
    runs = a_run(planned=None, plan_complete=False), a_run(planned=None), a_run()
    words = ["plan not complete yet", "no plan known", ""]
    assert [summaries.plan_words(run) for run in runs] == words
    assert [summaries.plan_words(run.model_dump(mode="json")) for run in runs] == words
    assert summaries.plan_words({"progress": {"done": 1, "planned": None}}) == "no plan known"


def test_readers_add_the_state_beside_what_the_harness_calls_it_and_the_digest_still_fits() -> None:
    result = summaries.with_state(a_run(12), NOW)
    assert (result["state"], result["digest"]) == ("complete", digest_of(result))
    assert summaries.state_and_status("complete", "completed") == "complete"
    assert summaries.state_and_status("complete", "error") == "complete (error)"
    assert summaries.state_and_status("running", None) == "running"


def test_the_guide_for_viewers_has_the_table_with_every_word_and_the_time() -> None:
    guide = (ROOT / "docs" / "viewer.md").read_text("utf-8")
    section = guide.partition("## The state of a run")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == get_args(summaries.State)
    assert f"{summaries.SILENT_AFTER.seconds // 60} minutes" in section


async def a_benchmark_of_three_runs(sink: RedisSink) -> None:
    await write(
        sink,
        a_run_change("r1", benchmark="tb", labels={"team": "x", "gpu": "no"}),
        an_agent_model_change("r1", "a", mean_cost=3.0, accuracy=0.5, grade="B"),
        an_agent_model_change("r1", "nop", mean_cost=0.0, accuracy=1.0),
        an_agent_model_change("r1", "early", mean_cost=1.0, accuracy=1.0, provisional=True),
        a_run_change("r2", benchmark="tb", labels={"team": "y"}),
        an_agent_model_change("r2", "a", mean_cost=1.0, accuracy=0.5),
        an_agent_model_change("r2", "b", mean_cost=2.0, accuracy=0.75),
        an_agent_model_change("r2", "unpriced", accuracy=0.25),
        a_run_change("r3", labels={"team": "x"}),
        an_agent_model_change("r3", "a", mean_cost=0.5, accuracy=0.9, cost_of_pass="Infinity"),
    )


async def test_a_board_is_best_first_and_can_be_narrowed_to_a_run_a_benchmark_labels_and_a_length(
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
    for narrowed, runs in (
        ({"run": "r1"}, ["r1", "r1"]),
        ({"labels": {"team": "x"}}, ["r3", "r1", "r1"]),
        ({"labels": {"team": "x", "gpu": "no"}}, ["r1", "r1"]),
        ({"benchmark": "tb", "labels": {"team": "x"}}, ["r1", "r1"]),
        ({"benchmark": "tb", "limit": 2}, ["r2", "r1"]),
        ({"labels": {"team": "z"}}, []),
        ({"run": "r3", "benchmark": "tb"}, []),
    ):
        result = plain.leaderboard("accuracy", **narrowed)
        assert [row.run for row in result] == runs, narrowed
    [row] = plain.leaderboard("cost_of_pass")
    assert row.value == float("inf")
    with redis.Redis.from_url(redis_server.url) as client:  # stale places
        client.zadd(KEYS.benchmark_board("tb", "accuracy"), {"r2|b:opus": 0.0, "gone|a:b": 1.0})
    assert plain.leaderboard("accuracy", benchmark="tb", limit=1) == best[:1]


async def test_history_has_each_emission_oldest_first(sink: RedisSink, plain: StateReader) -> None:
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


def test_it_has_every_question_of_the_plain_reader() -> None:
    def arguments(kind: type) -> dict[str, list[str]]:
        public = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters) for name, value in public.items()}

    asked = arguments(AsyncStateReader)
    assert asked.pop("updates")
    assert asked == arguments(StateReader)
    for name in asked.keys() & vars(Queries).keys():
        for kind in (AsyncStateReader, StateReader):
            assert inspect.unwrap(vars(kind)[name]) is vars(Queries)[name], name


async def test_a_redis_that_is_not_there_is_told_at_once() -> None:
    async with AsyncStateReader(Settings(redis=f"redis://127.0.0.1:{free_port()}/0")) as reader:
        with pytest.raises(RedisUnavailable):
            await reader.runs()
        with pytest.raises(RedisUnavailable):
            await anext(reader.updates())
        with pytest.raises(RedisUnavailable):
            await reader.wait_for("r", timeout_seconds=5)


async def test_a_restarted_redis_does_not_fail_the_next_question(
    reader: AsyncStateReader, redis_server: RedisServer
) -> None:
    assert await reader.runs() == []
    redis_server.restart_empty()
    assert await reader.runs() == []


@pytest.mark.stack
async def test_a_cluster_is_read_and_followed_too(tmp_path: Path) -> None:
    with ClusterNode(tmp_path) as node:
        settings = Settings(redis=f"{node.url}?cluster=true", namespace="team")
        worker = Worker(settings)
        async with AsyncStateReader(settings) as reader, following(reader) as follower:
            await worker.write(a_run_change("r1", version=1), a_tier_change("r1", version=1))
            await worker.write(a_run_change("r2", version=1))
            await follower.until(r1_run=1, r1_tier=1, r2_run=1)
            assert {run.run_id for run in await reader.runs()} == {"r1", "r2"}
            assert len(await reader.tiers("r1")) == 1
        await worker.sink.close()


async def test_updates_begin_with_what_stands_go_on_with_each_change_and_a_deleted_run_takes_all_along(
    reader: AsyncStateReader, worker: Worker
) -> None:
    await worker.write(a_run_change(version=1), an_agent_model_change(version=1), a_tier_change(version=1))
    async with following(reader) as follower, following(reader, "r2") as of_one_run:
        await follower.until(r1_run=1, r1_agent_model=1, r1_tier=1)
        await worker.write(a_run_change(version=2), a_run_change("r2", version=7))
        await follower.until(r1_run=2, r2_run=7)
        await worker.write(a_tier_change(version=3, deleted=True))
        await follower.until(r1_tier=None)
        [agent] = [update for update in follower.told if update.kind == "agent_model"]
        assert (agent.run_id, agent.group) == ("r1", "claude:opus")
        assert agent.key == KEYS.agent_model("r1", "claude", "opus")
        await worker.write(a_run_change(version=4, deleted=True), a_run_change("r2", version=8))
        await follower.until(r1_run=None, r1_agent_model=None)
        await of_one_run.until(r2_run=8)
        assert {update.run_id for update in of_one_run.told} == {"r2"}


async def test_updates_from_now_leave_out_what_stands(reader: AsyncStateReader, worker: Worker) -> None:
    await worker.write(a_run_change("old", version=1), a_run_change("r1", version=1))
    async with following(reader, from_now=True) as follower:
        version = 1
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not follower.told:  # until it has looked around, changes are part of what stands
                version += 1
                await worker.write(a_run_change("r1", version=version))
                await asyncio.sleep(0.05)
        assert {update.run_id for update in follower.told} == {"r1"}


async def test_a_message_of_something_older_tells_nothing_and_a_value_under_an_equal_version_is_told(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change(version=5, trials=1))
    async with following(reader) as follower:
        await follower.until(r1_run=5)
        stale = a_run_change(version=4)
        message = {"run": "r1", "kind": "run", "group": "", "key": KEYS.run("r1"), "deleted": False}
        with redis.Redis.from_url(redis_server.url) as client:
            client.set(KEYS.run("r1"), stale.value or b"")
            client.publish(KEYS.updates, orjson.dumps(message | {"epoch": 1, "state_version": 4}))
        await worker.write(a_run_change("r2", version=1))
        await follower.until(r2_run=1)
        await worker.write(a_run_change(version=5, trials=2))
        await worker.write(a_run_change("r2", version=2))
        await follower.until(r2_run=2)
        told = [update.summary for update in follower.told if update.run_id == "r1"]
        assert [one and (one.state_version, one.trials) for one in told] == [(5, 1), (5, 2)]


async def test_what_changed_while_the_connection_was_lost_is_told_after_it(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change("r1", version=1), a_tier_change("r1", version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r1_tier=1)
        with redis.Redis.from_url(redis_server.url) as client:
            client.client_kill_filter(_type="pubsub", skipme=True)
        await worker.write(a_run_change("r1", version=2), a_tier_change("r1", version=2, deleted=True))
        await worker.write(a_run_change("r2", version=3))
        await follower.until(r1_run=2, r1_tier=None, r2_run=3)


async def test_a_redis_that_lost_everything_deletes_nothing_and_later_changes_are_told(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change("r1", version=1), a_run_change("r2", version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r2_run=1)
        redis_server.kill()
        await worker.write(a_run_change("r1", version=2))  # kept by the sink
        redis_server.start()
        await follower.until(r1_run=2)
        await worker.write(a_run_change("r2", version=3))
        await follower.until(r2_run=3)
        assert all(update.summary for update in follower.told)
        versions = [u.summary.state_version for u in follower.told if u.summary and u.run_id == "r1"]
        assert versions == sorted(versions)


async def test_what_is_written_silently_is_told_too(reader: AsyncStateReader, worker: Worker) -> None:
    """Workers that fill an emptied Redis publish nothing: everything is looked at now and then."""
    async with following(reader) as follower:
        await worker.write(a_run_change("loud", version=1))
        await follower.until(loud_run=1)
        worker.owned.put(a_run_change("silent", version=4))
        await worker.sink.reconcile(["silent"])
        await follower.until(silent_run=4)


@pytest.mark.stack
async def test_a_redis_that_hangs_is_noticed_and_followed_again_when_it_goes_on(
    hung_redis: RedisServer,
) -> None:
    settings = Settings(redis=hung_redis.url, namespace="team")
    worker = Worker(settings)
    async with AsyncStateReader(settings, timeout_seconds=0.3) as reader, following(reader) as follower:
        await worker.write(a_run_change(version=1))
        await follower.until(r1_run=1)
        pause(hung_redis.child.pid)
        with pytest.raises(RedisUnavailable):
            await reader.runs()
        hung_redis.child.signal(signal.SIGCONT)
        await worker.write(a_run_change(version=2))
        await follower.until(r1_run=2)
    await worker.sink.close()


async def test_waiting_ends_when_the_run_is_finished_or_a_condition_holds(
    reader: AsyncStateReader, worker: Worker
) -> None:
    finished = asyncio.create_task(reader.wait_for("r1", timeout_seconds=DEADLINE_SECONDS))
    enough = asyncio.create_task(
        reader.wait_for("r1", lambda run: run.trials >= 3, timeout_seconds=DEADLINE_SECONDS)
    )
    part = {"done": 1, "planned": 2}
    for number in range(1, 5):
        await worker.write(a_run_change(version=number, trials=number, progress=part))
    assert (await enough).trials >= 3
    assert not finished.done()
    await worker.write(a_run_change(version=5, progress=part, status="done"))
    assert (await finished).status == "done"
    await worker.write(a_run_change("r2", version=1, progress={"done": 2, "planned": 2}))
    assert (await reader.wait_for("r2", timeout_seconds=DEADLINE_SECONDS)).run_id == "r2"


async def test_waiting_in_vain_says_where_the_run_is(reader: AsyncStateReader, worker: Worker) -> None:
    with pytest.raises(NotReached, match=r"'r1' did not get there within 0\.2 s: there is no such run yet"):
        await reader.wait_for("r1", timeout_seconds=0.2)
    reading = {"planned": None, "plan_complete": False}
    for version, progress, said in (
        (1, {"planned": 2_000}, "1 of 2,000 slots filled, stalled"),
        (2, reading, r"1 of \? slots filled, plan not complete yet, unfinished"),
    ):
        await worker.write(a_run_change(version=version, progress={"done": 1} | progress))
        with pytest.raises(NotReached, match=said) as caught:
            await reader.wait_for("r1", timeout_seconds=1)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.last is not None


async def test_plain_code_can_wait_too(plain: StateReader, worker: Worker) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(plain.wait_for, "r1", timeout_seconds=DEADLINE_SECONDS))
    await worker.write(a_run_change(version=2, status="done"))
    assert (await waiting).status == "done"
    with pytest.raises(NotReached, match="no such run"):
        plain.wait_for("r2", timeout_seconds=0.1)
