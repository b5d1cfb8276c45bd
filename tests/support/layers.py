"""The layers of the tests: every test is in exactly one, by what it starts.

- `quick`: no broker, no Redis, no worker, no browser. `make test`.
- `stack`: the embedded broker, Redis, workers, a browser, or more than ten seconds. `make test-stack`.
- `kafka`: a real Apache Kafka. `make test-kafka`.
- `peer`: another project's package from PyPI, in an environment of its own. `make test-peers`.

A fixture that lends a server puts its tests into their layer. A test that starts a server itself carries the
marker of its layer. A test that starts a server which its layer lacks fails.

Tests that say one thing of several engines, widths or kinds of failure carry the marker `in_turn`, and so do
tests that take a minute. A layer runs one of so many, by the commit's hash. `TURNS=all` runs all of them, and
so does a file by its name.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from zlib import crc32

import pytest

LAYERS = ("quick", "stack", "kafka", "peer")
"""Markers, of which every test has one."""

KAFKA = {"kafka_bootstrap", "own_kafka", "secured"}
"""Fixtures that start Apache Kafka."""

STACK = {"session_redis", "embedded_broker", "secure_redis"}
"""Fixtures that start another server."""

IN_LAYERS = {"embedded": pytest.mark.stack, "kafka": pytest.mark.kafka}

ENGINES = [pytest.param(name, marks=(layer, pytest.mark.in_turn(2))) for name, layer in IN_LAYERS.items()]
"""For a fixture that looks a broker up by name: the embedded one and Kafka, by turns, each in its layer."""

EMBEDDED_ALONE, KAFKA_ALONE = ([pytest.param(name, marks=layer)] for name, layer in IN_LAYERS.items())
"""For tests of which one engine is enough: commands that read, or that are called again and again."""

BY_GUARD = r"operate/local/parent_death\.py\0"
AS_WORKER = r"-m\0streamer\.worker\b"
BY_COMMAND = r"(main\(\)\0|\bstreamer[\0 ])(up|demo|live|worker)\b"
FORBIDDEN = {
    "quick": re.compile(f"{BY_GUARD}|{AS_WORKER}|{BY_COMMAND}"),
    "stack": re.compile(r"\0kafka\.Kafka\0"),
}
"""Commands, with NUL between the arguments, that no test of the layer may run."""

explicit = pytest.StashKey[bool]()
"""Set on a test that carries the marker of its layer in its source."""


def layer_of(markers: set[str], fixtures: Iterable[str]) -> str:
    """The layer of a test with these markers and fixtures; a marker that names a layer decides."""
    given = [layer for layer in LAYERS if layer in markers]
    if len(given) > 1:
        raise pytest.UsageError(f"A test has the markers {' and '.join(given)}. Keep the one of its layer.")
    if given:
        return given[0]
    if not KAFKA.isdisjoint(fixtures):
        return "kafka"
    return "quick" if STACK.isdisjoint(fixtures) and markers.isdisjoint({"browser", "slow"}) else "stack"


def sort_into_layers(items: Iterable[pytest.Item]) -> None:
    """Give each test the marker of its layer."""
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        layer = layer_of(markers, getattr(item, "fixturenames", ()))
        item.stash[explicit] = layer in markers
        if layer not in markers:
            item.add_marker(layer)


def take_turns(items: Iterable[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests whose turn it is with this seed, and those that wait: of each function one of so many."""
    chosen: list[pytest.Item] = []
    waiting: list[pytest.Item] = []
    seen = Counter[str]()
    for item in items:
        marker = item.get_closest_marker("in_turn")
        function = item.nodeid.partition("[")[0]
        of = marker.args[0] if marker else 1
        place = crc32(function.encode()) + seen[function] + seed
        (waiting if place % of else chosen).append(item)
        seen[function] += 1
    return chosen, waiting


class ServerGuard:
    """Lets no test start a server that its layer lacks. Make one for the process: its hook stays."""

    def __init__(self) -> None:
        self._test = ""
        self._forbidden: re.Pattern[str] | None = None
        sys.addaudithook(self._see)

    @contextmanager
    def watching(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test. A test that is marked `quick` in its source may start what it likes."""
        [layer] = [layer for layer in LAYERS if item.get_closest_marker(layer)]
        excused = layer == "quick" and item.stash[explicit]
        self._test, self._forbidden = item.nodeid, None if excused else FORBIDDEN.get(layer)
        try:
            yield
        finally:
            self._forbidden = None

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._forbidden is None or event != "subprocess.Popen":
            return
        command = arguments[1]
        words = "\0".join(map(str, command)) if isinstance(command, list | tuple) else str(command)
        if self._forbidden.search(words + "\0"):
            raise AssertionError(
                f"{self._test} starts a server that its layer lacks: {words!r}. "
                "Mark the test with the layer that has it: pytest.mark.stack or pytest.mark.kafka."
            )
