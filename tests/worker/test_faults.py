"""Each way we know for a worker or a broker to fail, and that nothing is lost or published wrong."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
import uuid
from collections.abc import Mapping
from functools import partial
from zlib import crc32

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.operate.health import read_health, read_lags
from streamer.schemas.wire import Record
from streamer.storage.kafka import partition_of
from streamer.storage.log import PartitionReader, read_topic
from tests.faults.kinds_workers import faketime, wrong_clock
from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event, terminal_bench_row_to_event
from tests.support.servers import KafkaServer, pause
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import (
    KINDS,
    PATIENT_SESSION,
    SICK,
    WHERE,
    Deployment,
    Digests,
    fold,
    folded,
    of_run,
    of_runs,
    redis_key,
    sick_trial,
    trial_events,
)


@pytest.mark.parametrize("fault", ["dies_after_pages", "dies_after_groups"])
@pytest.mark.in_turn(2)
def test_a_publication_ended_halfway_commits_nothing_and_heals(on_embedded: Deployment, fault: str) -> None:
    worker = on_embedded.settled(trial_events(300))
    broken = on_embedded.faulty(fault).start(ready=False)
    on_embedded.publish(trial_events(300, seed=2))
    assert broken.wait() == -signal.SIGKILL
    assert on_embedded.committed() == 300
    on_embedded.wait_until_equal(worker.start())
    assert "PagesLost" not in worker.output


@pytest.mark.slow
def test_an_exception_in_the_rebuild_ends_the_worker_and_publishes_nothing(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(300))
    worker.kill()
    on_embedded.publish(trial_events(300, seed=2))
    before = len(on_embedded.records("run-summaries"))
    broken = on_embedded.faulty("cannot_load").start(ready=False)
    assert broken.wait(60) == 1
    assert "injected into the rebuild" in broken.output
    assert len(on_embedded.records("run-summaries")) == before
    on_embedded.wait_until_equal(worker.start())


@pytest.mark.slow
def test_a_page_that_cannot_be_read_ends_the_worker_and_says_which(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(50))
    worker.kill()
    on_embedded.send_to("trials-changelog", 0, b"run 0/later/1", b'{"v": 99}\n')
    worker.start(ready=False)
    assert worker.wait(60) == 1
    assert "state page run 0/later/1 has version 99" in worker.output
    on_embedded.send_to("trials-changelog", 0, b"run 0/later/1", None)
    on_embedded.wait_until_equal(worker.start())


def test_a_page_that_the_broker_refuses_ends_the_worker_with_nothing_committed(on_kafka: Deployment) -> None:
    worker = on_kafka.worker().start()
    on_kafka.configure("trials-changelog", max_message_bytes=100)
    on_kafka.publish(trial_events(200))
    assert worker.wait(60) == 1
    assert "the broker refuses" in worker.output
    assert on_kafka.committed() == 0
    assert not on_kafka.records("run-summaries")
    on_kafka.configure("trials-changelog", max_message_bytes=4 * 1024 * 1024)
    on_kafka.wait_until_equal(worker.start())


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "exit_code"), [("waits_after_pages", 75), ("zombie", None)])
def test_a_worker_stopped_within_a_batch_and_overtaken_does_no_lasting_harm(
    on_kafka: Deployment, fault: str, exit_code: int | None
) -> None:
    """Another one takes over and goes further. Then the first goes on: it ends, or writes as a zombie."""
    first = on_kafka.faulty(fault)
    first.start()
    on_kafka.publish(trial_events(500, runs=16))
    first.wait_until(lambda: "pages written" in first.output, "pages are written")
    pause(first.process.pid)
    stopped = time.monotonic()
    second = on_kafka.begun(trial_events(500, runs=16, seed=2))
    # its session began with its last heartbeat, so the second can be current before a whole one has passed
    time.sleep(max(0.0, stopped + on_kafka.session + 0.5 - time.monotonic()))
    first.signal(signal.SIGCONT)
    if exit_code is None:
        seen = len(on_kafka.records("run-summaries"))
        first.wait_until(lambda: len(on_kafka.records("run-summaries")) > seen, "the zombie wrote")
        first.kill()
    else:
        assert first.wait() == exit_code
    assert second.stop() == 0
    third, fourth = on_kafka.worker().start(), on_kafka.worker().start()
    on_kafka.wait_until_equal(third)
    assert (third.stop(), fourth.stop()) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["stopped for longer than a session", "killed"])
def test_a_broker_away_is_waited_for(on_own_kafka: Deployment, own_kafka: KafkaServer, killed: bool) -> None:
    worker = on_own_kafka.worker().start()
    on_own_kafka.publish(trial_events(3_000))
    worker.wait_until(lambda: on_own_kafka.latest("trials-changelog"), "a page is written")
    if killed:
        own_kafka.kill()
        own_kafka.start()
    else:
        own_kafka.pause()
        time.sleep(4 * on_own_kafka.session)  # the pause itself is what is tested
        own_kafka.resume()
    on_own_kafka.publish(trial_events(300, seed=2))
    on_own_kafka.wait_until_equal(worker, 90)


@pytest.mark.skipif(
    not (faketime() or os.environ.get("CI")), reason="SKIPPED LOUDLY: install Debian's libfaketime"
)
def test_a_worker_whose_clock_is_three_hours_ahead_publishes_without_times(on_kafka: Deployment) -> None:
    worker = on_kafka.begun(trial_events(400), environment=wrong_clock(FAKETIME="+3h"))
    assert "Compare the clocks of this machine and the broker" in worker.output
    assert worker.stop() == 0
    worker = on_kafka.begun(trial_events(40, seed=2))


def test_an_owner_publishes_again_what_others_put_older_values_over(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(50))
    older = on_embedded.records("run-summaries")
    on_embedded.go_on(worker, trial_events(50, seed=2))
    newest = on_embedded.latest("run-summaries")
    for record in older:
        on_embedded.send_to("run-summaries", record.partition, record.key, record.value)
    worker.wait_until(lambda: on_embedded.latest("run-summaries") == newest, "the newest are back")


# -----------------------------------------------------------------------------
# A changelog that lost state pages: the partition is folded again from the event log.


REFOLDED = "some state pages are missing"
GARBAGE = [b"\xff", b"{", b'{"type": "?", "run_id": "r"}']


def settled(deployment: Deployment) -> WorkerProcess:
    """A worker that has folded events, garbage and misplaced records, committed all of it, and ended."""
    deployment.session = PATIENT_SESSION
    worker = deployment.worker().start()
    deployment.send([n % 4 for n in range(len(GARBAGE))], GARBAGE)
    deployment.publish(trial_events(300), lambda event: crc32(event) % 4)
    deployment.wait_until_equal(worker)
    everything = len(deployment.records("trial-events"))
    worker.wait_until(lambda: deployment.committed() == everything, "all offsets committed")
    assert worker.stop() == 0
    return worker


def empty_changelog(deployment: Deployment) -> None:
    """A tombstone for every key, the marks included."""
    topic = deployment.names.trials_changelog
    last = {(r.partition, r.key): r.value for r in read_topic(deployment.settings, topic)}
    for (partition, key), value in last.items():
        if value is not None:
            deployment.send_to("trials-changelog", partition, key, None)


def lose(deployment: Deployment, topic: str, share: float) -> None:
    """Delete the older records of each partition of a topic."""
    records = read_topic(deployment.settings, deployment.names.topic(topic))
    ends = {record.partition: record.offset + 1 for record in records}
    deployment.delete_records(topic, {number: int(end * share) for number, end in ends.items()})


def versions_never_fall(deployment: Deployment) -> bool:
    """Whether (epoch, state_version) of each run summary only grew, in the order of the topic."""
    seen: dict[bytes, list[tuple[int, int]]] = {}
    for record in deployment.records("run-summaries"):
        summary = orjson.loads(record.value or b'{"epoch":0,"state_version":0}')
        seen.setdefault(record.key, []).append((summary["epoch"], summary["state_version"]))
    return all(versions == sorted(versions) for versions in seen.values())


def test_an_emptied_changelog_is_noticed_and_everything_folded_again(on_embedded: Deployment) -> None:
    worker = settled(on_embedded)
    empty_changelog(on_embedded)
    events, rejections = (len(on_embedded.records(t)) for t in ("trial-events", "trial-rejections"))
    summaries = on_embedded.latest("run-summaries")
    worker.start(ready=False)
    worker.wait_until(lambda: worker.output.count(REFOLDED) >= 4, "every partition is folded again")
    worker.wait_until(lambda: on_embedded.latest("trials-changelog"), "the pages are back")
    on_embedded.go_on(worker, [b'{"type": "trial_result", "run_id": "run 1", "task_id": "new"}'])
    assert versions_never_fall(on_embedded)
    assert len(on_embedded.records("trial-rejections")) == rejections
    assert len(on_embedded.records("trial-events")) == events + 1
    again = on_embedded.latest("run-summaries")
    assert again.pop("run 1") != summaries.pop("run 1")
    assert again == summaries
    worker.restart()
    on_embedded.wait_until_equal(worker)
    assert worker.output.count(REFOLDED) == 4


@pytest.mark.slow
def test_a_changelog_that_lost_its_oldest_records_is_noticed(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    on_kafka.go_on(worker.start(), trial_events(200, seed=2))
    assert worker.stop() == 0
    assert REFOLDED not in worker.output
    on_kafka.configure("trials-changelog", cleanup_policy="compact,delete")
    lose(on_kafka, "trials-changelog", 0.6)
    on_kafka.wait_until_equal(worker.start())
    assert REFOLDED in worker.output
    assert versions_never_fall(on_kafka)


def test_pages_and_log_both_lost_end_the_worker_instead_of_publishing_less(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    before = on_kafka.latest("run-summaries")
    on_kafka.configure("trials-changelog", cleanup_policy="compact,delete")
    lose(on_kafka, "trials-changelog", 1.0)
    lose(on_kafka, "trial-events", 0.5)
    worker.start(ready=False)
    assert worker.wait(60) == 1
    assert "has lost state pages" in worker.output
    assert on_kafka.latest("run-summaries") == before


COMPARED = "run-comparisons"


def random_text(characters: int, seed: int) -> str:
    """Text that no codec makes much smaller."""
    return f"{random.Random(seed).getrandbits(4 * characters):0{characters}x}"


def many_agents() -> list[bytes]:
    """Trials of so many agents that the run's summary, which names all of them, is large."""
    return [sick_trial("t", agent=random_text(60, seed)) for seed in range(1000)]


def long_names() -> list[bytes]:
    """A trial that makes a large state page, by the names of its benchmarks."""
    return [sick_trial("t", benchmarks={random_text(4_000, seed): None for seed in range(15)})]


def get_too_large(deployment: Deployment, worker: WorkerProcess, topic: str, events: list[bytes]) -> None:
    """The run had records of usual size, and gets a large one in this topic."""
    before = trial_events(300)
    deployment.go_on(worker, before)
    deployment.publish([*events, *trial_events(600)[300:]])
    deployment.wait_until_apart(worker)
    assert f"a record for {deployment.names.topic(topic)} has" in deployment.in_quarantine()[SICK]
    everything = deployment.in_topics()
    last_good = of_runs(SICK.__eq__, everything)
    states = states_of(SICK, before, events)
    assert deployment.in_redis(last_good) == last_good
    compared = last_good.pop(COMPARED)  # perhaps of an earlier state
    assert compared in [state.pop(COMPARED) for state in states]
    assert last_good in states, "the summaries are of one state"
    keys = deployment.keys
    current = {redis_key(keys, KINDS[topic], key) for topic in last_good for key in last_good[topic]}
    assert {keys.of_run(SICK, suffix) for suffix in summary_keys(deployment)} == current


def summary_keys(deployment: Deployment) -> set[str]:
    """Suffixes of the keys in Redis that hold a summary of the sick run."""
    kinds = ("run", "tier", "agent_model")
    result = {key for key in deployment.redis_keys(SICK) if key.split(":")[0] in kinds}
    return {key for key in result if not key.endswith(":agent_models")}


def states_of(run_id: str, before: list[bytes], events: list[bytes]) -> list[dict[str, Digests]]:
    """Digests of all of a run's summaries after `before`, and after each of the events that follow."""
    mine = of_run(run_id, before)
    pipeline, current, result = fold(mine), folded(mine), []
    topic_of = {kind: topic for topic, kind in KINDS.items()}
    pipeline.run(run_id).take_changes()
    for offset, event in enumerate([b"", *events], len(before)):
        pipeline.fold([Record(event, offset)] if event else [])
        for change in pipeline.run(run_id).take_summaries().summaries:
            current[topic_of[change.kind]][change.key] = change.digest
        result.append({topic: dict(digests) for topic, digests in current.items()})
    return result


LARGE = {"run-summaries": many_agents, "trials-changelog": long_names}
"""Topic -> events that make a large record there."""


@pytest.mark.parametrize("topic", LARGE)
@pytest.mark.in_turn(2)
def test_a_record_that_is_too_large_sets_its_run_apart(on_embedded: Deployment, topic: str) -> None:
    get_too_large(on_embedded, worker := on_embedded.poisoned("size").start(), topic, LARGE[topic]())
    worker.stop()
    roomier = on_embedded.worker().start()
    assert on_embedded.cli("runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(roomier)


@pytest.mark.parametrize("topic", LARGE)
@pytest.mark.in_turn(4)
def test_a_record_refused_for_its_size_sets_its_run_apart(on_kafka: Deployment, topic: str) -> None:
    worker = on_kafka.worker().start()
    on_kafka.configure(topic, max_message_bytes=20_000)
    get_too_large(on_kafka, worker, topic, LARGE[topic]())
    on_kafka.configure(topic, max_message_bytes=4_000_000)
    assert on_kafka.cli("runs", "repair", SICK).returncode == 0
    on_kafka.wait_until_equal(worker)


NO_EVENTS = [*GARBAGE, b"\xff\x00", b"[]", b'{"type": "trial_result"}', b"x" * 2**20]
CODES = {"not_json", "not_an_object", "missing_field", "unknown_type"}


def real_events() -> list[bytes]:
    """Terminal-Bench's trials, and ProjectScylla's with the corrections that came later."""
    data = shared_data()
    trials = read_rows(data / "terminal_bench" / "trials.jsonl.gz")
    events = [terminal_bench_row_to_event(row) for row in trials]
    for revision, name in enumerate(("haiku_n3_superseded", "haiku_n3")):
        rows = read_rows(data / "scylla" / f"{name}.jsonl")
        events += [scylla_row_to_event(row, "haiku_n3", revision=revision) for row in rows]
    return [orjson.dumps(event) for event in events]


@pytest.mark.slow
def test_real_results_in_disorder_equal_the_fold(on_both: Deployment) -> None:
    events, rng = real_events(), random.Random(11)
    sent = events * 3 + NO_EVENTS
    rng.shuffle(sent)
    worker = on_both.worker().start()
    on_both.send([rng.randrange(4) for _ in sent], sent)
    on_both.published = events
    on_both.wait_until_equal(worker, seconds=120)
    rejections = on_both.rejections()
    assert len(rejections) == len(NO_EVENTS)
    assert {rejection["code"] for rejection in rejections} == CODES


@pytest.mark.parametrize("place", WHERE)
@pytest.mark.in_turn(4)
def test_repair_folds_the_run_again_from_the_log(on_both: Deployment, place: str) -> None:
    worker, _ = on_both.fall_sick(place)
    again = on_both.cli("runs", "repair", SICK)
    assert again.returncode == 1
    assert "Poisoned: cannot be divided" in again.stderr.decode()
    assert on_both.degraded(SICK)
    worker.stop()
    upgraded = on_both.worker().start()
    assert on_both.cli("runs", "repair", SICK).returncode == 0
    on_both.go_on(upgraded, [sick_trial("after")])
    assert not any(summary["degraded"] for summary in on_both.summaries_of(SICK))
    assert on_both.in_quarantine() == {}
    upgraded.stop()
    on_both.begun([sick_trial("at last")])


def test_a_run_in_good_order_can_be_folded_again_too(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(300))
    before = {record.key for record in on_embedded.records("trials-changelog")}
    assert on_embedded.cli("runs", "repair", SICK).returncode == 0
    assert {record.key for record in on_embedded.records("trials-changelog")} > before
    on_embedded.go_on(worker, trial_events(360)[300:])
    worker.kill()
    on_embedded.begun(trial_events(420)[360:])
    unknown = on_embedded.cli("runs", "repair", "run 77")
    assert unknown.returncode == 1
    assert "There is no run 'run 77'" in unknown.stderr.decode()


def test_a_request_to_repair_waits_for_the_next_worker(on_embedded: Deployment) -> None:
    worker, _ = on_embedded.fall_sick("score")
    worker.kill()
    asked = on_embedded.cli("runs", "repair", SICK, "--wait", "0")
    assert asked.returncode == 1
    assert "no worker has done it" in asked.stderr.decode()
    on_embedded.publish([sick_trial("later")])
    on_embedded.wait_until_equal(on_embedded.worker().start())


def test_a_repair_that_the_log_does_not_allow_changes_nothing(on_kafka: Deployment) -> None:
    worker, before = on_kafka.fall_sick("score")
    on_kafka.delete_records("trial-events", {partition_of(SICK, on_kafka.partitions): 3})
    refused = on_kafka.cli("runs", "repair", SICK)
    assert refused.returncode == 1
    assert "the log has lost its events before offset 3" in refused.stderr.decode()
    assert on_kafka.degraded(SICK)
    good = folded(before)
    assert on_kafka.in_redis(good) == good
    assert worker.alive


def test_a_rebuild_keeps_the_last_good_summaries_until_a_worker_is_upgraded(on_embedded: Deployment) -> None:
    worker, before = on_embedded.fall_sick("cut")
    worker.stop()
    assert on_embedded.cli("rebuild", "--switch").returncode == 0
    good = folded(before)
    assert on_embedded.in_redis(good) == good
    assert on_embedded.degraded(SICK)
    still = on_embedded.poisoned("cut").start()
    still.wait_until(lambda: SICK in on_embedded.in_quarantine(), "it fails again")
    still.wait_until(on_embedded.others_are_current, "all other runs are folded again")
    assert on_embedded.in_redis(good) == good
    still.stop()
    assert on_embedded.cli("rebuild", "--switch").returncode == 0
    on_embedded.wait_until_equal(on_embedded.worker().start())


# -----------------------------------------------------------------------------
# What happens to the log behind the workers' backs is noticed, named, and mended where it can be.


def problems(deployment: Deployment, words: str) -> list[str]:
    return [problem for problem in read_health(deployment.settings).problems if words in problem]


def ends(deployment: Deployment) -> dict[int, int]:
    return {p.partition: p.end for p in asyncio.run(read_lags(deployment.settings))}


async def commit(deployment: Deployment, offsets: Mapping[int, int]) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` does."""
    for number, offset in offsets.items():
        place = (deployment.names.trial_events, number)
        async with PartitionReader(deployment.settings, [place], group=deployment.names.group) as reader:
            await reader.commit(offset)


def ended(deployment: Deployment) -> WorkerProcess:
    """A worker that has folded and committed the first events, and ended."""
    deployment.session = PATIENT_SESSION
    return deployment.settled(trial_events(120))


def begun(deployment: Deployment) -> WorkerProcess:
    """The same, running again."""
    return ended(deployment).start()


def test_offsets_reset_to_the_latest_are_noticed_and_lose_nothing(on_kafka: Deployment) -> None:
    worker = ended(on_kafka)
    on_kafka.publish(trial_events(200, seed=2))
    asyncio.run(commit(on_kafka, ends(on_kafka)))
    on_kafka.wait_until_equal(worker.start())
    assert "its committed offset was moved to" in worker.output
    moved = partial(problems, on_kafka, "its committed offset was moved forward")
    worker.wait_until(moved, "status tells")
    assert on_kafka.outcomes() == {"equal"}
    on_kafka.wait_until_committed(worker)
    worker.restart()
    on_kafka.go_on(worker, trial_events(20, seed=3))
    worker.wait_until(lambda: not moved(), "a restart ends it")


def test_offsets_set_back_and_offsets_that_are_gone_are_no_problem(on_kafka: Deployment) -> None:
    worker = ended(on_kafka)
    asyncio.run(commit(on_kafka, {place: min(3, end) for place, end in ends(on_kafka).items()}))
    on_kafka.go_on(worker.start(), trial_events(20, seed=3))
    assert problems(on_kafka, "partition") == []


def test_events_deleted_while_no_worker_ran_are_told_from_then_on(on_kafka: Deployment) -> None:
    worker = ended(on_kafka)
    on_kafka.publish(trial_events(200, seed=2))
    on_kafka.delete_records("trial-events", {n: end - 2 for n, end in ends(on_kafka).items() if end > 2})
    worker.start()
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "status tells")
    assert "before they were folded" in worker.output
    worker.restart()
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "it is told after a restart")


def test_events_deleted_in_front_of_a_worker_that_lags_are_told(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    pause(worker.process.pid)
    try:
        on_kafka.publish(trial_events(200, seed=2))  # a fetch that is under way may bring these
        on_kafka.publish(trial_events(200, seed=4))
        on_kafka.delete_records("trial-events", ends(on_kafka))
    finally:
        worker.signal(signal.SIGCONT)
    on_kafka.publish(trial_events(20, seed=3))
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "status tells")


def test_events_deleted_after_they_were_folded_are_no_loss(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    on_kafka.delete_records("trial-events", {n: end - 1 for n, end in ends(on_kafka).items() if end})
    on_kafka.go_on(worker, trial_events(20, seed=3))
    worker.restart()
    on_kafka.go_on(worker, trial_events(20, seed=4))
    assert problems(on_kafka, "partition") == []


def test_a_finite_retention_of_the_event_topic_is_told(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    assert problems(on_kafka, "loses events") == []
    on_kafka.configure("trial-events", retention_ms=604_800_000)
    [problem] = problems(on_kafka, "loses events")
    assert "retention.ms=604800000. Set retention.ms=-1" in problem
    worker.wait_until(lambda: "loses events: retention.ms=604800000" in worker.output, "the worker tells", 40)


@pytest.mark.parametrize("running", [False, True])
def test_a_deleted_topic_of_scored_trials_is_filled_again(on_kafka: Deployment, running: bool) -> None:
    """Its deletion ends a running worker, and the next one fills it."""
    worker = begun(on_kafka) if running else ended(on_kafka)
    before = set(on_kafka.latest("scored-trials"))
    on_kafka.delete_topics("scored-trials")
    if running:
        assert worker.wait(90) == 1
        assert "scored-trials were deleted" in worker.output
    worker.start()
    worker.wait_until(lambda: on_kafka.latest("scored-trials").keys() == before, "all of them are back")
    assert on_kafka.outcomes() == {"equal"}


# -----------------------------------------------------------------------------
# Publishers that use transactions: what they abort does not count, and nothing waits for it.


def transactional(deployment: Deployment) -> AIOKafkaProducer:
    name = f"test-{uuid.uuid4().hex}"
    return AIOKafkaProducer(bootstrap_servers=deployment.bootstrap, transactional_id=name)


async def begin(producer: AIOKafkaProducer, deployment: Deployment, events: list[bytes]) -> None:
    """Publish to one partition after the other, in a transaction."""
    await producer.begin_transaction()
    for event in events:
        topic, place = deployment.names.trial_events, deployment.place(event)
        await producer.send_and_wait(topic, event, partition=place)


async def publish_and_abort(deployment: Deployment) -> None:
    events = trial_events(240)
    async with transactional(deployment) as producer:
        for number in range(6):
            part = events[number * 40 : number * 40 + 40]
            await begin(producer, deployment, part)
            if number % 2 == 0:
                await producer.commit_transaction()
                deployment.published += part
            else:
                await producer.abort_transaction()


def lags(deployment: Deployment) -> list[int]:
    return [partition.lag for partition in asyncio.run(read_lags(deployment.settings))]


def test_aborted_transactions_do_not_count_and_leave_no_lag(on_kafka: Deployment) -> None:
    on_kafka.session = PATIENT_SESSION
    worker = on_kafka.worker().start()
    asyncio.run(publish_and_abort(on_kafka))
    on_kafka.wait_until_equal(worker)
    worker.wait_until(lambda: not any(lags(on_kafka)), "nothing lags, not even the markers of transactions")
    assert on_kafka.outcomes() == {"equal"}
    worker.restart()
    on_kafka.wait_until_equal(worker)


async def leave_one_open(deployment: Deployment) -> None:
    async with transactional(deployment) as committed, transactional(deployment) as left:
        await begin(committed, deployment, trial_events(60))
        await committed.commit_transaction()
        deployment.published += trial_events(60)
        await begin(left, deployment, trial_events(90)[60:])
        assert await asyncio.to_thread(deployment.outcomes) == {"equal"}
        [problem] = await asyncio.to_thread(problems, deployment, "open transaction")
        waiting = re.match(r"Up to (\d+) events wait behind an open transaction of another client", problem)
        assert waiting, problem
        # The marker of the commit, one a partition, may come after the first event of the open transaction.
        assert 30 <= int(waiting[1]) <= 30 + len(await read_lags(deployment.settings))
        verified = await asyncio.to_thread(deployment.cli, "verify", "--all")
        assert (verified.returncode, verified.stderr.decode()) == (0, f"streamer: not verified: {problem}\n")


def test_a_transaction_that_is_open_is_named_and_holds_up_no_verification(on_kafka: Deployment) -> None:
    on_kafka.session = PATIENT_SESSION
    worker = on_kafka.worker().start()
    asyncio.run(leave_one_open(on_kafka))
    on_kafka.wait_until_equal(worker)
