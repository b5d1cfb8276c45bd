"""Where a partition's log, changelog and scored trials stand when a worker takes it over."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
import redis

from streamer.folding.fold import Pipeline
from streamer.folding.prices import PriceTable
from streamer.folding.score import made_with
from streamer.folding.slots import SummaryChange
from streamer.operate.health import read_health
from streamer.operate.local.broker import Broker
from streamer.schemas.base import RUN, GroupId, encode_id
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import meta_records, read_topic
from streamer.storage.redis import RedisSink
from streamer.worker import recovery
from streamer.worker.partition import Checkpoint, Partition, checkpoint_key, lacks_pages
from streamer.worker.process import ensure_topics
from streamer.worker.recovery import LogIdentity, LogPositions, OtherLog, Repairs, read_positions
from streamer.worker.tables import log_name
from tests.support.events import a_retraction, a_trial, records
from tests.support.formulacode_trials import FASTER, the_agent
from tests.support.layers import ENGINES
from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.deployment import KINDS, Deployment, folded, trial_events
from tests.worker.record_volume import NAMESPACE, RUNS

NAMES = Names()


class Consumer:
    """Answers for each topic; a topic that nobody has written to has no offsets."""

    def __init__(self, starts: dict[str, int | None], ends: dict[str, int | None]) -> None:
        self._starts, self._ends = starts, ends

    async def highwaters(self, *places: Any) -> dict[Any, int | None]:
        return {place: self._ends.get(place.topic) for place in places}

    async def earliest_offsets(self, *places: Any) -> dict[Any, int | None]:
        return {place: self._starts.get(place.topic) for place in places}

    async def committed(self, place: Any) -> Any:
        return SimpleNamespace(offset=7 if place.partition else None, by_others=bool(place.partition))


@pytest.mark.parametrize(
    ("starts", "ends", "expected"),
    [
        (
            {NAMES.trial_events: 2, NAMES.trials_changelog: 3},
            {NAMES.trial_events: 9, NAMES.scored_trials: 5},
            {0: LogPositions(2, None, 9, 3, 5, False), 1: LogPositions(2, 7, 9, 3, 5, True)},
        ),
        ({NAMES.trial_events: 0}, {NAMES.trial_events: 0}, {0: LogPositions(0, None, 0, 0, 0, False)}),
    ],
    ids=["of its own topics", "without records"],
)
async def test_each_partition_has_its_offsets(starts: Any, ends: Any, expected: dict[int, Any]) -> None:
    consumer: Any = Consumer(starts, ends)
    assert await read_positions(consumer, NAMES, list(expected)) == expected


async def test_for_no_partitions_nobody_is_asked() -> None:
    nobody: Any = None
    assert await read_positions(nobody, NAMES, []) == {}


# -----------------------------------------------------------------------------
# Redis is kept and the log is new: Redis holds the state of another log, with higher versions.


Renew = Callable[[], None]


@pytest.fixture(params=ENGINES)
def renewable(
    request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer, namespace: str
) -> Iterator[tuple[Deployment, Renew]]:
    """A deployment, and what gives it an empty log: another broker, or all topics deleted."""
    with ExitStack() as stack:
        if request.param == "embedded":
            start = lambda: stack.enter_context(Broker()).bootstrap  # noqa: E731
            deployment = Deployment(tmp_path, start(), redis_server.url, namespace, embedded=True)
            renew = lambda: setattr(deployment, "bootstrap", start())  # noqa: E731
        else:
            deployment = request.getfixturevalue("on_kafka")
            renew = deployment.delete_topics
        yield stack.enter_context(deployment), renew


def with_events(deployment: Deployment, count: int, seed: int = 1) -> WorkerProcess:
    return deployment.begun(trial_events(count, seed=seed))


def epochs(deployment: Deployment) -> set[int]:
    return {orjson.loads(value)["epoch"] for value in deployment.latest("run-summaries").values()}


def test_a_new_log_replaces_what_redis_has_of_the_one_before(renewable: tuple[Deployment, Renew]) -> None:
    deployment, renew = renewable
    assert with_events(deployment, 400).stop() == 0
    renew()
    deployment.published.clear()
    worker = with_events(deployment, 40, seed=2)
    assert "Redis holds the state of another log" in worker.output
    assert epochs(deployment) == {2}
    worker.restart()
    deployment.go_on(worker, trial_events(10, seed=3))
    assert epochs(deployment) == {2}, "the log is the same as before"
    assert read_health(deployment.settings).problems == []


def test_an_event_topic_that_a_worker_creates_again_begins_another_log(on_kafka: Deployment) -> None:
    assert with_events(on_kafka, 400).stop() == 0
    on_kafka.delete_topics("trial-events", "trials-changelog")
    on_kafka.published.clear()
    worker = on_kafka.worker().start()
    on_kafka.publish(trial_events(40, seed=2))
    current = folded(on_kafka.published)
    worker.wait_until(lambda: on_kafka.in_redis(current) == current, "Redis has the new values")


def test_a_new_event_topic_starts_the_next_epoch(on_kafka: Deployment) -> None:
    worker = with_events(on_kafka, 400)
    assert worker.stop() == 0
    on_kafka.delete_topics("trial-events")
    on_kafka.go_on(worker.start(), trial_events(40, seed=2))
    assert epochs(on_kafka) == {2}


def test_state_without_the_name_of_a_log_is_taken_over(on_embedded: Deployment) -> None:
    worker = with_events(on_embedded, 100)
    assert worker.stop() == 0
    with redis.Redis.from_url(on_embedded.redis_url, decode_responses=True) as client:
        name = client.getdel(on_embedded.keys.log)
        on_embedded.go_on(worker.start(), trial_events(10, seed=2))
        assert epochs(on_embedded) == {1}
        assert name is not None
        assert client.get(on_embedded.keys.log) == name
        client.flushdb()
        on_embedded.wait_until_equal(worker)
        worker.wait_until(lambda: client.get(on_embedded.keys.log) == name, "an emptied Redis gets the name")


def test_newer_versions_in_redis_are_told_until_a_rebuild(on_embedded: Deployment) -> None:
    worker = with_events(on_embedded, 100)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.hset(on_embedded.keys.versions("run 0"), "run", "4:1")

    def refusals() -> list[str]:
        return [p for p in read_health(on_embedded.settings).problems if p.startswith("Redis refuses values")]

    on_embedded.publish(trial_events(60, seed=2))
    worker.wait_until(lambda: "1 run, like 'run 0'" in "".join(refusals()), "status tells")
    assert "Redis holds newer values of run 'run 0'" in worker.output
    assert worker.stop() == 0
    assert on_embedded.cli("rebuild", "--switch").returncode == 0
    on_embedded.wait_until_equal(worker.start())
    assert epochs(on_embedded) == {5}
    worker.wait_until(lambda: not read_health(on_embedded.settings).problems, "all is well")


async def test_workers_that_start_together_agree_about_the_name(on_both: Deployment) -> None:
    settings = on_both.settings
    await ensure_topics(settings)
    names = await asyncio.gather(*(log_name(settings) for _ in range(6)))
    assert len(set(names)) == 1
    last = [record.value for record in await meta_records(settings)][-1]
    assert last.decode() == names[0], "compaction keeps the name"
    assert await log_name(settings, begins=True) != names[0]


async def test_another_log_later_ends_the_worker(on_embedded: Deployment, redis_server: RedisServer) -> None:
    settings = on_embedded.settings
    await ensure_topics(settings)
    name = await log_name(settings)
    sink = RedisSink.from_settings(settings)
    nobody: Any = None
    identity = LogIdentity(settings, sink, nobody)
    redis_server.stop()
    await identity.settle()
    await identity.check_now()
    redis_server.start()
    await sink.take_log_name("another")
    with pytest.raises(OtherLog, match="another"):
        await identity.check_now()
    await sink.take_log_name(name)
    await identity.check_now()
    await sink.take_log_name("another")
    await identity.check_now()
    assert "namespace" in (identity.problem or "")
    await sink.close()


# -----------------------------------------------------------------------------
# A lost state page: the run has less than what was published of it, and is folded again.


LARGE = 9_000
"""Bytes of padding: two such events fill a page."""


def pages_of(deployment: Deployment, run_id: str) -> list[tuple[int, bytes]]:
    """Partition and key of each state page of a run."""
    last = {(r.partition, r.key): r.value for r in deployment.records("trials-changelog")}
    prefix = f"{encode_id(run_id)}/".encode()
    return [place for place, value in last.items() if value is not None and place[1].startswith(prefix)]


def settled(deployment: Deployment) -> WorkerProcess:
    return deployment.settled(trial_events(40, runs=2, padding=LARGE))


def lose(deployment: Deployment, pages: slice) -> None:
    stored = pages_of(deployment, "run 1")
    assert len(stored) > 5
    for partition, key in stored[pages]:
        deployment.send_to("trials-changelog", partition, key, None)


@pytest.mark.parametrize("pages", [slice(2, 3), slice(None)], ids=["one", "all"])
def test_a_run_that_lost_state_pages_is_folded_again(on_both: Deployment, pages: slice) -> None:
    worker = settled(on_both)
    lose(on_both, pages)
    worker.start()
    worker.wait_until(lambda: "run 'run 1': folded again from the log" in worker.output, "it is folded again")
    on_both.wait_until_equal(worker)
    worker.wait_until(lambda: not read_health(on_both.settings).problems, "all is well")
    worker.restart()
    on_both.go_on(worker, trial_events(4, runs=2, seed=2))
    assert worker.output.count("in quarantine: PagesLost") == 1
    told = [orjson.loads(row.value).get("degraded") for row in on_both.records("run-summaries") if row.value]
    assert set(told) == {None}


async def test_a_run_that_is_folded_again_for_long_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    clock = iter([0.0, 59.0, 61.0, 100.0, 123.0])
    monkeypatch.setattr(recovery, "fold_again", wait)
    monkeypatch.setattr(recovery, "monotonic", lambda: next(clock))
    partition = Partition(0, 1, Pipeline(), position=5, catch_up_to=5, caught_up=True, repairs={"a": "1"})
    processor: Any = SimpleNamespace(partitions={0: partition})
    repairs = Repairs(Settings(), processor, cast("Any", None))
    for _ in range(5):
        repairs.start_due()
        await asyncio.sleep(0)
    repairs.stop()
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "run 'a': still being folded again from the log, after 61 s",
        "run 'a': still being folded again from the log, after 123 s",
    ]


def test_a_lost_page_with_the_last_event_is_noticed(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(8, runs=2))
    on_embedded.wait_until_committed(worker)
    on_embedded.go_on(worker, trial_events(10, runs=2)[-1:])
    worker.kill()
    [(partition, key)] = pages_of(on_embedded, "run 1")
    on_embedded.send_to("trials-changelog", partition, key, None)
    on_embedded.wait_until_equal(worker.start())
    assert "PagesLost" in worker.output


def test_pages_lost_beside_unpublished_events_are_noticed_by_fewer_results(on_embedded: Deployment) -> None:
    worker = settled(on_embedded)
    dying = on_embedded.faulty("dies_after_pages").start()
    on_embedded.publish(trial_events(60, runs=2)[-1:])
    assert dying.wait() != 0
    lose(on_embedded, slice(2, 6))
    on_embedded.wait_until_equal(worker.start())
    assert "PagesLost" in worker.output


# -----------------------------------------------------------------------------
# A dead worker's late writes stand last in a topic: the owner publishes what is right again.


@pytest.mark.parametrize("way", ["open", "closed", "restarted"])
def test_scored_trials_with_older_ones_put_over_are_published_again(on_both: Deployment, way: str) -> None:
    idle = {"STREAMER_RUN_IDLE_SECONDS": "0.5"} if way == "closed" else {}
    worker = on_both.worker(environment=idle).start()
    trial = {"type": "trial_result", "run_id": "r|1", "agent": "a", "model": "m/1", "tier": "T0"}
    slots = [trial | {"task_id": f"task {number}"} for number in range(3)]
    on_both.go_on(worker, [orjson.dumps(slot | {"resolved": False, "revision": 0}) for slot in slots])
    older = on_both.latest("scored-trials")
    number = on_both.place(orjson.dumps(trial))
    worker.wait_until(lambda: is_noted(on_both, number), "how far scored trials are published is noted")
    missing = slots[2] | {"type": "trial_retracted", "revision": 2}
    on_both.publish([orjson.dumps(slot | {"resolved": True, "revision": 1}) for slot in slots])
    on_both.go_on(worker, [orjson.dumps(missing)])
    digests = scored_digests(on_both)
    first, second, third = sorted(older)
    assert digests.keys() == {first, second}
    assert digests[first] != orjson.loads(older[first])["digest"]
    if way == "closed":
        worker.wait_until(lambda: "closed 1 idle runs" in worker.output, "the run is closed")
    if way == "restarted":
        worker.kill()
    for key, value in ((first, older[first]), (second, None), (third, older[third])):
        on_both.send_to("scored-trials", number, key.encode(), value)
    on_both.send_to("scored-trials", number, b"r%7C1|no slot", None)
    if way == "restarted":
        worker.start()
    worker.wait_until(lambda: scored_digests(on_both) == digests, "the topic has the newer ones again")
    assert worker.alive


def scored_digests(deployment: Deployment) -> dict[str, str]:
    """The digest of each scored trial that stands last in its topic."""
    return {key: orjson.loads(value)["digest"] for key, value in deployment.latest("scored-trials").items()}


def is_noted(deployment: Deployment, number: int) -> bool:
    """Whether the last checkpoint of a partition says how far its scored trials are published."""
    rows = read_topic(deployment.settings, deployment.names.trials_changelog)
    told = [row.value for row in rows if row.key == checkpoint_key(number).encode()]
    return bool(told) and Checkpoint.decoded(told[-1]).scored_to > 0


class Left:
    """What a worker left of one run: state pages, and the published summaries."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.pages: dict[str, bytes] = {}
        self.published: dict[GroupId, SummaryChange] = {}
        self._pipeline = Pipeline(writer="w")
        self.goes_on(*events)

    def goes_on(self, *events: dict[str, Any], publishes: bool = True) -> None:
        offset = self._pipeline.as_of + 1
        self._pipeline.fold(
            Record(record.value, offset + n, timestamp=record.timestamp)
            for n, record in enumerate(records(events))
        )
        run = self._pipeline.run("run-1")
        self.pages |= {page.key: page.value for page in run.take_pages() if page.value is not None}
        if publishes:
            self.published |= {change.group: change for change in run.take_summaries().summaries}

    def found(self, *, whole_log: bool = True, epoch: int = 1) -> tuple[bool, set[str]]:
        """Whether the next owner thinks that pages are lost, and the kinds of summary it publishes again."""
        pipeline = Pipeline(writer="x", epoch=epoch)
        for page in self.pages.items():
            pipeline.load_page(*page)
        for run_id in pipeline.runs():
            pipeline.loaded(run_id)
        partition = Partition(0, epoch, pipeline, 0, 0)
        lost = lacks_pages(partition, "run-1", self.published.values(), whole_log=whole_log)
        return lost, {change.kind for change in partition.outdated.get("run-1", ())}

    def changed(self, kind: str, **fields: Any) -> None:
        [group] = [group for group in self.published if group.kind == kind]
        one = self.published[group]
        summary: dict[str, Any] = one.summary or {}
        self.published[group] = replace(one, summary=summary | {"digest": "other"} | fields)


def test_what_was_published_from_these_pages_agrees_with_them() -> None:
    assert Left(a_trial(), a_trial(task_id="other")).found() == (False, set())


@pytest.mark.parametrize(("whole_log", "lost"), [(True, True), (False, False)])
def test_an_older_summary_of_a_group_counts_if_the_run_can_be_folded(whole_log: bool, lost: bool) -> None:
    """A late worker may have written it; without the log the pages are believed."""
    left = Left(a_trial())
    older = dict(left.published)
    left.goes_on(a_trial(task_id="other"))
    left.published |= {group: change for group, change in older.items() if group.kind == "agent_model"}
    assert left.found(whole_log=whole_log) == (lost, {"agent_model"})


def test_a_lost_page_is_noticed_in_a_new_epoch_too() -> None:
    left = Left(a_trial())
    pages = dict(left.pages)
    left.goes_on(a_trial(task_id="other"))
    left.goes_on(a_trial(task_id="later", resolved=False))
    assert not left.found(epoch=2)[0]
    left.pages = pages
    assert left.found(epoch=2)[0]


def test_a_field_that_a_release_added_is_no_lost_page() -> None:
    left = Left(a_trial())
    left.changed("agent_model", of_another_release=1)
    assert left.found() == (False, {"agent_model"})
    left.changed("agent_model", trials=7)
    assert left.found()[0]


def test_a_retraction_that_was_saved_and_not_published_is_no_lost_page() -> None:
    left = Left(a_trial(), a_trial(task_id="other"))
    left.goes_on(a_retraction(revision=1), publishes=False)
    lost, again = left.found()
    assert not lost
    assert {"agent_model", "run"} <= again


def test_a_count_of_marks_that_was_not_published_is_published_again() -> None:
    left = Left(a_trial())
    left.changed("run", impoverished=1, digest=left.published[RUN].digest)
    assert left.found() == (False, {"run"})


OF_SLOWER_ORACLE = {"m.f": FASTER["m.f"] | {"oracle/nop": 1.5}}


def test_a_lost_page_that_only_an_agents_speedups_show_is_noticed(on_embedded: Deployment) -> None:
    """A correction of benchmarks changes the summary of the agent:model, but not that of its run."""
    before = [the_agent(0, run_id="run 1", task_id=f"task-{number}", revision=1) for number in range(4)]
    corrected = the_agent(0, run_id="run 1", task_id="task-0", revision=2) | {"benchmarks": OF_SLOWER_ORACLE}
    later = the_agent(0, run_id="run 1", task_id="task-9", revision=1)
    all_of_it, without = folded(encoded([*before, corrected, later])), folded(encoded([*before, later]))
    differing = {kind for kind in all_of_it if all_of_it[kind] != without[kind]}
    assert differing == {"agent-model-summaries"}

    worker = on_embedded.begun(encoded(before))
    assert worker.stop() == 0
    pages = set(pages_of(on_embedded, "run 1"))
    on_embedded.go_on(worker.start(), encoded([corrected]))
    [(partition, key)] = [page for page in pages_of(on_embedded, "run 1") if page not in pages]
    worker.restart()
    on_embedded.go_on(worker, encoded([later]))
    worker.kill()
    on_embedded.send_to("trials-changelog", partition, key, None)
    worker.start()
    worker.wait_until(lambda: "run 'run 1': folded again from the log" in worker.output, "it is folded again")
    on_embedded.wait_until_equal(worker)
    assert worker.output.count("in quarantine: PagesLost") == 1


def encoded(events: list[dict[str, Any]]) -> list[bytes]:
    return [orjson.dumps(event) for event in events]


# -----------------------------------------------------------------------------
# Restarts, deletions, standby copies and an upgrade: the answer is that of a plain fold.


@pytest.mark.slow
def test_topics_and_redis_say_what_a_fold_says(on_both: Deployment) -> None:
    count, runs = (3_000, 6) if on_both.embedded else (20_000, 32)
    worker = on_both.begun(trial_events(1))
    on_both.go_on(worker, trial_events(count, runs=runs))
    on_both.wait_until_committed(worker)
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_worker_told_to_stop_commits_what_it_did(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(4_000))
    worker.wait_until(lambda: on_embedded.latest("run-summaries"), "something is published")
    assert worker.stop() == 0
    assert on_embedded.committed() > 0
    on_embedded.wait_until_equal(worker.start())


@pytest.mark.slow
def test_two_megabytes_of_slots_in_one_run_survive_a_restart(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(140, runs=1, padding=16_000))
    worker.kill()
    on_embedded.publish(trial_events(3, runs=1, seed=5, padding=900_000))
    on_embedded.wait_until_equal(worker.start())
    pages = [record.value for record in on_embedded.records("trials-changelog") if record.value]
    assert max(map(len, pages)) < 1 << 20


@pytest.mark.slow
def test_a_worker_killed_between_two_parts_of_a_fleet_loses_nothing(on_kafka: Deployment) -> None:
    worker, runs = on_kafka.worker().start(), 800
    on_kafka.publish(trial_events(6 * runs, runs=runs))
    worker.wait_until(lambda: on_kafka.latest("run-summaries"), "something is published")
    worker.kill()
    assert len(on_kafka.latest("run-summaries")) < runs
    on_kafka.publish(trial_events(runs, runs=runs, seed=2))
    on_kafka.wait_until_equal(worker.start())
    on_kafka.wait_until_committed(worker)
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_deleted_run_leaves_topics_and_redis_also_after_a_crash(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(300))
    on_embedded.publish([b'{"type": "run_deleted", "run_id": "run 1", "revision": 9}'])
    worker.wait_until(lambda: on_embedded.redis_keys("run 1") == {"versions"}, "run 1 has left Redis")
    on_embedded.wait_until_equal(worker)
    worker.kill()
    on_embedded.publish([b'{"type": "run_deleted", "run_id": "run 2", "revision": 9}'])
    broken = on_embedded.faulty("dies_after_pages").start()
    assert broken.wait() == -signal.SIGKILL
    worker.start()
    worker.wait_until(lambda: on_embedded.redis_keys("run 2") == {"versions"}, "run 2 has left Redis")
    on_embedded.wait_until_equal(worker)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_a_standby_copy_replaces_a_killed_worker(on_kafka: Deployment, tmp_path: Path, store: str) -> None:
    """Kill one of two in a stream; what the other had copied it does not read again."""
    where = {"STREAMER_STORE": store, "STREAMER_DATA_DIR": str(tmp_path / "shared")}
    environment = {"STREAMER_STANDBY_REPLICAS": "1", **where}
    first, second = (on_kafka.worker(environment=environment).start() for _ in range(2))
    on_kafka.go_on(second, trial_events(3_000, runs=16))
    second.wait_until(lambda: has_followed(second), "the second worker follows the first")
    on_kafka.wait_until_committed(first)
    takeovers = len(recoveries(second))
    changelogs = sum(len(on_kafka.records(topic)) for topic in CHANGELOGS)
    on_kafka.publish(trial_events(1_000, runs=16, seed=2))
    first.kill()
    on_kafka.publish(trial_events(1_000, runs=16, seed=3))
    second.wait_until(lambda: len(recoveries(second)) > takeovers, "the second worker takes over")
    on_kafka.wait_until_equal(second)
    unread, partitions = recoveries(second)[takeovers]
    assert partitions == len(CHANGELOGS) * on_kafka.partitions
    assert unread < changelogs
    on_kafka.go_on(first.start(), trial_events(300, runs=16, seed=4))
    assert second.stop() == 0
    on_kafka.go_on(first, trial_events(300, runs=16, seed=5))


CHANGELOGS = ("trials-changelog", *KINDS)


def has_followed(worker: WorkerProcess) -> bool:
    """True if the worker has copies of others' partitions, and is not behind."""
    told = re.findall(r"standby: (\d+) changelog records copied, (\d+) behind", worker.output)
    return bool(told) and int(told[-1][0]) > 0 and int(told[-1][1]) == 0


def recoveries(worker: WorkerProcess) -> list[tuple[int, int]]:
    """Of each recovery so far: changelog records that were not there yet, changelog partitions."""
    result = re.findall(r"recovery: (\d+) records of the changelogs to read, (\d+) partitions", worker.output)
    return [(int(unread), int(partitions)) for unread, partitions in result]


RECORDED = Path(__file__).with_name("recorded")


@pytest.fixture
def left_behind(commit: str, tmp_path: Path, redis_server: RedisServer) -> Iterator[Deployment]:
    """A deployment on the volume of a commit, with what Redis held."""
    with tarfile.open(RECORDED / f"{commit}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        for key, value in json.loads((tmp_path / "redis.json").read_text()).items():
            if isinstance(value, str):
                client.set(key, value)
            elif isinstance(value, dict):
                client.hset(key, mapping=value)
            else:
                client.zadd(key, dict(value))
    server = KafkaServer(tmp_path / "kafka")
    server.start()
    with Deployment(tmp_path, server.bootstrap, redis_server.url, NAMESPACE, embedded=False) as deployment:
        deployment.published = (tmp_path / "events.ndjson").read_bytes().splitlines()
        yield deployment
    server.stop()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("commit", ["a3e59d61", "d70dda50"])
def test_a_volume_of_an_earlier_version_left_in_mid_batch_goes_on(left_behind: Deployment) -> None:
    wait_for(left_behind.committed, "the broker has read its offsets")
    assert left_behind.committed() < len(left_behind.published)
    left_behind.make_current(made_with(PriceTable.default()))  # as `streamer config adopt`
    worker = left_behind.worker().start()
    left_behind.wait_until_equal(worker)
    left_behind.go_on(worker, trial_events(200, runs=RUNS, seed=99))
    left_behind.wait_until_committed(worker)
    assert worker.stop() == 0
    assert not re.search("fold(ed|ing) .*again", worker.output)
