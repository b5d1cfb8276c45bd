"""What goes wrong with one run stays with that run: real workers, a real broker, a real Redis."""

from __future__ import annotations

import asyncio
import base64

import orjson
import pytest
import redis

from streamer.client.queries import UnknownRun
from streamer.client.readers import StateReader
from streamer.folding.score.prices import PriceTable
from streamer.operate.health import read_health
from streamer.operate.verify import Verification
from streamer.schemas.base import encode_id
from streamer.worker.process import ensure_topics
from tests.worker.deployment import Deployment, folded, trial_events
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
)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_run_that_fails_is_set_apart_and_all_others_go_on(on_both: Deployment, place: str) -> None:
    worker, before = fall_sick(on_both, place)
    assert in_quarantine(on_both) == {SICK: "Poisoned: cannot be divided"}
    good = folded(before)
    mine = {k: d for topic in good for k, d in on_both.in_topics()[topic].items()}
    assert {k: mine[k] for topic in good for k in good[topic]} == {
        k: d for found in good.values() for k, d in found.items()
    }, "the last good summaries stand"
    in_redis = on_both.in_redis(good)
    assert in_redis == good
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


def test_the_event_at_which_a_run_failed_is_rejected_with_its_bytes(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    [rejection] = [orjson.loads(record.value) for record in on_embedded.records("trial-rejections")]
    assert (rejection["code"], rejection["run_id"]) == ("quarantined", SICK)
    assert base64.b64decode(rejection["source_value_base64"]) == sick_trial()
    assert "streamer runs repair" in rejection["message"]


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
    verification = Verification(
        on_embedded.settings, prices=PriceTable.default(), wait_seconds=9, topics=True
    )
    assert {verdict.outcome for verdict in verification.verify(None)} == {"equal"}


def test_a_run_that_failed_at_its_first_event_can_be_deleted(on_embedded: Deployment) -> None:
    worker = poisoned(on_embedded, "score").start()
    on_embedded.publish([sick_trial()])
    worker.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    assert run_cli(on_embedded, "delete", SICK, "--yes").returncode == 0
    worker.wait_until(lambda: in_quarantine(on_embedded) == {}, "it is forgotten")


def test_a_page_that_cannot_be_loaded_sets_its_run_apart(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish([sick_trial(), *trial_events(300)])
    on_embedded.wait_until_equal(worker)
    worker.kill()
    second = poisoned(on_embedded, "load").start()
    second.wait_until(lambda: SICK in in_quarantine(on_embedded), "it is set apart")
    on_embedded.publish(trial_events(330)[300:])
    second.wait_until(lambda: others_are_current(on_embedded), "all other runs are current")
    second.wait_until(lambda: degraded(on_embedded, SICK), "its last good summaries stand and say so")
    second.kill()
    third = on_embedded.worker().start()
    third.wait_until(lambda: SICK in in_quarantine(on_embedded), "it stays apart until somebody repairs it")
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(third)


def test_redis_that_lost_its_data_gets_the_degraded_summaries_back(
    on_embedded: Deployment,
) -> None:
    worker, before = fall_sick(on_embedded, "score")
    good = folded(before)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: on_embedded.in_redis(good) == good, "Redis has the last good summaries")
    with StateReader(on_embedded.settings) as reader:
        assert reader.run(SICK).degraded == "Poisoned: cannot be divided"


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


def test_topic_and_redis_say_degraded_in_the_same_bytes(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "cut")
    value = on_embedded.latest("run-summaries")[encode_id(SICK)]
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        assert client.get(on_embedded.keys.of_run(SICK, "run")) == value


def test_an_emptied_redis_gets_the_bytes_of_the_topics_back_in_quarantine_and_after_the_repair(
    on_embedded: Deployment,
) -> None:
    poisoned_worker, _ = fall_sick(on_embedded, "score")
    poisoned_worker.kill()
    worker = on_embedded.worker().start()
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert degraded(on_embedded, SICK)
    assert run_cli(on_embedded, "runs", "repair", SICK).returncode == 0
    on_embedded.wait_until_equal(worker)
    assert same_bytes(on_embedded, SICK)
    with redis.Redis.from_url(on_embedded.redis_url) as client:
        client.flushall()
    worker.wait_until(lambda: same_bytes(on_embedded, SICK), "Redis has what the topics hold")
    assert not any(orjson.loads(value)["degraded"] for value in values(on_embedded, SICK)[1].values())
    verification = Verification(
        on_embedded.settings, prices=PriceTable.default(), wait_seconds=30, topics=True
    )
    assert [v.differences for v in verification.verify(None) if v.outcome != "equal"] == []


def test_verify_with_topics_tells_of_a_run_in_quarantine(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    prices, settings = PriceTable.default(), on_embedded.settings
    verdicts = Verification(settings, prices=prices, wait_seconds=9, topics=True).verify(None)
    assert [verdict.run_id for verdict in verdicts if verdict.outcome != "equal"] == [SICK]
    [sick] = [verdict for verdict in verdicts if verdict.run_id == SICK]
    assert sick.outcome == "unverifiable"
    assert "in quarantine (Poisoned: cannot be divided)" in (sick.reason or "")


def test_status_query_and_verify_tell_of_a_run_in_quarantine(on_embedded: Deployment) -> None:
    fall_sick(on_embedded, "score")
    said = run_cli(on_embedded, "query", "run", SICK, "--json").stderr.decode()
    assert "in quarantine (Poisoned: cannot be divided)" in said
    problems = read_health(on_embedded.settings).problems
    assert any(SICK in problem and "streamer runs repair" in problem for problem in problems)
    verification = Verification(on_embedded.settings, prices=PriceTable.default(), wait_seconds=9)
    verdicts = {verdict.run_id: verdict for verdict in verification.verify(None)}
    assert verdicts[SICK].outcome == "unverifiable"
    assert "quarantine" in (verdicts[SICK].reason or "")
    assert {verdict.outcome for run, verdict in verdicts.items() if run != SICK} == {"equal"}
