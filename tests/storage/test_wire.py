"""What goes over the wire to brokers, as far as the proxy reads it, and to Redis, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from redis import Redis

from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.operate.local.processes import (
    MAX_FRAME_BYTES,
    NEWEST,
    OLDEST,
    PRODUCE,
    Produce,
    ProduceResult,
    ProtocolError,
    Request,
    only_offered_versions,
    read_answers,
    read_frame,
)
from streamer.storage import redis as module
from streamer.storage.entries import BEAT_SCRIPT, cancellable
from streamer.storage.redis import ConnectionError, Listener, RedisSink
from tests.storage.owner import KEYS, MakeSink, Owner, converged, holds
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.eventually import eventually
from tests.support.owning import Owning, reconcile
from tests.support.servers import RedisServer, pause

TOPICS = [("events", [(0, b"batch"), (3, None)]), ("other", [(1, b"")])]


def a_request(version: int) -> Produce:
    return Produce(Request(PRODUCE, version, 5), "client", None, -1, TOPICS)


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_a_produce_request_and_its_answer_read_back_in_every_version(version: int) -> None:
    request = a_request(version)
    read = Produce.of(request.only(TOPICS))
    assert (read.head, read.client_id, read.acks) == (request.head, "client", -1)
    assert [(topic, list(records)) for topic, records in read.topics] == TOPICS
    answers = [("events", [ProduceResult(0, 0, 7), ProduceResult(3, 2)])]
    response = request.response(answers)
    assert response[:4] == struct.pack(">i", 5)
    assert read_answers(response, version) == answers


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00",
        struct.pack(">hhi", PRODUCE, NEWEST + 1, 5),
        struct.pack(">hhi", PRODUCE, OLDEST - 1, 5),
        a_request(NEWEST).only(TOPICS)[:-4],
    ],
)
def test_what_is_no_produce_request_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        Produce.of(frame)


@pytest.mark.parametrize(
    ("size", "allowed"), [(0, False), (-1, False), (MAX_FRAME_BYTES + 1, False), (4, True)]
)
async def test_a_frame_is_read_unless_its_length_is_impossible(size: int, allowed: bool) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(struct.pack(">i", size) + b"data")
    if allowed:
        assert await read_frame(reader) == b"data"
        return
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes"):
        await read_frame(reader)


def test_clients_are_offered_only_the_versions_that_the_proxy_reads() -> None:
    ranges = [(PRODUCE, 0, 11), (3, 0, 12)]
    old = struct.pack(">ihi", 1, 0, len(ranges)) + b"".join(struct.pack(">hhh", *one) for one in ranges)
    offered = only_offered_versions(old, 0)
    assert struct.unpack_from(">hhhhhh", offered, 10) == (PRODUCE, OLDEST, NEWEST, 3, 0, 12)
    flexible = struct.pack(">ihB", 1, 0, len(ranges) + 1)
    flexible += b"".join(struct.pack(">hhhB", *one, 0) for one in ranges)
    assert struct.unpack_from(">hhh", only_offered_versions(flexible, 3), 7) == (PRODUCE, OLDEST, NEWEST)
    refused = struct.pack(">ihi", 1, 35, 0)
    assert only_offered_versions(refused, 0) == refused


LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def owner(make_sink: MakeSink) -> Owner:
    return Owner(make_sink)


async def test_heartbeats_of_workers_killed_long_ago_are_forgotten(sink: RedisSink, client: Redis) -> None:
    now = datetime.now(UTC)
    for worker, hours in [("dead", 25), ("stale", 23)]:
        client.hset(KEYS.workers, worker, json.dumps({"at": (now - timedelta(hours=hours)).isoformat()}))
    await sink.heartbeat("alive", {}, at=now)
    assert client.hkeys(KEYS.workers) == ["stale", "alive"]


@pytest.mark.parametrize("status", [{}, {"lag": 3}, {"partitions": [], "waits": 'a "}\n€'}])
async def test_a_heartbeat_is_what_the_worker_says_and_the_time_of_redis(
    sink: RedisSink, client: Redis, status: dict[str, Any]
) -> None:
    before = client.time()
    await sink.heartbeat("w", status, at=LONG_AGO)
    written = json.loads(client.hget(KEYS.workers, "w"))
    at = datetime.fromisoformat(written.pop("at"))
    assert before <= divmod(round(at.timestamp() * 1_000_000), 1_000_000) <= client.time()
    assert written == status


@pytest.mark.parametrize(
    "day", ["1970-01-01", "2024-02-29", "2024-12-31", "2026-03-01", "2100-02-28", "2100-03-01", "2400-02-29"]
)
def test_dates_of_heartbeats_are_those_of_the_calendar(client: Redis, day: str) -> None:
    at = datetime.fromisoformat(f"{day}T23:59:58.000007+00:00")
    time = f"{{ '{int(at.timestamp())}', '7' }}"
    script = BEAT_SCRIPT.replace("redis.pcall('TIME')", time)
    assert time in script
    assert client.eval(script, 1, "key", "w", "{}", "") == [1, at.isoformat()]


async def test_a_heartbeat_in_an_emptied_redis_stands_the_next_time(sink: RedisSink, client: Redis) -> None:
    await sink.heartbeat("w", {}, at=LONG_AGO)
    client.flushall()
    for standing in ([], ["w"]):
        await sink.heartbeat("w", {}, at=LONG_AGO)
        assert client.hkeys(KEYS.workers) == standing


async def test_unsent_is_bounded_and_what_was_dropped_comes_by_the_reconcile(
    make_sink: MakeSink, redis_server: RedisServer, client: Redis
) -> None:
    owner = Owner(make_sink, runs=5, max_unsent=4)
    redis_server.kill()
    await owner.step()
    assert 0 < owner.sink.unsent <= 4
    redis_server.start()
    await converged(client, owner)


async def test_reconcile_silently_sends_what_is_missing_or_wrong(owner: Owner, client: Redis) -> None:
    await owner.step()
    await owner.step()
    told = client.xlen(KEYS.history("run 0"))
    client.delete(KEYS.run("run 0"), KEYS.runs, KEYS.benchmark_board("b", "mean_cost"))
    client.hdel(KEYS.versions("run 1"), "tier:T0")
    client.set(KEYS.tier("run 2", "T0"), "garbage")
    client.zadd(KEYS.benchmark_board("b", "mean_cost"), {"run 0|stale:one": 1.0})
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        await owner.sink.reconcile(owner.run_ids())
        assert holds(client, owner)
        assert listener.get_message(timeout=0.05) is None
    assert client.xlen(KEYS.history("run 0")) == told


async def test_reconcile_removes_groups_that_emptied_meanwhile(make_sink: MakeSink, client: Redis) -> None:
    gone = an_agent_model_change(agent="gone"), a_tier_change(tier="T9")
    await make_sink().write([an_update(*gone, an_agent_model_change(), a_run_change())])
    owner = Owning([an_agent_model_change(version=2), a_run_change(version=2)])
    await reconcile(make_sink(owner=owner), owner)
    assert client.smembers(KEYS.agent_models("r1")) == {"claude:opus"}
    assert not client.exists(KEYS.tier("r1", "T9"), KEYS.tiers("r1"))
    assert client.zrange(KEYS.board("r1", "accuracy"), 0, -1) == ["claude:opus"]


async def test_a_reconcile_that_fails_in_our_own_code_is_told_and_tried_again(
    make_sink: MakeSink, redis_server: RedisServer, client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([KeyError("a bug"), None])

    class Buggy(Owning):
        def run_ids(self) -> list[str]:
            if error := next(answers):
                raise error
            return super().run_ids()

    sink = make_sink(owner=Buggy([a_run_change("remembered"), a_run_change()]))
    await sink.write([an_update(a_run_change())])
    redis_server.restart_empty()
    await sink.write([an_update(a_run_change(version=1))])
    await eventually(lambda: client.exists(KEYS.run("remembered")) == 1, "the second reconcile")
    assert "Could not reconcile" in caplog.text


async def test_an_expired_run_is_not_sent_again(make_sink: MakeSink, client: Redis) -> None:
    old, young = "2026-01-02T02:04:04Z", "2026-01-02T02:04:05Z"
    runs = [a_run_change(run, last_event_at=at) for run, at in [("a", old), ("b", young), ("c", None)]]
    owner = Owning(runs)
    await reconcile(make_sink(owner=owner, expire_seconds=3600, clock=lambda: 1767323045.0), owner)
    assert set(client.zrange(KEYS.runs, 0, -1)) == {"b", "c"}


@contextmanager
def paused(server: RedisServer) -> Iterator[None]:
    pause(server.child.pid)
    try:
        yield
    finally:
        server.child.signal(signal.SIGCONT)


TROUBLES = {
    "read-only": ("REPLICAOF 127.0.0.1 1", "REPLICAOF no one"),
    "out of memory": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
}
"""Commands that begin and end each."""


@contextmanager
def refusing_writes(client: Any, trouble: str = "out of memory") -> Iterator[None]:
    begin, end = TROUBLES[trouble]
    client.execute_command(begin)
    try:
        yield
    finally:
        client.execute_command(end)


async def test_a_late_redis_gets_everything(owner: Owner, redis_server: RedisServer, client: Redis) -> None:
    redis_server.stop()
    await owner.step()
    await owner.sink.reconcile(owner.run_ids())
    assert owner.sink.unsent == 9
    redis_server.start()
    await converged(client, owner)


async def test_a_sink_is_settled_or_held_up(owner: Owner, redis_server: RedisServer, client: Redis) -> None:
    await owner.step()
    assert (owner.sink.settled, owner.sink.held_up) == (True, False)
    with paused(redis_server):
        writing = asyncio.create_task(owner.step())
        await asyncio.sleep(0.1)
        assert (owner.sink.unsent > 0, owner.sink.held_up, owner.sink.settled) == (True, False, False)
    await writing
    assert owner.sink.settled
    redis_server.kill()
    await owner.step()
    assert (owner.sink.settled, owner.sink.held_up) == (False, True)
    redis_server.start()
    await converged(client, owner)
    await eventually(lambda: owner.sink.settled, "everything is there")
    await owner.sink.heartbeat("w1", {}, at=LONG_AGO)
    client.flushall()
    await owner.sink.heartbeat("w1", {}, at=LONG_AGO)
    assert not owner.sink.settled, "everything is being sent again"
    await converged(client, owner)


async def test_an_unseen_restart_is_noticed(owner: Owner, redis_server: RedisServer, client: Redis) -> None:
    await owner.step()
    redis_server.restart_empty()
    owner.runs, all_runs = owner.runs[:1], owner.runs
    owner.version = -1  # the same again: only the reconnect tells that the other runs are missing
    await owner.step()
    owner.runs = all_runs
    await converged(client, owner)


async def test_a_hung_redis_holds_up_one_write_for_one_timeout(
    make_sink: MakeSink, redis_server: RedisServer, client: Redis
) -> None:
    owner = Owner(make_sink, timeout_seconds=0.3)
    await owner.step()
    with paused(redis_server):
        async with asyncio.timeout(5):
            await owner.step()
        assert owner.sink.away
        async with asyncio.timeout(0.2):
            await owner.step()
    await converged(client, owner)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_redis_that_refuses_writes_counts_as_away(owner: Owner, client: Redis, trouble: str) -> None:
    await owner.step()
    with refusing_writes(client, trouble):
        await owner.step()
        assert owner.sink.away
        owner.runs.append("run 3")
        await owner.step()
        assert owner.sink.unsent == 12
    await converged(client, owner)


@pytest.mark.parametrize("with_runs", [True, False])
async def test_a_full_redis_is_told_once_and_said_to_take_writes_only_once_it_does(
    make_sink: MakeSink, client: Redis, caplog: pytest.LogCaptureFixture, with_runs: bool
) -> None:
    owner = Owner(make_sink, runs=3 if with_runs else 0)

    async def beat(times: int) -> list[str]:
        for _ in range(times):
            await owner.sink.heartbeat("w", {}, at=datetime.now(UTC))
            await asyncio.sleep(0.05)
        return [record.message for record in caplog.records if "writ" in record.message]

    await owner.step()
    assert await beat(2) == []
    with refusing_writes(client):
        told = await beat(40)
        assert [("accepts no writes" in line) for line in told] == [True]
    await eventually(lambda: owner.sink.settled, "Redis takes writes")
    assert [line.partition(" is ")[2] for line in (await beat(2))[1:]] == ["writable again"]


async def test_a_run_too_large_for_redis_keeps_back_no_others(sink: RedisSink, client: Redis) -> None:
    tiers = [a_tier_change("large", f"T{number}") for number in range(600)]
    too_large = a_run_change("large", display_name="x" * 2**21)
    limit = client.config_get("proto-max-bulk-len")["proto-max-bulk-len"]
    client.config_set("proto-max-bulk-len", 2**20)
    try:
        await sink.write([an_update(*tiers, too_large), an_update(a_run_change("small"))])
        assert sink.away
        assert sink.unsent == 601
        assert client.hget(KEYS.versions("small"), "run") == "1:0"
        await sink.write([an_update(a_run_change("small", version=1))])
        await eventually(lambda: client.hget(KEYS.versions("small"), "run") == "1:1", "the small run goes on")
        assert not client.exists(KEYS.versions("large"))
    finally:
        client.config_set("proto-max-bulk-len", limit)
    await eventually(lambda: sink.settled, "Redis has the large run")
    assert client.hlen(KEYS.versions("large")) >= 601


async def test_a_foreign_key_in_one_run_keeps_back_no_others(owner: Owner, client: Redis) -> None:
    client.set(KEYS.tiers("run 1"), "not ours")
    await owner.step()
    assert (owner.sink.away, owner.sink.held_up) == (False, True)
    assert owner.sink.unsent == 3
    await owner.step()
    assert client.hget(KEYS.versions("run 2"), "run") == "1:1"
    client.delete(KEYS.tiers("run 1"))
    await converged(client, owner)


def of_two_agents(run: str = "r") -> list[SummaryChange]:
    agents = [an_agent_model_change(run, agent=agent, mean_cost=1.0) for agent in ("a", "b")]
    return [*agents, a_run_change(run, benchmark="b")]


@pytest.mark.parametrize(
    "key", [KEYS.versions("r"), KEYS.agent_models("r"), KEYS.runs, KEYS.benchmark_board("b", "mean_cost")]
)
@pytest.mark.parametrize("with_news", [False, True])
async def test_a_whole_run_that_a_foreign_key_kept_out_is_sent_whole_again(
    make_sink: MakeSink, client: Redis, key: str, with_news: bool
) -> None:
    owner = Owning(of_two_agents())
    sink = make_sink(owner=owner)
    await sink.write([an_update(*of_two_agents())])
    client.flushdb()
    client.set(key, "not ours")
    await reconcile(sink, owner)
    if with_news:
        news = [
            an_agent_model_change("r", agent="a", version=1, mean_cost=1.0),
            a_run_change("r", version=1, benchmark="b"),
        ]
        owner.put(*news)
        await sink.write([an_update(*news)])
    assert not sink.settled
    client.delete(key)
    await eventually(lambda: sink.settled, "Redis has the run")
    assert client.zrange(KEYS.runs, 0, -1) == ["r"]
    assert client.smembers(KEYS.agent_models("r")) == {"a:opus", "b:opus"}
    assert client.zrange(KEYS.benchmark_board("b", "mean_cost"), 0, -1) == ["r|a:opus", "r|b:opus"]


async def test_what_another_worker_got_in_an_outage_is_forgotten(make_sink: MakeSink, client: Redis) -> None:
    own, foreign = of_two_agents("own"), of_two_agents("foreign")
    owner = Owning([*own, *foreign])
    sink = make_sink(owner=owner)
    await reconcile(sink, owner)
    with refusing_writes(client):
        await reconcile(sink, owner)
        assert sink.away
        sink.serve(Owning(own))
    await eventually(lambda: sink.settled, "nothing of the other run waits")


async def test_a_run_that_cannot_be_read_keeps_back_no_others_and_is_tried_again(
    make_sink: MakeSink, client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Owning):
        fails = True

        def current(self, run_id: str) -> RunUpdate:
            if self.fails and run_id == "r1":
                raise RuntimeError("unreadable")
            return super().current(run_id)

    owner = Failing([change for run in ("r0", "r1", "r2") for change in of_two_agents(run)])
    sink = make_sink(owner=owner)
    await reconcile(sink, owner)
    assert client.zrange(KEYS.runs, 0, -1) == ["r0", "r2"]
    assert not sink.settled
    assert "unreadable" in caplog.text
    owner.fails = False
    await eventually(lambda: sink.settled, "Redis has all runs")
    assert client.zrange(KEYS.runs, 0, -1) == ["r0", "r1", "r2"]


async def test_late_changes_of_a_former_owner_leave_the_boards(make_sink: MakeSink, client: Redis) -> None:
    def changes(version: int) -> list[SummaryChange]:
        agent_model = an_agent_model_change("r", version=version, mean_cost=float(version))
        return [agent_model, a_run_change("r", version=version, benchmark="b")]

    before, after = make_sink(owner=Owning(changes(1))), make_sink(owner=Owning(changes(3)))
    await before.write([an_update(*changes(1))])
    await after.write([an_update(*changes(3))])
    before.serve(Owning())
    await before.write([an_update(*changes(2))])
    await eventually(lambda: before.settled, "the first worker is done")
    board = client.zrange(KEYS.benchmark_board("b", "mean_cost"), 0, -1, withscores=True)
    assert board == [("r|claude:opus", 3.0)]


async def test_a_run_whose_move_to_another_benchmark_got_no_reply_leaves_the_old_boards(
    make_sink: MakeSink, redis_server: RedisServer, client: Redis
) -> None:
    owner = Owning(of_two_agents())
    sink = make_sink(owner=owner, timeout_seconds=0.2)
    await sink.write([an_update(*of_two_agents())])
    moved = [a_run_change("r", version=1, benchmark="other")]
    owner.put(*moved)
    with paused(redis_server):
        await sink.write([an_update(*moved)])
        assert sink.away
    await eventually(lambda: sink.settled, "Redis has the move")
    assert not client.exists(KEYS.benchmark_board("b", "mean_cost"))
    assert client.zcard(KEYS.benchmark_board("other", "mean_cost")) == 2


async def test_closing_while_redis_is_away_says_how_much_is_missing(
    sink: RedisSink, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.kill()
    with caplog.at_level(logging.WARNING):
        await sink.write([an_update(a_run_change())])
        await sink.close()
    assert "Redis still lacks 1 keys" in caplog.text


async def test_closing_sends_the_rest_and_removes_the_heartbeat(sink: RedisSink, client: Redis) -> None:
    await sink.write([an_update(a_run_change())])
    await sink.heartbeat("w1", {}, at=LONG_AGO)
    await sink.close()
    assert not client.exists(KEYS.workers)


# -----------------------------------------------------------------------------
# A cancellation is never lost, and a subscription that is dead is noticed, whatever redis-py does.


TURNS = range(12)
"""Of the event loop before the cancellation: it arrives in every state that the work has."""


async def command() -> None:
    """What redis-py does to send one."""
    await asyncio.wait_for(asyncio.sleep(0), 5)


async def failing_command() -> None:
    await command()
    raise ConnectionError("lost")


async def commands_for_ever(*, failing: bool) -> None:
    while True:
        try:
            await cancellable(failing_command() if failing else command())
        except ConnectionError:
            assert failing
        await asyncio.sleep(0)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("turns", TURNS)
async def test_a_loop_that_sends_commands_can_be_cancelled_at_any_turn(turns: int, failing: bool) -> None:
    task = asyncio.create_task(commands_for_ever(failing=failing))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    ended = task.cancelled()
    task.cancel()
    assert ended


async def test_what_the_work_returns_and_raises_comes_through() -> None:
    assert await cancellable(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ConnectionError, match="lost"):
        await cancellable(failing_command())


async def test_an_earlier_cancellation_that_was_caught_does_not_end_later_work() -> None:
    async def tidies_up() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await cancellable(asyncio.sleep(0, "tidy"))
        return "never cancelled"

    task = asyncio.create_task(tidies_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "tidy"


class Line:
    """A subscription that says these; None: nothing for as long as one waits."""

    def __init__(self, *said: dict[str, Any] | None) -> None:
        self.said = deque(said)
        self.pings = 0

    async def get_message(self, timeout: float) -> dict[str, Any] | None:
        return self.said.popleft() if self.said else None

    async def ping(self) -> None:
        self.pings += 1


def a_message(number: int) -> dict[str, Any]:
    return {"type": "message", "data": orjson.dumps({"number": number})}


PONG = {"type": "pong", "data": b""}


def listener(line: Line) -> Listener:
    return Listener(line, 0.1)  # type: ignore[arg-type]


async def test_all_that_has_come_is_told_at_once_and_other_messages_are_left_out() -> None:
    line = Line(a_message(1), {"type": "subscribe", "data": 1}, a_message(2), None, a_message(3))
    heard = listener(line)
    assert await heard.next_messages(1) == [{"number": 1}, {"number": 2}]
    assert await heard.next_messages(1) == [{"number": 3}]
    assert line.pings == 0


async def test_a_silent_line_that_answers_a_ping_is_alive() -> None:
    line = Line(None, PONG)
    assert await listener(line).next_messages(1) == []
    assert line.pings == 1


async def test_a_silent_line_that_answers_no_ping_is_dead() -> None:
    with pytest.raises(ConnectionError, match="no answer to a ping"):
        await listener(Line(None, None)).next_messages(1)


async def test_so_many_are_told_at_once_and_the_rest_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 2)
    heard = listener(Line(*map(a_message, range(3))))
    assert [len(await heard.next_messages(1)) for _ in range(2)] == [2, 1]
