"""Either broker."""

from __future__ import annotations

import pytest

from streamer.settings import Settings


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def settings(request: pytest.FixtureRequest) -> Settings:
    fixture = "embedded_broker" if request.param == "embedded" else "kafka_bootstrap"
    return Settings(bootstrap=request.getfixturevalue(fixture), embedded=request.param == "embedded")
