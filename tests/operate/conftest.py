"""A Redis and a broker, and what is fed into them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.web.report.conftest import environment, feed, settings

__all__ = ["environment", "feed", "settings", "stack"]


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param, bootstrap_of(request, request.param)


@pytest.fixture(scope="module")
def stack(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    with online(tmp_path_factory.mktemp("verify"), engine[1], engine[0], worker=True) as result:
        yield result


@pytest.fixture
def idle(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    with online(tmp_path_factory.mktemp("idle"), engine[1], engine[0], worker=False) as result:
        yield result
