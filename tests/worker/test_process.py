"""Compression is between us and the broker: readers see the same bytes, whatever the codec."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis
from aiokafka.record.memory_records import MemoryRecords
from pydantic import SecretStr

from streamer.client.queries import UnknownRun
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline, QuarantinedRun
from streamer.folding.prices import PriceTable
from streamer.operate.health import read_health
from streamer.operate.verify import Verification
from streamer.schemas.base import encode_id
from streamer.schemas.wire import Failure, Quarantine
from streamer.settings import Settings
from streamer.storage.kafka import KafkaConnectionError, Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import EventOutbox, Outgoing, missing
from streamer.worker import process as module
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
from tests.support.eventually import eventually
from tests.support.layers import EMBEDDED_ALONE, KAFKA_ALONE
from tests.support.online import bootstrap_of
from tests.support.packed import CODECS
from tests.support.servers import KafkaServer
from tests.worker.deployment import Deployment, folded, trial_events
from tests.worker.processor_bench import Bench
from tests.worker.sick_run import (
    EVERYWHERE,
    SICK,
    degraded,
    fall_sick,
    in_quarantine,
    of_run,
    others_are_current,
    owners,
    poisoned,
    run_cli,
    same_bytes,
    sick_trial,
    summaries_of,
    values,
    wait_until_apart,
)


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
    asyncio.run(publish(settings, events))
    result = read_topic(settings, Names(settings.namespace).trial_events)
    assert [record.value for record in result] == events


async def publish(settings: Settings, events: list[bytes]) -> None:
    """Publish as a client does."""
    await ensure_topics(settings)
    async with EventOutbox(settings) as outbox:
        assert not missing(await outbox.publish([Outgoing(b"run 0", event) for event in events]))


@pytest.mark.kafka
@pytest.mark.slow
def test_all_that_a_worker_writes_is_packed_and_reads_as_what_a_fold_says(
    on_own_kafka: Deployment, own_kafka: KafkaServer
) -> None:
    worker = on_own_kafka.begun(trial_events(600))
    on_own_kafka.send([0], [b"no event"])
    worker.wait_until(lambda: on_own_kafka.records("trial-rejections"), "the rejection is published")
    worker.kill()
    own_kafka.stop()
    directory, names = own_kafka.directory / "data", on_own_kafka.names
    written = {topic: codecs(directory, names.topic(topic)) for topic in WRITTEN}
    assert written == {topic: {CODECS["zstd"]} for topic in WRITTEN}


WRITTEN = (
    "trials-changelog",
    "agent-model-summaries",
    "tier-summaries",
    "run-summaries",
    "scored-trials",
    "trial-rejections",
)


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


class Sink:
    """Takes heartbeats."""

    unsent, away, held_up, settled, refusals, outdated = 3, False, False, True, 5, ("r",)

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    async def heartbeat(self, worker_id: str, status: dict[str, Any], *, at: datetime) -> None:
        self.told.append(status)


class Given:
    """Housekeeping beside a processor with one partition; its watch of the topics fails on demand."""

    def __init__(self) -> None:
        self.bench, self.sink = Bench(), Sink()
        self.stopped = self.fails = False
        app = SimpleNamespace(is_settled=False, unrecovered=0)
        collaborators: Any = {
            "processor": self.bench.processor,
            "sink": self.sink,
            "fencing": None,
            "repairs": SimpleNamespace(outcomes={}, stop=self._stop),
            "configuration": SimpleNamespace(made_with="0123"),
            "identity": SimpleNamespace(problem="another log"),
            "worker_id": "w",
            "metrics": SimpleNamespace(status=None),
            "topics": SimpleNamespace(finite=None, watch=self._watch),
            "checkpoints": None,
        }
        self.metrics = collaborators["metrics"]
        self.housekeeping = Housekeeping(app, "trial-events", **collaborators)  # type: ignore[arg-type]

    def _stop(self) -> None:
        self.stopped = True

    async def _watch(self) -> None:
        while not self.fails:
            await asyncio.sleep(0)
        raise ZeroDivisionError


def quarantined(*runs: str) -> Partition:
    """A partition with these runs in quarantine, which has lost events and was moved."""
    lost = Checkpoint(lost=((0, 5),))
    partition = Partition(1, 1, Pipeline(), position=7, catch_up_to=9, checkpoint=lost, moved=True)
    partition.quarantined_events = 2
    for run in runs:
        partition.registry.fail(Failure(run, f"{run} is sick"))
        partition.registry.quarantine(run, QuarantinedRun(Quarantine(f"{run} is sick", 3)))
    return partition


async def test_the_heartbeat_says_how_the_partitions_stand() -> None:
    given = Given()
    await given.bench.handle(given.bench.batch(0, 40))
    status = given.housekeeping.status()
    assert (status["partitions"], status["catching_up"], status["waits"]) == ([0], [], None)
    assert (status["folded_to"], status["lag"]) == ({"0": 40}, {"0": 0})
    assert (status["open_runs"], status["closed_runs"]) == (len(given.bench.partition.run_ids()), 0)
    assert (status["unsent"], status["held_up"]) == (3, False)
    assert (status["made_with"], status["quarantined"]) == ("0123", {})
    assert (status["refused"], status["outdated"]) == (5, ("r",))


async def test_a_partition_counts_as_published_once_no_run_waits_or_rests_and_redis_has_everything() -> None:
    given = Given()
    await given.bench.handle(given.bench.batch(0, 40))
    partition = given.bench.partition
    assert given.housekeeping.status()["published_to"] == {"0": 40}
    partition.publish_queue.add(["run 0"])
    assert given.housekeeping.status()["published_to"] == {}, "a run rests"
    partition.publish_queue.drain()
    given.sink.settled = False
    assert given.housekeeping.status()["published_to"] == {}, "Redis lacks something"


def test_runs_in_quarantine_are_named_up_to_a_limit_and_all_are_counted() -> None:
    given = Given()
    runs = [f"run {number:03}" for number in range(MOST_QUARANTINED_TOLD + 7)]
    partition = given.bench.processor.partitions[1] = quarantined(*runs)
    status = given.housekeeping.status()
    assert status["quarantined_runs"] == len(runs)
    assert status["quarantined"] == {run: f"{run} is sick" for run in runs[:MOST_QUARANTINED_TOLD]}
    assert (status["held_events"], status["log_faults"]) == (2, ["another log", *partition.log_faults])
    assert len(partition.log_faults) == 2
    assert (status["events_lost"], status["offsets_moved"], status["catching_up"]) == (5, [1], [1])


async def test_a_worker_that_waits_says_why() -> None:
    given = Given()
    await given.housekeeping.tell_of_waiting("waits for the configuration")
    assert [status["waits"] for status in given.sink.told] == ["waits for the configuration"]
    assert given.metrics.status.heartbeat["waits"] == "waits for the configuration"


@asynccontextmanager
async def at_work(given: Given) -> AsyncIterator[None]:
    """Housekeeping that ticks; at its end the worker has crashed, and nothing goes on after that."""
    running = asyncio.ensure_future(given.housekeeping.run())
    yield
    await eventually(lambda: bool(given.bench.app.crashes), "the worker ends")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_news_are_told_at_once_and_all_else_every_few_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICKS_PER_HEARTBEAT", 1_000_000)
    monkeypatch.setattr(module, "HOUSEKEEPING_TICK_SECONDS", 0.0)
    given = Given()
    async with at_work(given):
        await eventually(lambda: bool(given.sink.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        await eventually(lambda: given.sink.told[-1]["quarantined_runs"] == 1, "the news")
        given.fails = True
    assert [status["quarantined_runs"] for status in given.sink.told].count(1) == 1


async def test_partitions_that_are_ready_are_told_without_waiting_for_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOUSEKEEPING_TICK_SECONDS", 1_000_000.0)
    given = Given()
    async with at_work(given):
        await eventually(lambda: bool(given.sink.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        given.housekeeping.hurry()
        await eventually(lambda: given.sink.told[-1]["partitions"] == [0, 1], "the partitions")
        given.fails = True


async def test_a_failure_beside_the_processor_ends_the_worker() -> None:
    given = Given()
    given.fails = True
    async with at_work(given):
        pass
    assert [type(error) for error in given.bench.app.crashes] == [ZeroDivisionError]
    assert given.stopped


# -----------------------------------------------------------------------------
# A worker's log as JSON: one object per line, whatever is in it, and no secret.


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
    settings = Settings(
        redis=f"redis://u:{SECRET}@h/0", sasl_username="u", sasl_password=SecretStr(SECRET), log_format="json"
    )
    record = logging.LogRecord("a", logging.INFO, "f", 1, "with %s and %r", (settings, settings), None)
    assert SECRET not in JsonLines().format(record)


# -----------------------------------------------------------------------------
# What goes wrong with one run stays with that run: real workers, a real broker, a real Redis.


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.in_turn(4)
def test_a_run_that_fails_is_set_apart_and_all_others_go_on(on_both: Deployment, place: str) -> None:
    worker, before = fall_sick(on_both, place)
    assert in_quarantine(on_both) == {SICK: "Poisoned: cannot be divided"}
    good = folded(before)
    topics = on_both.in_topics()
    in_topics = {topic: {key: topics[topic][key] for key in digests} for topic, digests in good.items()}
    assert in_topics == on_both.in_redis(good) == good, "the last good summaries stand"
    second = poisoned(on_both, place).start()
    second.wait_until(lambda: len(owners(on_both)) == 2, "both have partitions")
    on_both.publish([sick_trial("later"), *trial_events(660)[600:]])
    second.wait_until(lambda: others_are_current(on_both), "all other runs go on after a rebalance")
    worker.kill()
    on_both.publish([sick_trial("still later"), *trial_events(720)[660:]])
    second.wait_until(lambda: others_are_current(on_both), "and after the other worker was killed")
    second.wait_until(lambda: SICK in in_quarantine(on_both), "who has the run holds it back")
    assert on_both.in_redis(good) == good
    assert degraded(on_both, SICK)


def test_a_run_that_was_never_published_gets_the_summaries_of_when_it_was_well(on_both: Deployment) -> None:
    asyncio.run(ensure_topics(on_both.settings))
    on_both.publish([*trial_events(300), sick_trial(), sick_trial("later")])
    worker = poisoned(on_both, "score").start()
    worker.wait_until(lambda: degraded(on_both, SICK), "it has summaries, which say so")
    good = folded(of_run(SICK, trial_events(300)))
    worker.wait_until(lambda: on_both.in_redis(good) == good, "those of all that came before")
    worker.wait_until(lambda: others_are_current(on_both), "all other runs are current")


def test_a_run_in_quarantine_can_be_deleted(on_embedded: Deployment) -> None:
    worker, _ = fall_sick(on_embedded, "score")
    assert run_cli(on_embedded, "delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: summaries_of(on_embedded, SICK) == [], "its summaries are gone from the topics")
    mine = encode_id(SICK)
    scored = lambda: [key for key in on_embedded.latest("scored-trials") if key.startswith(f"{mine}|")]  # noqa: E731
    worker.wait_until(lambda: scored() == [], "and its scored trials")
    with StateReader(on_embedded.settings) as reader, pytest.raises(UnknownRun):
        reader.run(SICK)
    assert in_quarantine(on_embedded) == {}
    assert on_embedded.outcomes() == {"equal"}


def test_a_run_that_failed_at_its_first_event_can_be_deleted(on_embedded: Deployment) -> None:
    worker = poisoned(on_embedded, "score").start()
    on_embedded.publish([sick_trial()])
    worker.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    assert run_cli(on_embedded, "delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: in_quarantine(on_embedded) == {}, "it is forgotten")


def test_a_page_that_cannot_be_loaded_sets_its_run_apart(on_embedded: Deployment) -> None:
    worker = on_embedded.begun([sick_trial(), *trial_events(300)])
    worker.kill()
    second = poisoned(on_embedded, "load").start()
    second.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    on_embedded.publish(trial_events(330)[300:])
    wait_until_apart(on_embedded, second)
    second.kill()
    third = on_embedded.worker().start()
    third.wait_until(lambda: SICK in in_quarantine(on_embedded), "it stays apart until somebody repairs it")
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(third)


def test_a_run_in_quarantine_lists_no_trials_in_flight_until_it_is_repaired(on_embedded: Deployment) -> None:
    worker = poisoned(on_embedded, "score").start()
    start = {"type": "trial_started", "run_id": SICK, "task_id": "slow", "agent": "a", "model": "m"}
    on_embedded.publish([*of_run(SICK, trial_events(60)), orjson.dumps(start)])
    key = on_embedded.keys.in_flight(SICK)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        worker.wait_until(lambda: client.hkeys(key) == [b"|slow|1|a|m||"], "the trial is in flight")
        on_embedded.publish([sick_trial()])
        worker.wait_until(lambda: degraded(on_embedded, SICK), "the run is in quarantine")
        worker.wait_until(lambda: not client.exists(key), "the list is gone")
        worker.kill()
        healthy = on_embedded.worker().start()
        assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
        healthy.wait_until(lambda: client.hkeys(key) == [b"|slow|1|a|m||"], "the trial is in flight again")


def test_an_emptied_redis_gets_the_bytes_of_the_topics_back_in_quarantine_and_after_the_repair(
    on_embedded: Deployment,
) -> None:
    poisoned_worker, _ = fall_sick(on_embedded, "score")
    poisoned_worker.kill()
    worker = on_embedded.worker().start()
    on_embedded.empty_redis()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert degraded(on_embedded, SICK)
    with StateReader(on_embedded.settings) as reader:
        assert reader.run(SICK).degraded == "Poisoned: cannot be divided"
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(worker)
    assert same_bytes(on_embedded, SICK)
    on_embedded.empty_redis()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert not any(orjson.loads(value)["degraded"] for value in values(on_embedded, SICK)[1].values())
    assert on_embedded.outcomes() == {"equal"}


@pytest.mark.parametrize("place", ["score", "cut"])
@pytest.mark.in_turn(4)
def test_everything_tells_of_a_run_in_quarantine(on_embedded: Deployment, place: str) -> None:
    """An event is rejected, with its bytes, where the run fails at one event."""
    fall_sick(on_embedded, place)
    assert same_bytes(on_embedded, SICK)
    rejections = on_embedded.rejections()
    assert len(rejections) == (place == "score")
    for rejection in rejections:
        assert (rejection["code"], rejection["run_id"]) == ("quarantined", SICK)
        assert base64.b64decode(rejection["source_value_base64"]) == sick_trial()
        assert "streamer runs repair" in rejection["message"]
    said = run_cli(on_embedded, "query", "run", SICK, "--json").stderr.decode()
    assert "in quarantine (Poisoned: cannot be divided)" in said
    problems = read_health(on_embedded.settings).problems
    assert any(SICK in problem and "streamer runs repair" in problem for problem in problems)
    for topics in (False, True):
        verification = Verification(
            on_embedded.settings, prices=PriceTable.default(), wait_seconds=9, topics=topics
        )
        verdicts = verification.verify(None)
        assert {verdict.outcome for verdict in verdicts if verdict.run_id != SICK} == {"equal"}
        [sick] = [verdict for verdict in verdicts if verdict.run_id == SICK]
        assert sick.outcome == "unverifiable"
        assert "in quarantine (Poisoned: cannot be divided)" in (sick.reason or "")


# -----------------------------------------------------------------------------
# The topics of a running worker: what was deleted ends it, and a finite retention is told.


SETTINGS = Settings(partitions=3)
COUNTS = {topic.name: topic.partitions for topic in plan(SETTINGS)}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the broker says of the topics, check by check; then the watch is cancelled."""
    answers: list[Any] = []

    async def read_counts(_: Settings) -> dict[str, int]:
        if not answers:
            raise asyncio.CancelledError
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    async def read_retention(_: Settings) -> dict[str, str]:
        return {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete"}

    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(module, "read_partition_counts", read_counts)
    monkeypatch.setattr(module, "read_retention", read_retention)
    return answers


async def test_a_topic_that_is_gone_ends_the_worker_and_is_named(answers: list[Any]) -> None:
    missing = next(iter(COUNTS))
    answers += [COUNTS, {name: count for name, count in COUNTS.items() if name != missing}]
    with pytest.raises(TopicDeleted, match=rf"topics {missing} were deleted"):
        await TopicWatch(SETTINGS).watch()


async def test_a_broker_that_is_away_is_waited_for(answers: list[Any]) -> None:
    answers += [KafkaConnectionError("away"), OSError(), COUNTS]
    with pytest.raises(asyncio.CancelledError):
        await TopicWatch(SETTINGS).watch()
    assert answers == []


async def test_a_finite_retention_is_said_once(answers: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    answers += [COUNTS, COUNTS]
    watch = TopicWatch(SETTINGS)
    with pytest.raises(asyncio.CancelledError):
        await watch.watch()
    assert watch.finite
    assert [record.getMessage() for record in caplog.records] == [watch.finite]


async def test_the_embedded_broker_has_no_other_administrator(answers: list[Any]) -> None:
    answers += [{}]
    await TopicWatch(Settings(embedded=True)).watch()
    assert answers == [{}]
