"""A publisher to an embedded broker, whose topics are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.client import TrialPublisher
from streamer.settings import Settings
from tests.client.publish.publishing import make_topics, settings_of


@pytest.fixture
def settings(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


@pytest.fixture
def publisher(settings: Settings, tmp_path: Path) -> Iterator[TrialPublisher]:
    with TrialPublisher(settings, spill_dir=tmp_path) as publisher:
        yield publisher
