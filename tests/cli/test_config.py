"""`streamer config`: which configuration is current, and how another one becomes it."""

from __future__ import annotations

import asyncio
import json

import pytest

from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.support.cli import streamer


@pytest.fixture
def told(settings: Settings, environment: dict[str, str]) -> dict[str, str]:
    """A deployment with topics, in which no worker has begun."""
    asyncio.run(ensure_topics(settings))
    return environment | {"STREAMER_PARTITIONS": str(settings.partitions)}


def test_a_configuration_is_adopted_once(told: dict[str, str]) -> None:
    shown = json.loads(streamer("config", "show", "--json", environment=told).stdout)
    assert (shown["current"], shown["workers"]) == (None, {})
    first = streamer("config", "adopt", environment=told)
    assert f"{shown['this_command']} is current now; 0 live workers have it" in first.stderr.decode()
    again = streamer("config", "adopt", environment=told)
    assert "is current already" in again.stderr.decode()
    table = streamer("config", "show", environment=told).stdout.decode()
    assert table.count(shown["this_command"]) == 2


def test_a_configuration_that_nobody_has_is_refused_with_those_there_are(told: dict[str, str]) -> None:
    done = streamer("config", "adopt", "0123456789abcdef", environment=told)
    assert done.returncode == 2
    assert b"neither this command nor a live worker has the configuration" in done.stderr
