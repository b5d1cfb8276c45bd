"""Servers, feeds and viewers that are closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.sync_api import Browser, Page

from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.web.log import TrialLog
from tests.client.publish.publishing import PARTITIONS, make_topics
from tests.support.servers import RedisServer
from tests.support.simulated import simulate
from tests.web.browsing import START, WIDTHS, WebProcess, a_browser, a_page, a_stack, publish
from tests.web.feeding import Feed, StandingClock
from tests.web.serving import Serving
from tests.web.viewer import PATH, Viewer, Watch


@pytest.fixture
def settings(redis_server: RedisServer, namespace: str) -> Settings:
    """A Redis of the test's own; the broker answers only where the test asks for `logged`."""
    return Settings(redis=redis_server.url, namespace=namespace, bootstrap="127.0.0.1:1")


@pytest.fixture
def logged(settings: Settings, embedded_broker: str) -> Settings:
    """The same, with a broker."""
    return settings.model_copy(update={"bootstrap": embedded_broker, "embedded": True})


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker of the test's own, which may stop it."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def serving(settings: Settings) -> Iterator[Serving]:
    with Serving(settings) as serving:
        yield serving


@pytest.fixture
def api(logged: Settings) -> Iterator[Serving]:
    """The same, with a log."""
    with Serving(logged) as serving:
        yield serving


@pytest.fixture
def topics(logged: Settings) -> Settings:
    return make_topics(logged.model_copy(update={"partitions": PARTITIONS}))


@pytest.fixture
def publishing(topics: Settings) -> Iterator[Serving]:
    with Serving(topics) as serving:
        yield serving


@pytest.fixture
async def feed(settings: Settings) -> AsyncIterator[Feed]:
    async with Feed(settings) as feed:
        yield feed


@pytest.fixture
async def log_feed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def log(logged: Settings, clock: StandingClock) -> TrialLog:
    return TrialLog(logged, clock)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with a_stack(tmp_path_factory.mktemp("stack")) as settings:
        yield settings


@pytest.fixture(scope="module")
def web(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with WebProcess(stack, tmp_path_factory.mktemp("web")) as web:
        yield web


@pytest.fixture(scope="module")
def simulated(stack: Settings) -> None:
    publish(stack, simulate(seed=5, start=START))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page; errors in its console fail the test, unless the server was away."""
    with a_page(browser, "ERR_CONNECTION", viewport={"width": 1280, "height": 900}) as page:
        yield page


@pytest.fixture(params=WIDTHS)
def sized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A new page of each width; errors in its console fail the test, unless a file was refused."""
    with a_page(browser, "/artifacts/", viewport={"width": request.param, "height": 800}) as page:
        yield page


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    viewers: list[Viewer] = []

    def make(serving: Serving, path: str = PATH) -> Viewer:
        viewers.append(Viewer(serving.port, path))
        return viewers[-1]

    yield make
    for viewer in viewers:
        await viewer.close()
