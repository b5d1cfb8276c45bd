"""`streamer events` on real brokers: what the log holds of a run, and a finished run priced anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of_key
from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_retraction, a_trial
from tests.support.layers import ENGINES

PARTITIONS = 3
PRICES = '[models."gpt-5"]\ninput = 100\noutput = 200\n'
TRIALS = [
    a_trial(task_id="estimated", input_tokens=1_000_000, output_tokens=0),
    a_trial(task_id="reported", input_tokens=1_000_000, output_tokens=0, cost_usd=7.0),
    a_trial(task_id="unknown"),
    a_trial(task_id="corrected", revision=1, input_tokens=1, output_tokens=1),
    a_trial(task_id="corrected", revision=2, input_tokens=0, output_tokens=1_000_000),
    a_trial(task_id="retracted", input_tokens=5, output_tokens=5),
    a_retraction(task_id="retracted"),
    a_plan(tasks=5, revision=3),
]


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, namespace: str) -> Settings:
    """A broker with an empty event topic, in a namespace of its own."""
    fixture = "embedded_broker" if request.param == "embedded" else "kafka_bootstrap"
    found = Settings(bootstrap=request.getfixturevalue(fixture), namespace=namespace)

    async def create() -> None:
        admin = AIOKafkaAdminClient(**found.kafka_options())
        await admin.start()
        await admin.create_topics([NewTopic(Names(namespace).trial_events, PARTITIONS, 1)])
        await admin.close()

    asyncio.run(create())
    return found


def options(settings: Settings) -> tuple[str, ...]:
    return "--bootstrap", settings.bootstrap, "--namespace", settings.namespace


def lines(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def send(settings: Settings, run: str, *values: bytes) -> None:
    """Send records as they are into the partition of the run."""

    async def producing() -> None:
        async with AIOKafkaProducer(**settings.kafka_options()) as producer:
            for value in values:
                await producer.send_and_wait(
                    Names(settings.namespace).trial_events,
                    value,
                    key=run.encode(),
                    partition=partition_of_key(run.encode(), PARTITIONS),
                )

    asyncio.run(producing())


def totals(folded: bytes) -> tuple[float, str]:
    """Total cost in USD and digest of the run's summary."""
    summaries = [json.loads(line) for line in folded.splitlines()]
    [run] = [summary for summary in summaries if summary["type"] == "run_summary"]
    return run["total_cost"], run["digest"]


def test_a_finished_run_is_priced_anew_from_what_the_log_holds(settings: Settings, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    other = [event | {"run_id": "run-10"} for event in TRIALS]
    assert streamer("publish", *options(settings), stdin=lines([*TRIALS, *other])).returncode == 0

    printed = streamer("events", "run-1", *options(settings))
    assert printed.returncode == 0
    assert [json.loads(line) for line in printed.stdout.splitlines()] == TRIALS
    assert b"8 events of run-1; 0 rejected" in printed.stderr

    before = streamer("fold", "-", "--json", stdin=printed.stdout)
    after = streamer("fold", "-", "--prices", prices, "--json", stdin=printed.stdout)
    assert (before.returncode, after.returncode) == (0, 0)
    assert totals(before.stdout)[0] == 1.25 + 7 + 10
    assert totals(after.stdout)[0] == 100 + 7 + 200
    assert totals(after.stdout) == totals(
        streamer("fold", "-", "--prices", prices, "--json", stdin=lines(TRIALS)).stdout
    )


def test_each_event_is_one_line_and_what_was_rejected_is_counted(settings: Settings) -> None:
    run = 'run "ä"\\1'
    spread = json.dumps(a_trial(run_id=run, trial_name="two\nlines"), indent=2).replace("\n", "\r\n").encode()
    odd = json.dumps(a_trial(run_id=run, trial_name="two")).encode().replace(b'"two"', b'"two", "x": NaN')
    bad = json.dumps({"type": "trial_result", "run_id": run}).encode()
    send(settings, run, spread, bad, b"garbage", b"", odd)
    printed = streamer("events", run, "--json", *options(settings))
    first, second = (json.loads(line) for line in printed.stdout.splitlines())
    assert (first["run_id"], first["trial_name"], second["trial_name"]) == (run, "two\nlines", "two")
    assert b"2 events of" in printed.stderr
    assert b"1 rejected record of it" in printed.stderr


def test_a_run_that_the_log_does_not_hold_is_exit_code_1_with_the_names_like_it(settings: Settings) -> None:
    empty = streamer("events", "run-1", *options(settings))
    assert (empty.returncode, empty.stdout) == (1, b"")
    assert b"nor of any other run" in empty.stderr
    send(settings, "run-1", lines(TRIALS[:1]))
    assert b"Did you mean run-1?" in streamer("events", "run-2", *options(settings)).stderr
    assert b"The latest of 1 runs in it: run-1" in streamer("events", "zzz", *options(settings)).stderr


def test_a_missing_topic_and_a_missing_broker_are_explained(settings: Settings) -> None:
    elsewhere = streamer("events", "r", "--bootstrap", settings.bootstrap, "--namespace", "nobody-here")
    assert elsewhere.returncode == 1
    assert b"topic 'nobody-here.trial-events' does not exist" in elsewhere.stderr
    nowhere = streamer("events", "r", "--bootstrap", "127.0.0.1:1")
    assert nowhere.returncode == 1
    assert b"no Kafka broker answers at 127.0.0.1:1" in nowhere.stderr
