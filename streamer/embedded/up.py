"""`streamer up`: broker, Redis, worker and page on this machine, in one process tree that ends together.

What it keeps: every event that it acknowledged. Such an event is in the journal, synced to the disk, before
its producer gets the acknowledgement. So it survives every end of these processes, and a power cut. At the
next start the worker computes the same digests from them. While the disk is full no event is acknowledged.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from streamer.discovery import discovery_path, read_discovery, remove_discovery, write_discovery
from streamer.embedded.broker import broker_binary
from streamer.embedded.data_dir import DataDir
from streamer.embedded.durable import DurableBroker
from streamer.embedded.environment import child_environment
from streamer.embedded.errors import EmbeddedError, ServerFailed
from streamer.embedded.memory import MemoryWatch, default_limit_bytes, resident_bytes
from streamer.embedded.probe import claimed_port
from streamer.embedded.processes import Child
from streamer.embedded.signals import Stopped, stopped_by_signals
from streamer.embedded.supervisor import Supervisor
from streamer.embedded.valkey import Valkey, valkey_binary
from streamer.embedded.web_access import WebAccess
from streamer.settings import Settings
from streamer.text import counted

WORKER = (sys.executable, "-m", "streamer.worker")
WEB = (sys.executable, "-m", "streamer.web")
WORKER_STOP_SECONDS, REPORT_SECONDS = 20.0, 60.0
LOOK_SECONDS = 0.2
START_LOOK_SECONDS = 0.05
"""At the start the user waits."""

MEMORY_LOOK_SECONDS = 5.0
PROBLEM_SECONDS = 1.0


def run_up(
    settings: Settings,
    *,
    data_dir: Path | None,
    ephemeral: bool,
    echo: Callable[[str], None],
    port: int | None = None,
    redis_port: int | None = None,
    worker: Sequence[str] = WORKER,
    web_port: int | None = None,
    web: WebAccess | None = None,
    extra: Extra | None = None,
) -> int:
    """Run the stack until Ctrl-C or SIGTERM. Returns the exit code: 0, or 1 if it could not start or go on.

    To be called from the main thread, once per process: it takes over the signals.

    Args:
        settings: namespace, partitions and the worker's settings; its bootstrap and Redis are not used.
        data_dir: where the journal and the logs are; None: the settings' one, else the user's data directory.
        ephemeral: keep nothing; `data_dir` is not used.
        echo: takes each line for the user.
        port: loopback port of the broker; None: a free one.
        redis_port: likewise of Redis.
        worker: command line of the worker, which gets its settings as STREAMER_* variables.
        web_port, web: port of the page, None: no page; and who may open it, None: this machine.
        extra: one more process; None: none.
    """
    try:
        for needed in (broker_binary, valkey_binary):
            needed()  # before anything is made: this platform may have none
        with stopped_by_signals() as signals, ExitStack() as stack:
            if ephemeral:
                path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamer-")))
            else:
                path = data_dir or settings.data_root
            directory = DataDir(path.absolute())
            stack.enter_context(directory.locked())
            for chosen in (port, redis_port, web_port):
                if chosen is not None:
                    claimed_port(chosen).close()
            ports = (
                port or directory.usual_port("broker"),
                redis_port or directory.usual_port("redis"),
                web_port,
            )
            up = Up(settings, directory, echo, ephemeral, ports, worker, web or WebAccess(), extra)
            stack.callback(up.stop)
            stack.callback(signals.force_from_now_on)
            up.start()
            up.supervise()
    except Stopped:
        echo("Everything ended." if ephemeral else "Everything ended; all that was acknowledged is kept.")
        return 0
    except EmbeddedError as error:
        echo(str(error))
        return 1
    except OSError as error:
        echo(f"`up` cannot go on: {error}. Check that disk and its permissions, then start again.")
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class Extra:
    """A process that runs beside the others and is not needed.

    Attributes:
        name: for people, and of its log.
        argv: command line; it gets the settings as STREAMER_* variables.
        environment: further variables, of this process alone; may hold secrets.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class Up:
    """The processes of one `streamer up`."""

    def __init__(
        self,
        settings: Settings,
        directory: DataDir,
        echo: Callable[[str], None],
        ephemeral: bool,
        ports: tuple[int, int, int | None],
        worker: Sequence[str],
        web: WebAccess,
        extra: Extra | None,
    ) -> None:
        port, redis_port, self._web_port = ports
        self._web = web
        self._directory = directory
        self._echo = echo
        self._ephemeral = ephemeral
        self._redis = Valkey(redis_port, directory=directory.path, log=directory.logs / "redis.log")
        self._settings = settings.model_copy(
            update={
                "bootstrap": f"127.0.0.1:{port}",
                "redis": self._redis.url,
                "embedded": True,
                "replication": 1,
                "security_protocol": "PLAINTEXT",
                "epoch": directory.next_epoch(),
            }
        )
        environment = child_environment(self._settings)
        logs = directory.logs
        forwarder = f"worker-{secrets.token_hex(8)}"
        journal = None if ephemeral else directory.journal
        self._broker = DurableBroker(self._settings, journal, logs / "broker.log", forwarder, echo)
        of_worker = environment | {"STREAMER_CLIENT_ID": forwarder}
        self._worker = Child("The worker", worker, log=logs / "worker.log", env=of_worker)
        self._keepers = [
            Supervisor(self._worker, self._worker.start, echo),  # first: it needs Redis last
            Supervisor(self._redis.child, self._redis.start, echo),
        ]
        page = (*WEB, str(self._web_port))
        self._extras: list[tuple[Child, Supervisor]] = []
        if self._web_port:
            of_page = environment | dict(web.environment())
            self._add(Child("The web page", page, log=logs / "web.log", env=of_page))
        if extra:
            log, of_extra = logs / f"{extra.name}.log", environment | dict(extra.environment)
            self._add(Child(f"The {extra.name}", extra.argv, log=log, env=of_extra))
        self._memory = MemoryWatch(default_limit_bytes())
        self._memory_due = 0.0
        self._problem_due = 0.0
        self._announced = False

    def start(self) -> None:
        """Start everything, tell other commands where it is, print it."""
        self._broker.start()
        for keeper in self._keepers:
            keeper.start(time.monotonic())
        from streamer.embedded.stack_state import worker_is_up_to  # while the worker loads its own

        deadline = time.monotonic() + REPORT_SECONDS
        while not worker_is_up_to(self._broker.loaded, self._settings):
            if time.monotonic() > deadline:
                self._echo(
                    f"The worker has not folded the journal within {REPORT_SECONDS:g} s: results are not "
                    f"complete yet (`streamer status` tells), or see {self._worker.log}."
                )
                break
            self._look(START_LOOK_SECONDS)
        for _, keeper in self._extras:
            keeper.start(time.monotonic())
        self._announce()

    def supervise(self) -> None:
        """Look after everything; ServerFailed when the broker ends, or another one too often."""
        while True:
            self._look(LOOK_SECONDS)

    def stop(self) -> None:
        """End everything: first what reads, last what keeps."""
        remove_discovery()
        for child, _ in self._extras:
            child.stop()
        self._worker.stop(WORKER_STOP_SECONDS)
        self._redis.stop()
        self._broker.stop()

    def _look(self, pause_seconds: float) -> None:
        self._broker.check()
        now = time.monotonic()
        for keeper in self._keepers:
            keeper.look(now)
        self._look_at_extras(now)
        self._tell_problem(now)
        if now >= self._memory_due:
            self._memory_due = now + MEMORY_LOOK_SECONDS
            self._check_memory()
        time.sleep(pause_seconds)

    def _add(self, child: Child) -> None:
        self._extras.append((child, Supervisor(child, child.start, self._echo)))

    def _look_at_extras(self, now: float) -> None:
        """Do without extras that do not stay alive, since the stack does not need them."""
        for extra in list(self._extras) if self._announced else ():
            try:
                extra[1].look(now)
            except ServerFailed as error:
                self._echo(f"{error} It is done without.")
                self._extras.remove(extra)

    def _tell_problem(self, now: float) -> None:
        """For `streamer status`, again and again."""
        if self._broker.problem is None or now < self._problem_due:
            return
        from streamer.embedded.stack_state import tell_problem

        self._problem_due = now + PROBLEM_SECONDS
        tell_problem(self._settings, self._broker.problem)

    def _check_memory(self) -> None:
        size = resident_bytes(self._broker.broker_pid)
        if self._memory.outgrown(size):
            self._echo(
                f"The broker holds {size / 2**30:.1f} GiB of memory, and grows with every byte written. End "
                "`up` and start it again: only the events are loaded, which is less. For more events than "
                "this machine's memory can hold, use docker compose or a Kafka of your own."
            )

    def _announce(self) -> None:
        settings, other = self._settings, read_discovery()
        if other is not None:
            self._echo(f"Another stack runs as process {other['pid']}; commands now find this one instead.")
        kept = None if self._ephemeral else str(self._directory.path)
        write_discovery(
            {
                "bootstrap": settings.bootstrap,
                "redis": settings.redis,
                "namespace": settings.namespace,
                "partitions": settings.partitions,
                "pid": os.getpid(),
                "data_dir": kept,
                "started_at": time.time(),
            }
        )
        self._echo("streamer is up. Other commands on this machine find it by themselves.")
        self._echo(f"  Kafka      {settings.bootstrap}")
        self._echo(f"  Redis      {settings.redis}")
        for line in self._web.lines(self._web_port) if self._web_port else ():
            self._echo(line)
        self._echo(f"  Namespace  {settings.namespace or '(none)'}")
        self._echo(f"  Kept in    {kept or 'memory only; nothing is kept'}")
        if kept:
            self._echo(f"  Loaded     {counted(sum(self._broker.loaded.values()), 'event')} from the journal")
        self._echo(f"  Logs       {self._directory.logs}")
        self._echo(f"  Found by   {discovery_path()}")
        self._echo("Ctrl-C ends everything.")
        self._announced = True
