"""Deployments that commands are called on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.layers import KAFKA_ALONE
from tests.support.online import Online, bootstrap_of, online
from tests.web.report.conftest import settings

__all__ = ["settings", "stack"]


@pytest.fixture(params=KAFKA_ALONE, scope="package")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    directory = tmp_path_factory.mktemp("online")
    with online(directory, bootstrap_of(request, request.param), request.param, worker=True) as result:
        yield result
