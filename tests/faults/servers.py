"""The servers of a fault run, with a link of its own for each worker to each of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port, kafka_answers
from streamer.storage.outbox import LoopThread
from tests.faults.proxy import Link
from tests.support.servers import KAFKA_READY_SECONDS, KafkaServer, RedisServer

WORKERS = 4
"""So many workers at most have links."""


class Node(KafkaServer):
    """One broker of a cluster; each worker has a listener, which is advertised as the worker's link.

    Args:
        number: node id, from 1.
        voters: controller ports of all nodes, by node id.
        links: of each worker, started, to be pointed here.
    """

    def __init__(self, directory: Path, number: int, voters: dict[int, int], links: list[Link]) -> None:
        super().__init__(directory)
        self.number = number
        self.links = links
        self._voters = voters
        self._controller_port = voters[number]
        for link in links:
            link.target = free_port()
        self._java[self._java.index("-Xmx512m")] = "-Xmx256m"
        self.child.argv = [*self._java, "kafka.Kafka", str(self._properties)]

    def launch(self) -> None:
        """Start it without waiting: a node alone has no controller to answer with."""
        if not self._properties.exists():
            self._format()
        self.child.start()

    def wait(self) -> None:
        """Wait until it answers."""
        self.child.wait_ready(lambda: kafka_answers(self.port), 2 * KAFKA_READY_SECONDS)

    def _settings(self) -> dict[str, object]:
        names = [f"W{number}" for number in range(len(self.links))]
        direct, controller = (
            f"PLAINTEXT://127.0.0.1:{self.port}",
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
        )
        pairs = list(zip(names, self.links, strict=True))
        replicas = min(3, len(self._voters))
        return super()._settings() | {
            "node.id": self.number,
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in self._voters.items()),
            "listeners": ",".join([direct, *(f"{n}://127.0.0.1:{k.target}" for n, k in pairs), controller]),
            "advertised.listeners": ",".join([direct, *(f"{n}://127.0.0.1:{k.port}" for n, k in pairs)]),
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "offsets.topic.replication.factor": replicas,
            "default.replication.factor": replicas,
            "min.insync.replicas": max(1, replicas - 1),
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "controlled.shutdown.enable": "false",
            "log.cleaner.backoff.ms": 300,
        }


class Kafka:
    """Apache Kafka of one or three brokers (then with replication 3 and min.insync.replicas 2)."""

    embedded = False

    def __init__(self, directory: Path, threads: LoopThread, brokers: int) -> None:
        self.replication = brokers
        self.links = [[Link(threads).start() for _ in range(WORKERS)] for _ in range(brokers)]
        voters = {number: free_port() for number in range(1, brokers + 1)}
        self.nodes: list[Node] = []
        for number, links in enumerate(self.links, 1):
            (directory / f"kafka-{number}").mkdir()
            self.nodes.append(Node(directory / f"kafka-{number}", number, voters, links))

    @property
    def bootstrap(self) -> str:
        """Where publisher and checker connect: past all links."""
        return ",".join(node.bootstrap for node in self.nodes)

    def bootstrap_of(self, worker: int) -> str:
        """Where a worker connects."""
        return ",".join(f"127.0.0.1:{links[worker].port}" for links in self.links)

    def links_of(self, worker: int) -> list[Link]:
        """A worker's links to the brokers."""
        return [links[worker] for links in self.links]

    def start(self) -> None:
        """Start all and wait for all."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()

    def stop(self) -> None:
        """End all."""
        for node in self.nodes:
            node.kill()
        for link in (link for links in self.links for link in links):
            link.stop()


class Embedded:
    """The embedded broker. It advertises one address, so workers, publisher and checker share one way."""

    embedded, replication = True, 1

    def __init__(self, directory: Path) -> None:
        self._broker = Broker(log=directory / "broker.log")
        self.nodes: list[Node] = []
        self.bootstrap = self._broker.bootstrap

    def bootstrap_of(self, worker: int) -> str:
        """Where everybody connects."""
        return self.bootstrap

    def links_of(self, worker: int) -> list[Link]:
        """There are none."""
        return []

    def start(self) -> None:
        """Start it."""
        self._broker.start()

    def stop(self) -> None:
        """End it."""
        self._broker.stop()


class LinkedRedis:
    """A real Redis, and each worker's link to it."""

    def __init__(self, directory: Path, threads: LoopThread) -> None:
        self.server = RedisServer(directory)
        self.directory = directory
        self.links = [Link(threads, target=self.server.port).start() for _ in range(WORKERS)]

    def url_of(self, worker: int) -> str:
        """Where a worker connects."""
        return f"redis://127.0.0.1:{self.links[worker].port}/0"

    def forget_copies(self) -> None:
        """Remove what it would load at its start."""
        (self.directory / "dump.rdb").unlink(missing_ok=True)

    def stop(self) -> None:
        """End it."""
        self.server.kill()
        heal(self.links)
        for link in self.links:
            link.stop()


def heal(links: Iterable[Link]) -> None:
    """Heal all of these."""
    for link in links:
        link.heal()
