"""Either broker."""

from __future__ import annotations

import pytest

from streamer.settings import Settings
from tests.support.layers import ENGINES


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest) -> Settings:
    fixture = "embedded_broker" if request.param == "embedded" else "kafka_bootstrap"
    return Settings(bootstrap=request.getfixturevalue(fixture), embedded=request.param == "embedded")
