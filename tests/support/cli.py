"""The program `streamer` itself, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from streamer.settings import Settings
from streamer.terminal import main

DEADLINE_SECONDS = 120
COMMAND = (sys.executable, "-c", "from streamer.terminal import main; main()")

STARTS_SERVERS = {"up", "demo", "live", "worker"}
_PRELOADED = ("compare", "fold", "harness", "query")
_LOADED = get_context("forkserver")
_LOADED.set_forkserver_preload([__name__, *(f"streamer.terminal.{name}" for name in _PRELOADED)])
_STREAMS = ("stdin", "stdout", "stderr")


def found_by(settings: Settings) -> dict[str, str]:
    """The variables by which a command finds a deployment."""
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    return {f"STREAMER_{name.upper()}": str(getattr(settings, name)) for name in names}


def streamer(
    *arguments: object, stdin: bytes = b"", cwd: Path | None = None, environment: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; `environment` is added to this process's, STREAMER_* of which are dropped.

    The process is forked from one that has loaded the modules already, which takes most of the second that a
    command needs. It is a new one if a variable is not ours, which may matter to Python itself, and if the
    command starts servers, which `tests.support.layers` must see.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    words = tuple(map(str, arguments))
    if STARTS_SERVERS.isdisjoint(words[:1]) and all(name.startswith("STREAMER_") for name in environment):
        return _forked(words, stdin, cwd or Path.cwd(), clean | dict(environment))
    return subprocess.run(
        [*COMMAND, *words],
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        cwd=cwd,
        env=clean | dict(environment),
    )


@contextmanager
def staying(
    log: Path, *arguments: object, environment: Mapping[str, str] = {}
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that stays and writes to this file; interrupted at the end of the block, it ends well."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    command = [*COMMAND, *map(str, arguments)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=clean | dict(environment), stdout=out, stderr=out)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def _forked(
    words: tuple[str, ...], stdin: bytes, cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    with TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in _STREAMS]
        streams[0].write_bytes(stdin)
        process = _LOADED.Process(target=_main, args=(words, streams, cwd, environment))
        process.start()
        process.join(DEADLINE_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, DEADLINE_SECONDS)
        code, (stdout, stderr) = process.exitcode, (stream.read_bytes() for stream in streams[1:])
        process.close()
    return subprocess.CompletedProcess(words, code, stdout, stderr)


def _main(words: tuple[str, ...], streams: list[Path], cwd: Path, environment: dict[str, str]) -> None:
    """What the forked process does. Its streams are files; all such processes hash text alike."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, (stream, mode) in enumerate(zip(streams, ("rb", "wb", "wb"), strict=True)):
        with stream.open(mode, buffering=0) as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
    sys.argv = ["streamer", *words]
    main()
