"""One key of a run on its way to Redis: its history and who is told."""

from __future__ import annotations

import json

import redis

from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.redis.test_in_flight import RUN, Worker
from tests.redis.test_named_boards import result
from tests.support.builders import a_formulacode_summary, a_tier_change, an_agent_model_change, an_update

KEYS = Keys()


async def test_every_emission_is_told_once_and_a_repeated_write_is_not(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    change = a_tier_change(
        "r:1", "T0", "a", "m", version=4, means={"pass_rate": 0.5, "composite_score": 0.25}
    )
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        for _ in range(3):
            await sink.write([an_update(change)])
        message = listener.get_message(timeout=5)
        assert message
        assert json.loads(message["data"]) == {
            "run": "r:1",
            "kind": "tier",
            "group": "T0:a:m",
            "key": "streamer:{r%3A1}:tier:T0:a:m",
            "deleted": False,
            "epoch": 1,
            "state_version": 4,
        }
        assert listener.get_message(timeout=0.05) is None
    [(_, entry)] = client.xrange(KEYS.history("r:1"))
    assert entry == {
        "kind": "tier",
        "group": "T0:a:m",
        "epoch": "1",
        "state_version": "4",
        "last_event_at": "2026-01-02T03:04:05Z",
        "trials": "1",
        "accuracy": "1.0",
        "pass_rate": "0.5",
        "composite_score": "0.25",
        "provisional": "false",
    }


async def test_the_history_of_an_agent_has_the_headline_numbers_of_formulacode(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    formulacode = a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125)
    await make_sink().write([an_update(an_agent_model_change("r", "a", "m", formulacode=formulacode))])
    [(_, entry)] = client.xrange(KEYS.history("r"))
    assert (entry["mean_speedup"], entry["agent_advantage"]) == ("1.25", "-0.125")


async def test_the_history_has_the_means_of_the_named_metrics_that_the_plan_names(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    plan = {"type": "run_started", "run_id": RUN, "metrics": {"reward": {}, "not-yet": {}}}
    await worker.publish(plan, result("t", reward=0.5, style=3.0), result("u", reward=0.25))
    entries = {entry["kind"]: entry for _, entry in client.xrange(KEYS.history(RUN))}
    named = {
        kind: {name: mean for name, mean in entry.items() if name.startswith("metrics/")}
        for kind, entry in entries.items()
    }
    assert named == {"run": {}, "agent_model": {"metrics/reward": "0.375"}}
