"""The real runs of the fault suite are checked by numbers that a plain fold has too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.storage.kafka import Names
from tests.faults import kinds_events, kinds_kafka, kinds_quarantine, kinds_redis, kinds_up, kinds_workers
from tests.faults.bed import Bed
from tests.faults.kind import Kind
from tests.faults.real import RUNS, RealRuns
from tests.faults.run import Run
from tests.faults.traffic import Traffic
from tests.faults.up_bed import UpBed
from tests.fuzz.live.seeds import a_seed
from tests.support.data import shared_data


def test_a_fold_of_the_real_runs_has_the_numbers_of_their_harnesses() -> None:
    real, names = RealRuns(shared_data(), seed=1), Names("faults")
    pipeline = Pipeline()
    messages = real.messages(Traffic(1, 4))
    pipeline.fold(Record(message.value, offset) for offset, message in enumerate(messages))
    topics = {
        "agent_model": names.agent_model_summaries,
        "tier": names.tier_summaries,
        "run": names.run_summaries,
    }
    latest: dict[str, dict[str, bytes]] = {topic: {} for topic in topics.values()}
    for run in pipeline.runs():
        for change in pipeline.run(run).summaries():
            if change.value is not None:
                latest[topics[change.kind]][change.key] = change.value
    assert real.check(latest, names) == RUNS + 1


# -----------------------------------------------------------------------------
# The fault suite in short: some kinds once, and what happens when a safeguard is missing.
#
# `make faults` runs every kind many times; docs/reliability.md has its table.


SHORT: list[list[type[Kind]]] = [
    [
        kinds_workers.WorkerKilled,
        kinds_redis.RedisEmptied,
        kinds_events.Poison,
        kinds_events.Duplicated,
        kinds_events.FalseOffsets,
        kinds_kafka.BrokerKilled,
    ],
    [
        kinds_redis.RedisOutOfMemory,
        kinds_kafka.ChangelogDeleted,
        kinds_quarantine.PoisonOfRun,
        kinds_workers.PrivatePoison,
        kinds_workers.ClockJump,
        kinds_kafka.ProduceRefused,
        kinds_workers.Zombie,
        kinds_kafka.LateWrites,
    ],
]
ON_EMBEDDED: list[list[type[Kind]]] = [
    [
        kinds_workers.AllWorkersKilled,
        kinds_redis.RedisKilled,
        kinds_events.Poison,
        kinds_events.Duplicated,
        kinds_redis.RedisCut,
        kinds_events.Bomb,
        kinds_events.FalseOffsets,
    ],
    [
        kinds_redis.RedisOfAnotherLog,
        kinds_workers.ClockJump,
        kinds_workers.PrivatePoison,
        kinds_workers.PageLost,
        kinds_redis.RedisOutOfMemory,
    ],
]


def possible(kinds: list[type[Kind]]) -> list[type[Kind]]:
    """Those that this machine can have: CI has to have all."""
    lacks = {kind: kind.missing() for kind in kinds}
    told = [f"SKIPPED LOUDLY: {kind.name}: {lack}" for kind, lack in lacks.items() if lack]
    assert not (told and os.environ.get("CI")), told
    print(*told, sep="\n")
    return [kind for kind, lack in lacks.items() if not lack]


def in_turn(kinds: list[type[Kind]], of: int = 3) -> list[type[Kind]]:
    """One kind of so many by the seed, which another commit changes. TURNS=all and `make faults` have all."""
    return kinds if os.environ.get("TURNS") == "all" else kinds[a_seed() % of :: of]


def nothing_is_wrong(run: Run) -> None:
    """Every fault came with events in flight and was read through; nothing was found wrong after any."""
    assert [result for result in run.results if not result.good] == []
    assert all(result.in_flight + result.meanwhile > 0 for result in run.results)
    assert all(result.reads > 0 for result in run.results)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_faults_lose_nothing_and_count_nothing_twice_on_kafka(tmp_path: Path) -> None:
    with Bed("kafka", tmp_path, seed=a_seed()) as bed:
        run = Run(bed)
        run.episodes(possible(in_turn(kinds, 2)) for kinds in SHORT)
    nothing_is_wrong(run)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_faults_lose_nothing_and_count_nothing_twice_on_the_embedded_broker(tmp_path: Path) -> None:
    with Bed("embedded", tmp_path, seed=a_seed()) as bed:
        run = Run(bed)
        run.episodes(map(possible, map(in_turn, ON_EMBEDDED)))
    nothing_is_wrong(run)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_end_of_up_loses_anything_while_a_publisher_goes_on(tmp_path: Path) -> None:
    with UpBed("up", tmp_path, seed=a_seed()) as bed:
        run = Run(bed)
        run.episode([*in_turn(list(kinds_up.KINDS)), kinds_events.FalseOffsets])
    nothing_is_wrong(run)


class JournalTruncated(kinds_up.TreeKilled):
    """Half of the journal is gone when `up` starts again."""

    def heal(self) -> None:
        for segment in (self.up_bed.up.stack.data / "journal").glob("*.journal"):
            os.truncate(segment, segment.stat().st_size // 2)
        super().heal()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.in_turn(2)
def test_the_suite_fails_where_up_loses_what_it_acknowledged(tmp_path: Path) -> None:
    with UpBed("up", tmp_path, seed=7) as bed:
        run = Run(bed, patience_seconds=3)
        run.episode([JournalTruncated])
    assert run.results[0].lost > 0
    assert any("what was acknowledged is not there" in wrong for wrong in run.results[0].wrong)


def a_broken_run(directory: Path, broken: str, *kinds: type[Kind]) -> Run:
    """An episode with workers that lack a safeguard."""
    module, environment = "tests.faults.broken_worker", {"BROKEN": broken}
    with Bed("kafka", directory, seed=7, module=module, environment=environment) as bed:
        run = Run(bed, patience_seconds=3)
        run.episode(list(kinds))
    return run


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.in_turn(2)
def test_the_suite_fails_where_duplicates_count_again(tmp_path: Path) -> None:
    run = a_broken_run(tmp_path, "dedup", kinds_events.Duplicated)
    assert run.results[0].double > 0


class LateRedisWrites(kinds_kafka.LateWrites):
    """Always those to Redis."""

    only_redis = True


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.in_turn(2)
def test_the_suite_fails_where_redis_takes_older_versions(tmp_path: Path) -> None:
    run = a_broken_run(tmp_path, "guard", LateRedisWrites)
    assert any("went back" in difference for difference in run.results[0].wrong)
