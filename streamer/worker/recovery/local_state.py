"""The directory of a worker that keeps its tables on local disk.

Under the data directory: `state/NAMESPACE/LOG/N`. LOG names the log that the rows were recovered from. So
rows of a broker that was set up again are not taken for rows of the one before. N is the first number
that no other worker of this machine holds: workers may share a data directory.
"""

from __future__ import annotations

import importlib.util
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from streamer.kafka.clients import producing
from streamer.kafka.meta import LOG_KEY, meta_records
from streamer.kafka.names import Names
from streamer.settings import Settings

MAX_WORKERS = 1_000
"""Workers of one machine, at most."""


class StateUnavailable(Exception):
    """Tables cannot be kept on local disk. The message says what to do."""


async def log_name(settings: Settings) -> str:
    """The name of this deployment's log, in the topic `streamer-meta`; the first who asks gives it one."""
    name = await _known_name(settings)
    if name is None:
        new = uuid.uuid4().hex[:12].encode()
        async with producing(settings) as producer:
            await producer.send_and_wait(
                Names(settings.namespace).streamer_meta, new, key=LOG_KEY, partition=0
            )
        name = await _known_name(settings) or new.decode()
    return name


async def _known_name(settings: Settings) -> str | None:
    names = [record.value for record in await meta_records(settings) if record.key == LOG_KEY]
    return names[-1].decode() if names else None


@contextmanager
def held_directory(settings: Settings, log: str) -> Iterator[Path]:
    """A directory for the state of one worker, as long as the context lasts.

    Raises:
        StateUnavailable: the package for RocksDB is missing, or the directory cannot be made.
    """
    if importlib.util.find_spec("rocksdict") is None:
        raise StateUnavailable(
            "the setting store=rocksdb needs the package rocksdict: pip install 'trialstream[rocksdb]', "
            "or choose store=memory"
        )
    parent = settings.data_root / "state" / (settings.namespace or "default") / log
    try:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory, lock = _first_free(parent)
        _remove_older(parent)
    except OSError as error:
        raise StateUnavailable(
            f"cannot keep tables under {parent}: {error.strerror}. Choose another data_dir, or store=memory"
        ) from error
    try:
        yield directory
    finally:
        lock.release()


def _first_free(parent: Path) -> tuple[Path, BaseFileLock]:
    """The first directory that no running process holds, and its lock, which ends with the process."""
    for number in range(MAX_WORKERS):
        directory = parent / str(number)
        directory.mkdir(exist_ok=True, mode=0o700)
        lock = _lock(directory)
        if lock is not None:
            return directory, lock
    raise StateUnavailable(f"{MAX_WORKERS} workers hold directories under {parent}; end some")


def _lock(directory: Path) -> BaseFileLock | None:
    """Hold a directory; None if another process does."""
    lock = FileLock(directory / "lock", blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _remove_older(parent: Path) -> None:
    """Remove what other logs of the namespace left, where no worker is at work on them."""
    for log in parent.parent.iterdir():
        if log != parent:
            for directory in log.iterdir():
                lock = _lock(directory)
                if lock is not None:
                    try:
                        shutil.rmtree(directory)
                    finally:
                        lock.release()
            with suppress(OSError):  # one is still held
                log.rmdir()
