"""Servers and names that tests of several folders use."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import tests.support.examples  # noqa: F401  (registers the profiles)
from streamer.operate.local.broker import Broker
from tests.fuzz.live.seeds import VARIABLE, a_seed
from tests.sources.inspect.running import INSPECT, Inspect
from tests.support.layers import ServerGuard, sort_into_layers, take_turns
from tests.support.peers import packed_product, peer_environment
from tests.support.servers import KafkaServer, RedisServer

servers = ServerGuard()


def pytest_report_header() -> str:
    """Which seed the turns, the fault suite and the live fuzzer have, and how to repeat it."""
    return f"seed of turns, faults and live fuzzing: {a_seed()}; {VARIABLE}={a_seed()} repeats it"


class AtOnce:
    """Shows each failure as it happens: a layer that its time limit ends has no closing report."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.write_line(f"\nFAILED at {report.when}: {report.nodeid}\n{report.longreprtext}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show failures at once, in the process that reports."""
    if (reporter := config.pluginmanager.get_plugin("terminalreporter")) is not None:
        config.pluginmanager.register(AtOnce(reporter))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put each test into its layer; of a whole layer, leave out those whose turn it is not."""
    sort_into_layers(items)
    if config.option.markexpr and os.environ.get("TURNS") != "all":
        items[:], waiting = take_turns(items, a_seed())
        config.hook.pytest_deselected(items=waiting)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no quick test start a server."""
    with servers.watching(item):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def no_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests never find the stack that a developer runs on this machine, nor the size of a terminal.

    Readline sets COLUMNS and LINES in the processes of pytest-xdist.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.delenv("LINES", raising=False)
        patch.setenv("STREAMER_DISCOVERY", str(tmp_path_factory.mktemp("discovery") / "running.json"))
        yield


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real Apache Kafka: KAFKA_BOOTSTRAP if set, else one started for this session.

    Tests that use it carry the marker `kafka`.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP")
    if given:
        yield given
        return
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.stop()


@pytest.fixture(scope="session")
def session_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis that `redis_server` lends to one test after the other."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def redis_server(session_redis: RedisServer) -> RedisServer:
    """A running, empty Redis; a test may stop, kill or flush it."""
    session_redis.start_empty()
    return session_redis


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[str]:
    """Address of a running embedded broker, shared by the session: use `namespace`."""
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def namespace() -> str:
    """A namespace of this test alone, so that tests can share servers."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def inspect_environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An environment with inspect_ai, and a folder with our wheel installed."""
    return peer_environment(INSPECT), packed_product(tmp_path_factory.mktemp("product"))


@pytest.fixture
def inspect_ai(inspect_environment: tuple[Path, Path], tmp_path: Path) -> Inspect:
    """inspect_ai with our hook, in a folder of its own. Tests that use it carry the marker `peer`."""
    return Inspect(*inspect_environment, tmp_path)
