"""How a worker is put together, its regular work, what it says of itself, and runs in quarantine."""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
import redis
import yaml
from aiokafka import AIOKafkaConsumer
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IllegalStateError
from aiokafka.record.memory_records import MemoryRecords
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import SecretStr

from streamer.client.queries import UnknownRun
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline, QuarantinedRun
from streamer.folding.prices import PriceTable
from streamer.operate.health import read_health
from streamer.operate.local.processes import free_port
from streamer.operate.verify import Verification
from streamer.schemas.base import encode_id
from streamer.schemas.wire import Failure, Quarantine
from streamer.settings import Settings
from streamer.storage.kafka import KafkaConnectionError, Names, administering
from streamer.storage.log import read_topic
from streamer.storage.outbox import EventOutbox, Outgoing, ThreadedPublisher, missing
from streamer.worker import process
from streamer.worker.__main__ import main
from streamer.worker.agents import add_agent
from streamer.worker.metrics import STUCK_SECONDS, Metrics, WorkerMoment, healthy, ready
from streamer.worker.partition import Checkpoint, Partition
from streamer.worker.process import (
    MOST_QUARANTINED_TOLD,
    Housekeeping,
    JsonLines,
    TopicDeleted,
    TopicWatch,
    configure_logging,
    ensure_topics,
    plan,
)
from streamer.worker.transport import Consumer, TopicPartition, Watchdog, session_seconds
from tests.house.repository import ROOT, ran
from tests.support.events import a_trial
from tests.support.eventually import eventually
from tests.support.layers import EMBEDDED_ALONE, KAFKA_ALONE
from tests.support.online import bootstrap_of
from tests.support.packed import CODECS
from tests.support.servers import KafkaServer
from tests.support.worker_process import wait_for
from tests.worker.deployment import KINDS, SICK, WHERE, Deployment, folded, of_run, sick_trial, trial_events
from tests.worker.exported import STATUS
from tests.worker.processor_bench import Bench, an_app


@pytest.fixture
def without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check_protocol", "ensure_topics", "log_name"):
        monkeypatch.setattr(process, name, AsyncMock())
    monkeypatch.setattr(process.gc, "set_threshold", Mock())
    monkeypatch.setattr(process.gc, "freeze", Mock())
    monkeypatch.setattr(process.faulthandler, "enable", Mock())


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read: No such file"), (b"models = 3", ""), (b"\xff", "utf-8")]
)
@pytest.mark.usefixtures("without_servers")
def test_a_price_table_that_cannot_be_used_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, said: str
) -> None:
    file = tmp_path / "prices.toml"
    if content is not None:
        file.write_bytes(content)
    assert process.run_worker(Settings(prices_file=file)) == process.USAGE_ERROR
    assert str(file) in caplog.text
    assert said in caplog.text
    assert "Kafka" not in caplog.text


def test_at_its_end_a_worker_does_not_free_its_state_object_by_object() -> None:
    program = (
        "from streamer.settings import Settings\n"
        "from streamer.worker import process\n"
        "class State:\n"
        "    def __init__(self): self.worker = self\n"
        "    def __del__(self): print('freed')\n"
        "async def run(*_):\n"
        "    State()\n"
        "    return 0\n"
        "process._run = run\n"
        "print('ended with', process.run_worker(Settings()))"
    )
    assert ran(sys.executable, "-c", program).stdout == "ended with 0\n"


@pytest.mark.parametrize("port", [None, 99_999])
@pytest.mark.usefixtures("without_servers")
def test_an_unusable_address_for_probes_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int | None
) -> None:
    monkeypatch.setattr(process, "worker", lambda *_: SimpleNamespace(metrics=Metrics(1)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{port or taken.getsockname()[1]}"
        assert process.run_worker(Settings(metrics_address=address)) == process.USAGE_ERROR
    assert f"cannot answer probes at {address}" in caplog.text
    assert "STREAMER_METRICS_ADDRESS" in caplog.text
    assert "Kafka" not in caplog.text


@pytest.mark.usefixtures("without_servers")
def test_without_a_broker_each_try_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = KafkaConnectionError("Unable to bootstrap from [('b', 1, <AddressFamily.AF_INET: 2>)]")
    monkeypatch.setattr(process, "ensure_topics", AsyncMock(side_effect=error))
    monkeypatch.setattr(process, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(process, "CONNECT_RETRY_SECONDS", 0.1)
    assert process.run_worker(Settings(bootstrap="b:1")) == process.FAILED
    *tries, last = [record.getMessage() for record in caplog.records]
    away = "no Kafka broker answers at b:1. Start one (streamer up, or docker compose up)"
    assert set(tries) == {f"waiting for Kafka: {away}"}
    assert last == f"cannot start with Kafka at b:1: {away}"


@pytest.mark.stack
def test_a_worker_that_ends_in_compiled_code_says_where(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    environment = os.environ | {"STREAMER_BOOTSTRAP": "127.0.0.1:9", "STREAMER_REDIS": "redis://127.0.0.1:9"}
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "streamer.worker"], env=environment, stderr=out)
    try:
        wait_for(lambda: "waiting for Kafka" in log.read_text(), "the first try", 60)
        process.send_signal(signal.SIGSEGV)
        assert process.wait(60) == -signal.SIGSEGV
    finally:
        process.kill()
    assert "Fatal Python error: Segmentation fault" in log.read_text()
    assert "in run_worker" in log.read_text()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("STREAMER_CONFIG", "absent.toml", "no such file"), ("STREAMER_PARTITIONS", "x", "setting partitions")],
)
@pytest.mark.usefixtures("without_servers")
def test_what_cannot_be_used_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert main() == process.USAGE_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("streamer worker: ")
    assert said in line


def test_the_bench_treats_a_batch_as_the_agent_does() -> None:
    calls = [re.findall(r"processor\.(\w+)\(", inspect.getsource(f)) for f in (add_agent, Bench.handle)]
    assert calls[0] == ["together", *calls[1]] == ["together", "whole", "fold", "queue", "publish_due"]


def test_tables_are_written_by_save_alone_since_faust_takes_items_that_cannot_be_awaited() -> None:
    table: Any = Bench().tables.trials
    with pytest.raises(TypeError, match="item assignment"):
        table["key"] = b"value"
    source = "".join(path.read_text("utf-8") for path in (ROOT / "streamer" / "worker").glob("*.py"))
    assert re.findall(r"\b(?:faust|table|trials)\[.*", source) == []


async def test_the_names_of_app_tables_topics_and_agent_stay() -> None:
    names = Names("ns")
    made = process.worker(Settings(namespace="ns"), Watchdog(60))
    app = made.app
    await made.producer.stop()
    await made.sink.close()
    assert app.conf.id == names.group
    changelogs = {name: table.changelog_topic.get_topic_name() for name, table in app.tables.items()}
    assert changelogs == {
        "trials": names.trials_changelog,
        "agent_model_summaries": names.agent_model_summaries,
        "tier_summaries": names.tier_summaries,
        "run_summaries": names.run_summaries,
        "run_comparisons": names.run_comparisons,
    }
    assert [agent.name for agent in app.agents.values()] == ["streamer.fold"]


def test_sasl_and_tls_reach_fausts_consumer() -> None:
    sasl = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "u", "sasl_password": "p"}
    settings = Settings.model_validate({"security_protocol": "SASL_SSL", **sasl})
    credentials = an_app(settings, Names()).conf.broker_credentials
    assert credentials.protocol.value == "SASL_SSL"
    assert credentials.mechanism.value == "SCRAM-SHA-512"
    assert (credentials.username, credentials.password) == ("u", "p")
    assert credentials.ssl_context is not None


def test_variables_of_other_apps_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_URL", "kafka://elsewhere:1")
    app = an_app(Settings(bootstrap="here:9092"), Names())
    assert [str(url) for url in app.conf.broker] == ["kafka://here:9092"]


def test_sessions_are_short_on_the_embedded_broker() -> None:
    assert session_seconds(Settings(embedded=True)) == 3
    assert session_seconds(Settings(embedded=True, session_timeout_seconds=2)) == 2
    assert session_seconds(Settings()) == 10


PLACE = TopicPartition("trial-events", 3)


async def test_a_partition_that_was_revoked_this_moment_has_no_position() -> None:
    without_assignment = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(IllegalStateError):
        await without_assignment.position(PLACE)
    consumer: Any = Consumer.__new__(Consumer)
    consumer._thread = SimpleNamespace(position=without_assignment.position)
    assert await cast(Consumer, consumer).position(PLACE) is None
    await without_assignment.stop()


def test_a_record_on_its_own_does_not_wait_for_others() -> None:
    seconds = [0.0]
    given: Any = SimpleNamespace(_fetched_at=-inf, loop=SimpleNamespace(time=lambda: seconds[0]))

    def busy_after(pause: float, fetched: int) -> bool:
        seconds[0] += pause
        return Consumer._is_busy(given, fetched)

    assert not busy_after(1.0, 1)
    assert not busy_after(0.1, 1), "ten a second"
    assert busy_after(0.005, 1), "two hundred a second"
    assert busy_after(0.1, 20), "which now come together"
    assert not busy_after(0.1, 0)


# -----------------------------------------------------------------------------
# Gauges and probes say how the worker stands, and the alerts name what it exports.


ALERTS = ROOT / "deploy" / "alerts.yml"


def samples(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(text: str, name: str, **labels: str) -> float:
    [result] = [s.value for s in samples(text) if s.name == name and labels.items() <= s.labels.items()]
    return float(result)


def named_in_alerts() -> set[str]:
    """Names of all metrics in the expressions of the rules."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    expressions = " ".join(rule["expr"] for rule in rules)
    return set(re.findall(r"\b(?:streamer|process)_[a-z_]+", expressions))


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    document = yaml.safe_load(ALERTS.read_text("utf-8"))
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_gauges_say_how_the_worker_stands() -> None:
    metrics = Metrics(2)
    metrics.status = WorkerMoment(0.0, STATUS, False, True)
    result = {
        (sample.name, sample.labels.get("partition")): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }
    expected = {
        ("streamer_partition_lag_events", "1"): 7,
        ("streamer_partition_catching_up", "0"): 0,
        ("streamer_partition_catching_up", "1"): 1,
        ("streamer_redis_unsent_keys", None): 3,
        ("streamer_redis_away", None): 1,
        ("streamer_redis_refused_values_total", None): 5,
        ("streamer_redis_outdated_runs", None): 1,
        ("streamer_ready", None): 0,
    }
    assert result | expected == result


def ask(port: int, path: str) -> tuple[int, str]:
    """Status (0: nobody answers) and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.slow
def test_a_live_worker_answers_exports_what_the_alerts_name_and_logs_json(on_embedded: Deployment) -> None:
    port = free_port()
    on_embedded.partitions = 2
    environment = {"STREAMER_METRICS_ADDRESS": f"127.0.0.1:{port}", "STREAMER_LOG_FORMAT": "json"}
    worker = on_embedded.worker(environment=environment).start(ready=False)
    worker.wait_until(lambda: ask(port, "/readyz")[0] == 200, "the worker is ready")
    assert ask(port, "/healthz") == (200, "alive\n")
    assert ask(port, "/else")[0] == 404
    publish(on_embedded.settings)
    exports = partial(ask, port, "/metrics")
    worker.wait_until(lambda: 'effect="duplicates"} 1.0' in exports()[1], "the events are counted")
    worker.wait_until(lambda: value(exports()[1], "streamer_publish_seconds_count") > 0, "a publish")
    worker.wait_until(lambda: value(exports()[1], "streamer_open_runs") == 1, "a look at itself")
    text = exports()[1]
    exported = {sample.name for sample in samples(text)}
    assert named_in_alerts() - exported == set()
    assert value(text, "streamer_events_total", effect="counted") == 2
    assert value(text, "streamer_rejections_total") == 1
    assert value(text, "streamer_partitions") == 2
    lags = [sample for sample in samples(text) if sample.name == "streamer_partition_lag_events"]
    assert {sample.labels["partition"] for sample in lags} == {"0", "1"}
    assert value(text, "streamer_fold_seconds_count") >= 1
    assert value(text, "streamer_recovery_remaining_records") == 0
    assert value(text, "faust_messages_received_total") >= 1
    assert "faust_total_rebalances" in exported
    entries = [json.loads(line) for line in worker.output.splitlines()]
    assert {"at", "level", "logger", "message"} <= set(entries[0])
    assert any("ready: worker" in entry["message"] for entry in entries)


def publish(settings: Settings) -> None:
    """Two results, one of them twice, and one that is none."""
    first, second = (json.dumps(a_trial(task_id=task)).encode() for task in "ab")
    with ThreadedPublisher(settings) as publisher:
        for line in (first, second, first, b"no event"):
            publisher.send(Outgoing(b"run-1", line))
        publisher.flush()


def test_a_worker_that_hangs_is_not_healthy_and_one_that_recovers_is_not_ready() -> None:
    metrics = Metrics(2)
    assert healthy(metrics, 0.0)[0] == "200 OK"
    assert ready(metrics, 0.0)[0].startswith("503")
    metrics.status = WorkerMoment(100.0, STATUS, False, True)
    status, text = ready(metrics, 101.0)
    assert (status[:3], text) == ("503", "not ready: owns partitions [0, 1], catching up on [1]")
    assert healthy(metrics, 100.0 + STUCK_SECONDS)[0] == "200 OK"
    assert healthy(metrics, 101.0 + STUCK_SECONDS)[0].startswith("503")
    metrics.status = WorkerMoment(100.0, STATUS | {"catching_up": []}, True, False)
    assert ready(metrics, 101.0)[0] == "200 OK"
    assert ready(metrics, 101.0 + STUCK_SECONDS)[0].startswith("503")


def test_ready_tells_of_runs_in_quarantine_and_of_waiting_for_the_configuration() -> None:
    metrics = Metrics(2)
    metrics.status = WorkerMoment(0.0, STATUS | {"catching_up": [], "quarantined_runs": 2}, True, False)
    said = "ready, but 2 runs are in quarantine: `streamer status` names them"
    assert ready(metrics, 1.0) == ("200 OK", said)
    waits = STATUS | {"partitions": [], "waits": "waits: other prices"}
    metrics.status = WorkerMoment(0.0, waits, False, False)
    assert ready(metrics, 1.0) == ("503 Service Unavailable", "not ready: waits: other prices")
    gauges = {family.name: family.samples for family in metrics.collect()}
    assert [sample.value for sample in gauges["streamer_waits_for_configuration"]] == [1]


# -----------------------------------------------------------------------------
# What clients and workers write is packed, and brokers give it back as it was.


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("engine", [*EMBEDDED_ALONE, *KAFKA_ALONE])
def test_a_broker_gives_back_what_any_codec_packed(
    request: pytest.FixtureRequest, codec: str, engine: str, namespace: str
) -> None:
    settings = Settings(
        bootstrap=bootstrap_of(request, engine),
        namespace=namespace,
        compression=codec,
        embedded=engine == "embedded",
    )
    events = trial_events(300, runs=1)
    asyncio.run(publish_all(settings, events))
    result = read_topic(settings, Names(settings.namespace).trial_events)
    assert [record.value for record in result] == events


async def publish_all(settings: Settings, events: list[bytes]) -> None:
    await ensure_topics(settings)
    async with EventOutbox(settings) as outbox:
        assert not missing(await outbox.publish([Outgoing(b"run 0", event) for event in events]))


@pytest.mark.slow
def test_all_that_a_worker_writes_is_packed(on_own_kafka: Deployment, own_kafka: KafkaServer) -> None:
    worker = on_own_kafka.begun(trial_events(600))
    on_own_kafka.send([0], [b"no event"])
    worker.wait_until(lambda: on_own_kafka.records("trial-rejections"), "the rejection is published")
    worker.kill()
    own_kafka.stop()
    directory, names = own_kafka.directory / "data", on_own_kafka.names
    written = {topic: codecs(directory, names.topic(topic)) for topic in WRITTEN}
    assert written == {topic: {CODECS["zstd"]} for topic in WRITTEN}


WRITTEN = ("trials-changelog", *KINDS, "scored-trials", "trial-rejections")


def codecs(directory: Path, topic: str) -> set[int]:
    """Codecs of a topic's record batches, as they lie on disk."""
    result = set()
    for segment in directory.glob(f"{topic}-[0-9]*/*.log"):
        batches = MemoryRecords(segment.read_bytes())
        while (batch := batches.next_batch()) is not None:
            result.add(batch.compression_type)
    return result


# -----------------------------------------------------------------------------
# The regular work of a worker: what its heartbeat says, when it is sent, and what a failure ends.


class Given:
    """Housekeeping beside a processor with one partition; its watch of the topics fails on demand."""

    def __init__(self) -> None:
        self.bench, self.metrics, self.repairs = Bench(), Mock(status=None), Mock(outcomes={})
        self.sink = Mock(unsent=3, away=False, held_up=False, settled=True, refusals=5, outdated=("r",))
        self.sink.heartbeat = AsyncMock()
        self.fails = False
        app: Any = Mock(is_settled=False, unrecovered=0)
        collaborators: Any = {
            "processor": self.bench.processor,
            "sink": self.sink,
            "fencing": None,
            "repairs": self.repairs,
            "configuration": Mock(made_with="0123"),
            "identity": Mock(problem="another log"),
            "worker_id": "w",
            "metrics": self.metrics,
            "topics": Mock(finite=None, watch=self._watch),
            "checkpoints": None,
        }
        self.housekeeping = Housekeeping(app, "trial-events", **collaborators)

    async def _watch(self) -> None:
        while not self.fails:
            await asyncio.sleep(0)
        raise ZeroDivisionError

    @property
    def told(self) -> list[dict[str, Any]]:
        """The heartbeats."""
        return [call.args[1] for call in self.sink.heartbeat.await_args_list]


@pytest.fixture
def given() -> Given:
    return Given()


def quarantined(*runs: str) -> Partition:
    """A partition with these runs in quarantine, which has lost events and was moved."""
    lost = Checkpoint(lost=((0, 5),))
    partition = Partition(1, 1, Pipeline(), position=7, catch_up_to=9, checkpoint=lost, moved=True)
    partition.quarantined_events = 2
    for run in runs:
        partition.registry.fail(Failure(run, f"{run} is sick"))
        partition.registry.quarantine(run, QuarantinedRun(Quarantine(f"{run} is sick", 3)))
    return partition


async def test_the_heartbeat_says_how_the_partitions_stand(given: Given) -> None:
    await given.bench.handle(given.bench.batch(0, 40))
    status = given.housekeeping.status()
    assert (status["partitions"], status["catching_up"], status["waits"]) == ([0], [], None)
    assert (status["folded_to"], status["lag"]) == ({"0": 40}, {"0": 0})
    assert (status["open_runs"], status["closed_runs"]) == (len(given.bench.partition.run_ids()), 0)
    assert (status["unsent"], status["held_up"]) == (3, False)
    assert (status["made_with"], status["quarantined"]) == ("0123", {})
    assert (status["refused"], status["outdated"]) == (5, ("r",))


async def test_a_partition_is_published_once_no_run_waits_or_rests_and_redis_is_settled(given: Given) -> None:
    await given.bench.handle(given.bench.batch(0, 40))
    partition = given.bench.partition
    assert given.housekeeping.status()["published_to"] == {"0": 40}
    partition.publish_queue.add(["run 0"])
    assert given.housekeeping.status()["published_to"] == {}, "a run rests"
    partition.publish_queue.drain()
    given.sink.settled = False
    assert given.housekeeping.status()["published_to"] == {}, "Redis lacks something"


def test_runs_in_quarantine_are_named_up_to_a_limit_and_all_are_counted(given: Given) -> None:
    runs = [f"run {number:03}" for number in range(MOST_QUARANTINED_TOLD + 7)]
    partition = given.bench.processor.partitions[1] = quarantined(*runs)
    status = given.housekeeping.status()
    assert status["quarantined_runs"] == len(runs)
    assert status["quarantined"] == {run: f"{run} is sick" for run in runs[:MOST_QUARANTINED_TOLD]}
    assert (status["held_events"], status["log_faults"]) == (2, ["another log", *partition.log_faults])
    assert len(partition.log_faults) == 2
    assert (status["events_lost"], status["offsets_moved"], status["catching_up"]) == (5, [1], [1])


async def test_a_worker_that_waits_says_why(given: Given) -> None:
    await given.housekeeping.tell_of_waiting("waits for the configuration")
    assert [status["waits"] for status in given.told] == ["waits for the configuration"]
    assert given.metrics.status.heartbeat["waits"] == "waits for the configuration"


@asynccontextmanager
async def at_work(given: Given) -> AsyncIterator[None]:
    """Housekeeping that ticks; at its end the worker has crashed, and nothing goes on after that."""
    running = asyncio.ensure_future(given.housekeeping.run())
    yield
    await eventually(lambda: bool(given.bench.app.crashes), "the worker ends")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_news_are_told_at_once_all_else_in_turn(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TICKS_PER_HEARTBEAT", 1_000_000)
    monkeypatch.setattr(process, "HOUSEKEEPING_TICK_SECONDS", 0.0)
    async with at_work(given):
        await eventually(lambda: bool(given.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        await eventually(lambda: given.told[-1]["quarantined_runs"] == 1, "the news")
        given.fails = True
    assert [status["quarantined_runs"] for status in given.told].count(1) == 1


async def test_ready_partitions_are_told_at_once(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HOUSEKEEPING_TICK_SECONDS", 1_000_000.0)
    async with at_work(given):
        await eventually(lambda: bool(given.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        given.housekeeping.hurry()
        await eventually(lambda: given.told[-1]["partitions"] == [0, 1], "the partitions")
        given.fails = True


async def test_a_failure_beside_the_processor_ends_the_worker(given: Given) -> None:
    given.fails = True
    async with at_work(given):
        pass
    assert [type(error) for error in given.bench.app.crashes] == [ZeroDivisionError]
    given.repairs.stop.assert_called()


SECRET = "s3cr3t"


@contextmanager
def logging_as(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log writes meanwhile; the logging of the test run is put back afterwards."""
    root, names = logging.getLogger(), ("streamer", "mode.timers", "faust", "mode", "aiokafka")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    root.handlers.clear()
    stream = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        configure_logging(settings)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)


def test_each_entry_is_one_json_object_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("streamer.test")
    with logging_as(Settings(log_format="json"), monkeypatch) as out:
        log.info("several\nlines, %s and \x1b[31m", "\u2028 separators")
        log.warning("half a character: %s", "\ud800")
        log.debug("not at this level")
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("it failed")
    lines = out.getvalue().split("\n")
    assert (len(lines), lines[3]) == (4, "")
    first, second, third = map(json.loads, lines[:3])
    assert (first["level"], first["logger"]) == ("INFO", "streamer.test")
    assert first["message"] == "several\nlines, \u2028 separators and \x1b[31m"
    assert first["at"].endswith("+00:00")
    assert "\\ud800" in second["message"]
    assert third["exception"].endswith("ValueError: why")


def test_text_stays_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with logging_as(Settings(), monkeypatch) as out:
        logging.getLogger("streamer.test").warning("plain")
    assert out.getvalue().endswith("WARNING streamer.test: plain\n")


def test_settings_in_an_entry_print_no_secret() -> None:
    secret = SecretStr(SECRET)
    settings = Settings(redis=f"redis://u:{SECRET}@h/0", sasl_username="u", sasl_password=secret)
    record = logging.LogRecord("a", logging.INFO, "f", 1, "with %s and %r", (settings, settings), None)
    assert SECRET not in JsonLines().format(record)


# -----------------------------------------------------------------------------
# What goes wrong with one run stays with that run: real workers, a real broker, a real Redis.


@pytest.mark.parametrize("place", WHERE)
@pytest.mark.in_turn(4)
def test_a_run_that_fails_is_set_apart_and_all_others_go_on(on_both: Deployment, place: str) -> None:
    worker, before = on_both.fall_sick(place)
    assert on_both.in_quarantine() == {SICK: "Poisoned: cannot be divided"}
    good = folded(before)
    topics = on_both.in_topics()
    in_topics = {topic: {key: topics[topic][key] for key in digests} for topic, digests in good.items()}
    assert in_topics == on_both.in_redis(good) == good, "the last good summaries stand"
    second = on_both.poisoned(place).start()
    second.wait_until(lambda: len(on_both.owners()) == 2, "both have partitions")
    on_both.publish([sick_trial("later"), *trial_events(660)[600:]])
    second.wait_until(on_both.others_are_current, "all other runs go on after a rebalance")
    worker.kill()
    on_both.publish([sick_trial("still later"), *trial_events(720)[660:]])
    second.wait_until(on_both.others_are_current, "and after the other worker was killed")
    second.wait_until(lambda: SICK in on_both.in_quarantine(), "who has the run holds it back")
    assert on_both.in_redis(good) == good
    assert on_both.degraded(SICK)


def test_a_run_that_was_never_published_gets_the_summaries_of_when_it_was_well(on_both: Deployment) -> None:
    asyncio.run(ensure_topics(on_both.settings))
    on_both.publish([*trial_events(300), sick_trial(), sick_trial("later")])
    worker = on_both.poisoned("score").start()
    worker.wait_until(lambda: on_both.degraded(SICK), "it has summaries, which say so")
    good = folded(of_run(SICK, trial_events(300)))
    worker.wait_until(lambda: on_both.in_redis(good) == good, "those of all that came before")
    worker.wait_until(on_both.others_are_current, "all other runs are current")


def test_a_run_in_quarantine_can_be_deleted(on_embedded: Deployment) -> None:
    worker, _ = on_embedded.fall_sick("score")
    assert on_embedded.cli("delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: on_embedded.summaries_of(SICK) == [], "its summaries are gone from the topics")
    mine = encode_id(SICK)
    scored = lambda: [key for key in on_embedded.latest("scored-trials") if key.startswith(f"{mine}|")]  # noqa: E731
    worker.wait_until(lambda: scored() == [], "and its scored trials")
    with StateReader(on_embedded.settings) as reader, pytest.raises(UnknownRun):
        reader.run(SICK)
    assert on_embedded.in_quarantine() == {}
    assert on_embedded.outcomes() == {"equal"}


def test_a_run_that_failed_at_its_first_event_can_be_deleted(on_embedded: Deployment) -> None:
    worker = on_embedded.poisoned("score").start()
    on_embedded.publish([sick_trial()])
    worker.wait_until(lambda: SICK in on_embedded.in_quarantine(), "it is set apart")
    assert on_embedded.cli("delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: on_embedded.in_quarantine() == {}, "it is forgotten")


def test_a_page_that_cannot_be_loaded_sets_its_run_apart(on_embedded: Deployment) -> None:
    worker = on_embedded.begun([sick_trial(), *trial_events(300)])
    worker.kill()
    second = on_embedded.poisoned("load").start()
    second.wait_until(lambda: SICK in on_embedded.in_quarantine(), "it is set apart")
    on_embedded.publish(trial_events(330)[300:])
    on_embedded.wait_until_apart(second)
    second.kill()
    third = on_embedded.worker().start()
    third.wait_until(lambda: SICK in on_embedded.in_quarantine(), "it stays apart until somebody repairs it")
    assert on_embedded.cli("runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(third)


def test_a_run_in_quarantine_lists_no_trials_in_flight_until_it_is_repaired(on_embedded: Deployment) -> None:
    worker = on_embedded.poisoned("score").start()
    start = {"type": "trial_started", "run_id": SICK, "task_id": "slow", "agent": "a", "model": "m"}
    on_embedded.publish([*of_run(SICK, trial_events(60)), orjson.dumps(start)])
    key = on_embedded.keys.in_flight(SICK)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        worker.wait_until(lambda: client.hkeys(key) == [b"|slow|1|a|m||"], "the trial is in flight")
        on_embedded.publish([sick_trial()])
        worker.wait_until(lambda: on_embedded.degraded(SICK), "the run is in quarantine")
        worker.wait_until(lambda: not client.exists(key), "the list is gone")
        worker.kill()
        healthy = on_embedded.worker().start()
        assert on_embedded.cli("runs", "repair", SICK).returncode == 0
        healthy.wait_until(lambda: client.hkeys(key) == [b"|slow|1|a|m||"], "the trial is in flight again")


def test_an_emptied_redis_gets_a_sick_runs_bytes_back_and_the_repaired_ones(on_embedded: Deployment) -> None:
    poisoned_worker, _ = on_embedded.fall_sick("score")
    poisoned_worker.kill()
    worker = on_embedded.worker().start()
    on_embedded.empty_redis()
    worker.wait_until(lambda: on_embedded.same_bytes(SICK), "Redis has what the topics hold")
    assert on_embedded.degraded(SICK)
    with StateReader(on_embedded.settings) as reader:
        assert reader.run(SICK).degraded == "Poisoned: cannot be divided"
    assert on_embedded.cli("runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(worker)
    assert on_embedded.same_bytes(SICK)
    on_embedded.empty_redis()
    worker.wait_until(lambda: on_embedded.same_bytes(SICK), "Redis has what the topics hold")
    assert not any(orjson.loads(value)["degraded"] for value in on_embedded.values_of(SICK)[1].values())
    assert on_embedded.outcomes() == {"equal"}


@pytest.mark.parametrize("place", ["score", "cut"])
@pytest.mark.in_turn(4)
def test_everything_tells_of_a_run_in_quarantine(on_embedded: Deployment, place: str) -> None:
    """An event is rejected, with its bytes, where the run fails at one event."""
    on_embedded.fall_sick(place)
    assert on_embedded.same_bytes(SICK)
    rejections = on_embedded.rejections()
    assert len(rejections) == (place == "score")
    for rejection in rejections:
        assert (rejection["code"], rejection["run_id"]) == ("quarantined", SICK)
        assert base64.b64decode(rejection["source_value_base64"]) == sick_trial()
        assert "streamer runs repair" in rejection["message"]
    said = on_embedded.cli("query", "run", SICK, "--json").stderr.decode()
    assert "in quarantine (Poisoned: cannot be divided)" in said
    problems = read_health(on_embedded.settings).problems
    assert any(SICK in problem and "streamer runs repair" in problem for problem in problems)
    for topics in (False, True):
        options: Any = {"prices": PriceTable.default(), "wait_seconds": 9, "topics": topics}
        verdicts = Verification(on_embedded.settings, **options).verify(None)
        assert {verdict.outcome for verdict in verdicts if verdict.run_id != SICK} == {"equal"}
        [sick] = [verdict for verdict in verdicts if verdict.run_id == SICK]
        assert sick.outcome == "unverifiable"
        assert "in quarantine (Poisoned: cannot be divided)" in (sick.reason or "")


SETTINGS = Settings(partitions=3)
COUNTS = {topic.name: topic.partitions for topic in plan(SETTINGS)}


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    """What the broker says of the topics, check by check."""
    counts = AsyncMock()
    retention = {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete"}
    monkeypatch.setattr(process, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(process, "read_partition_counts", counts)
    monkeypatch.setattr(process, "read_retention", AsyncMock(return_value=retention))
    return counts


async def test_a_topic_that_is_gone_ends_the_worker_and_is_named(counts: AsyncMock) -> None:
    missing = next(iter(COUNTS))
    counts.side_effect = [COUNTS, {name: count for name, count in COUNTS.items() if name != missing}]
    with pytest.raises(TopicDeleted, match=rf"topics {missing} were deleted"):
        await TopicWatch(SETTINGS).watch()


async def test_a_broker_that_is_away_is_waited_for(counts: AsyncMock) -> None:
    counts.side_effect = [KafkaConnectionError("away"), OSError(), COUNTS, asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await TopicWatch(SETTINGS).watch()


async def test_a_finite_retention_is_said_once(counts: AsyncMock, caplog: pytest.LogCaptureFixture) -> None:
    counts.side_effect = [COUNTS, COUNTS, asyncio.CancelledError()]
    watch = TopicWatch(SETTINGS)
    with pytest.raises(asyncio.CancelledError):
        await watch.watch()
    assert watch.finite
    assert [record.getMessage() for record in caplog.records] == [watch.finite]


async def test_the_embedded_broker_has_no_other_administrator(counts: AsyncMock) -> None:
    await TopicWatch(Settings(embedded=True)).watch()
    counts.assert_not_called()


async def test_another_partition_count_says_what_to_do(embedded_broker: str, namespace: str) -> None:
    settings = Settings(bootstrap=embedded_broker, namespace=namespace, partitions=3, embedded=True)
    await ensure_topics(settings)
    said = "have 3 partitions; the settings say 5.*STREAMER_PARTITIONS=3"
    with pytest.raises(process.TopicMismatch, match=said):
        await ensure_topics(settings.model_copy(update={"partitions": 5}))


async def test_events_are_kept_for_ever_and_tables_compacted(kafka_bootstrap: str, namespace: str) -> None:
    settings = Settings(bootstrap=kafka_bootstrap, namespace=namespace, partitions=2)
    await ensure_topics(settings)
    result = {}
    async with administering(settings) as admin:
        for topic in plan(settings):
            [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name)])
            result[topic.name] = {row[0]: row[1] for row in answer.resources[0][4]}
            assert topic.config.items() <= result[topic.name].items()
    assert result[f"{namespace}.trial-events"]["retention.ms"] == "-1"
    assert result[f"{namespace}.trials-changelog"]["cleanup.policy"] == "compact"
