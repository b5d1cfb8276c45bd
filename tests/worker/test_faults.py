"""Each way we know for a worker or a broker to fail, and that nothing is lost or published wrong."""

from __future__ import annotations

import os
import random
import signal
import time
from zlib import crc32

import orjson
import pytest

from streamer.schemas.wire import Record
from streamer.storage.kafka import partition_of
from streamer.storage.log import read_topic
from tests.faults.kinds_workers import faketime, wrong_clock
from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event, terminal_bench_row_to_event
from tests.support.servers import KafkaServer, pause
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import KINDS, Deployment, Digests, fold, folded, redis_key, trial_events
from tests.worker.sick_run import (
    EVERYWHERE,
    SICK,
    degraded,
    fall_sick,
    in_quarantine,
    of_run,
    others_are_current,
    poisoned,
    run_cli,
    sick_trial,
    summaries_of,
    wait_until_apart,
)

FAULTY = "tests.worker.faulty"


def faulty(deployment: Deployment, fault: str) -> WorkerProcess:
    """A worker with a fault (see `tests.worker.faulty`)."""
    return deployment.worker(module=FAULTY, environment={"FAULT": fault})


@pytest.mark.parametrize("fault", ["dies_after_pages", "dies_after_groups"])
@pytest.mark.in_turn(2)
def test_a_publication_ended_halfway_commits_nothing_and_heals(on_embedded: Deployment, fault: str) -> None:
    worker = on_embedded.settled(trial_events(300))
    broken = faulty(on_embedded, fault).start(ready=False)
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
    broken = faulty(on_embedded, "cannot_load").start(ready=False)
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


@pytest.mark.kafka
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


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(("fault", "exit_code"), [("waits_after_pages", 75), ("zombie", None)])
def test_a_worker_stopped_within_a_batch_and_overtaken_does_no_lasting_harm(
    on_kafka: Deployment, fault: str, exit_code: int | None
) -> None:
    """Another one takes over and goes further. Then the first goes on: it ends, or writes as a zombie."""
    first = faulty(on_kafka, fault)
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


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["stopped for longer than a session", "killed"])
def test_a_broker_that_is_away_and_comes_back_is_waited_for(
    on_own_kafka: Deployment, own_kafka: KafkaServer, killed: bool
) -> None:
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


@pytest.mark.kafka
@pytest.mark.skipif(
    not (faketime() or os.environ.get("CI")), reason="SKIPPED LOUDLY: install Debian's libfaketime"
)
def test_a_worker_whose_clock_is_three_hours_ahead_publishes_without_times(on_kafka: Deployment) -> None:
    worker = on_kafka.go_on(
        on_kafka.worker(environment=wrong_clock(FAKETIME="+3h")).start(), trial_events(400)
    )
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


SESSION = 6.0
"""Longer than a busy machine may keep a worker from running."""

REFOLDED = "some state pages are missing"
GARBAGE = [b"\xff", b"{", b'{"type": "?", "run_id": "r"}']


def settled(deployment: Deployment) -> WorkerProcess:
    """A worker that has folded events, garbage and misplaced records, committed all of it, and ended."""
    deployment.session = SESSION
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
    assert {k: v for k, v in on_embedded.latest("run-summaries").items() if k != "run 1"} == {
        k: v for k, v in summaries.items() if k != "run 1"
    }
    worker.restart()
    on_embedded.wait_until_equal(worker)
    assert worker.output.count(REFOLDED) == 4


@pytest.mark.kafka
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


@pytest.mark.kafka
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


# -----------------------------------------------------------------------------
# A record that is too large, for a worker or for the broker, sets its run apart.


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
    wait_until_apart(deployment, worker)
    assert f"a record for {deployment.names.topic(topic)} has" in in_quarantine(deployment)[SICK]
    everything = deployment.in_topics()
    last_good = only(SICK, everything)
    states = states_of(SICK, before, events)
    assert deployment.in_redis(last_good) == last_good
    compared = last_good.pop(COMPARED)  # perhaps of an earlier state
    assert compared in [state.pop(COMPARED) for state in states]
    assert last_good in states, "the summaries are of one state"
    current = {
        redis_key(deployment.keys, KINDS[topic], key) for topic in last_good for key in last_good[topic]
    }
    assert {deployment.keys.of_run(SICK, suffix) for suffix in summary_keys(deployment)} == current


def only(run_id: str, result: dict[str, Digests]) -> dict[str, Digests]:
    """Digests of one run, by topic and key."""
    return {
        topic: {key: digest for key, digest in digests.items() if key.split("|")[0] == run_id}
        for topic, digests in result.items()
    }


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
    get_too_large(on_embedded, worker := poisoned(on_embedded, "size").start(), topic, LARGE[topic]())
    worker.stop()
    roomier = on_embedded.worker().start()
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(roomier)


@pytest.mark.kafka
@pytest.mark.parametrize("topic", LARGE)
@pytest.mark.in_turn(4)
def test_a_record_refused_for_its_size_sets_its_run_apart(on_kafka: Deployment, topic: str) -> None:
    worker = on_kafka.worker().start()
    on_kafka.configure(topic, max_message_bytes=20_000)
    get_too_large(on_kafka, worker, topic, LARGE[topic]())
    on_kafka.configure(topic, max_message_bytes=4_000_000)
    assert run_cli(on_kafka, "runs", "repair", SICK).returncode == 0
    on_kafka.wait_until_equal(worker)


# -----------------------------------------------------------------------------
# Real results through both engines: shuffled, three times over, misplaced, with garbage between.


GARBAGE_OF_REAL_DATA = [
    b"\xff\x00",
    b"{",
    b"[]",
    b'{"type": "trial_result"}',
    b'{"type": "?", "run_id": "r"}',
    b"x" * 2**20,
]
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
    """Send all in disorder; the digests are those of a plain fold, and each bad record is rejected once."""
    events, rng = real_events(), random.Random(11)
    sent = events * 3 + GARBAGE_OF_REAL_DATA
    rng.shuffle(sent)
    worker = on_both.worker().start()
    on_both.send([rng.randrange(4) for _ in sent], sent)
    on_both.published = events
    on_both.wait_until_equal(worker, seconds=120)
    rejections = on_both.rejections()
    assert len(rejections) == len(GARBAGE_OF_REAL_DATA)
    assert {rejection["code"] for rejection in rejections} == CODES


# -----------------------------------------------------------------------------
# A repair folds a run again from the log.


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.in_turn(4)
def test_repair_folds_the_run_again_from_the_log(on_both: Deployment, place: str) -> None:
    worker, _ = fall_sick(on_both, place)
    again = run_cli(on_both, "runs", "repair", SICK)
    assert again.returncode == 1
    assert "Poisoned: cannot be divided" in again.stderr.decode()
    assert degraded(on_both, SICK)
    worker.stop()
    upgraded = on_both.worker().start()
    assert run_cli(on_both, "runs", "repair", SICK).returncode == 0
    on_both.go_on(upgraded, [sick_trial("after")])
    assert not any(summary["degraded"] for summary in summaries_of(on_both, SICK))
    assert in_quarantine(on_both) == {}
    upgraded.stop()
    on_both.begun([sick_trial("at last")])


def test_a_run_in_good_order_can_be_folded_again_too(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(300))
    before = {record.key for record in on_embedded.records("trials-changelog")}
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    assert {record.key for record in on_embedded.records("trials-changelog")} > before
    on_embedded.go_on(worker, trial_events(360)[300:])
    worker.kill()
    on_embedded.begun(trial_events(420)[360:])
    unknown = run_cli(on_embedded, "runs", "repair", "run 77")
    assert unknown.returncode == 1
    assert "There is no run 'run 77'" in unknown.stderr.decode()


def test_a_request_to_repair_waits_for_the_next_worker(on_embedded: Deployment) -> None:
    worker, _ = fall_sick(on_embedded, "score")
    worker.kill()
    asked = run_cli(on_embedded, "runs", "repair", SICK, "--wait", "0")
    assert asked.returncode == 1
    assert "no worker has done it" in asked.stderr.decode()
    on_embedded.publish([sick_trial("later")])
    on_embedded.wait_until_equal(on_embedded.worker().start())


@pytest.mark.kafka
def test_a_repair_that_the_log_does_not_allow_changes_nothing(on_kafka: Deployment) -> None:
    worker, before = fall_sick(on_kafka, "score")
    on_kafka.delete_records("trial-events", {partition_of(SICK, on_kafka.partitions): 3})
    refused = run_cli(on_kafka, "runs", "repair", SICK)
    assert refused.returncode == 1
    assert "the log has lost its events before offset 3" in refused.stderr.decode()
    assert degraded(on_kafka, SICK)
    good = folded(before)
    assert on_kafka.in_redis(good) == good
    assert worker.alive


def test_a_rebuild_keeps_the_last_good_summaries_until_a_worker_is_upgraded(on_embedded: Deployment) -> None:
    worker, before = fall_sick(on_embedded, "cut")
    worker.stop()
    assert run_cli(on_embedded, "rebuild", "--switch").returncode == 0
    good = folded(before)
    assert on_embedded.in_redis(good) == good
    assert degraded(on_embedded, SICK)
    still = poisoned(on_embedded, "cut").start()
    still.wait_until(lambda: SICK in in_quarantine(on_embedded), "it fails again")
    still.wait_until(lambda: others_are_current(on_embedded), "all other runs are folded again")
    assert on_embedded.in_redis(good) == good
    still.stop()
    assert run_cli(on_embedded, "rebuild", "--switch").returncode == 0
    on_embedded.wait_until_equal(on_embedded.worker().start())
