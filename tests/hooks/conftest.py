"""harbor itself, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.settings import Settings
from tests.client.publish.publishing import make_topics, settings_of
from tests.support.peers import newer_python, peer_environment

HARBOR = "harbor==0.26.0"
"""The version that the plug-in is tested with."""


@pytest.fixture(scope="session")
def harbor() -> Path:
    """The folder of an environment with harbor and what our base needs."""
    return peer_environment(HARBOR, python=newer_python(12))


@pytest.fixture
def settings(embedded_broker: str, namespace: str) -> Settings:
    """A namespace with topics on the embedded broker."""
    return make_topics(settings_of(embedded_broker, namespace))
