"""The embedded broker ends when told, and serves clients of another library."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from streamer.operate.local.broker import Broker, DurableBroker
from streamer.operate.local.processes import EmbeddedError, kafka_answers
from tests.operate.journaled import durable, values
from tests.support.peers import peer_environment, run_in_peer


@pytest.mark.stack
def test_the_embedded_broker_ends_when_told() -> None:
    with Broker() as broker:
        assert kafka_answers(broker.port)
    assert not broker.child.alive
    assert not kafka_answers(broker.port)


def test_a_file_of_the_journal_that_cannot_be_read_is_named() -> None:
    alive, ended = SimpleNamespace(child=SimpleNamespace(alive=True)), Thread()
    denied = PermissionError(13, "Permission denied", "journal/00000001.journal")
    for failure, says in ((denied, "journal/00000001.journal"), (ValueError("odd"), "must stop: ValueError")):
        broker: Any = SimpleNamespace(_broker=alive, _thread=ended, _failure=failure)
        with pytest.raises((OSError, EmbeddedError), match=says):
            DurableBroker.check(broker)


PROGRAM = """
import sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1])
print(producer.config["enable_idempotence"])
sent = [producer.send("trial-events", b"%d" % number, partition=number % 3) for number in range(300)]
print(len([one.get(30) for one in sent]))
"""


@pytest.mark.peer
def test_a_client_that_is_idempotent_by_default_is_served(tmp_path: Path) -> None:
    peer = peer_environment("kafka-python==3.0.12", with_base=False)
    with durable(tmp_path) as broker:
        done = run_in_peer(peer, "python", "-c", PROGRAM, broker.bootstrap, cwd=tmp_path)
        assert done.stdout.split() == ["True", "300"], done.stderr
    with durable(tmp_path) as broker:
        assert sorted(values(broker, 300).values(), key=int) == [b"%d" % number for number in range(300)]
