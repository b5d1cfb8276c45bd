"""The ledger on disk: one NDJSON file per directory followed, written before what it tells is published.

So that after any end the next start knows all that may have been published, and can withdraw or outdo it.
Without the file nothing is published wrongly; but what is in the log and no longer in the directory stays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from filelock import FileLock, Timeout

from streamer.publish.spill import spill_dir
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.settings import Settings
from streamer.tail.ledger import Ledger

NAME_CHARACTERS = 24


class AlreadyFollowed(Exception):
    """Another process follows the same directory."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"another `streamer tail` follows {root} for the same broker and namespace; end that first"
        )


def ledger_path(settings: Settings, root: Path, run_id: str | None) -> Path:
    """Where the journal lies: by deployment, directory and pool."""
    name = sha256_hex(canonical_json([os.path.abspath(root), run_id]))[:NAME_CHARACTERS]
    return _ledgers(settings) / f"{name}.ndjson"


@dataclass(frozen=True, slots=True)
class Followed:
    """A directory that was followed.

    Attributes:
        root: the directory, absolute.
        run_id: the run that its runs were pooled into; None: they stayed apart.
    """

    root: Path
    run_id: str | None


def followed(settings: Settings) -> list[Followed]:
    """The directories that were followed for a deployment on this machine, by this user.

    A ledger of an older version does not say them; it does once `tail` has followed its directory again.
    """
    found = []
    for file in sorted(_ledgers(settings).glob("*.ndjson")):
        try:
            with file.open("rb") as lines:
                first = orjson.loads(lines.readline())
            root, run_id = Path(first["followed"]), first["run_id"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if root.is_absolute() and isinstance(run_id, str | None):
            found.append(Followed(root, run_id))
    return found


def _ledgers(settings: Settings) -> Path:
    waiting = spill_dir(settings)
    return waiting.parent.parent / "tail" / waiting.name


class LedgerFile:
    """Use as a context manager; then no other process has the file.

    Args:
        path: see `ledger_path`.
        root: the directory that is followed.
        run_id: the run that its runs are pooled into; None: they stay apart.

    Attributes:
        problem: why it cannot be kept on disk, None if it can.
    """

    def __init__(self, path: Path, root: Path, run_id: str | None = None) -> None:
        self.problem: str | None = None
        self._path = path
        self._root = root
        self._run_id = run_id
        self._lock = FileLock(
            path.with_suffix(".lock"), mode=0o600, blocking=False, thread_local=False, fallback_to_soft=False
        )
        self._file = -1

    def __enter__(self) -> Self:
        """Lock it.

        Raises:
            AlreadyFollowed: another process has it.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire()
        except Timeout:
            raise AlreadyFollowed(self._root) from None
        except OSError as error:
            self._trouble(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._lock.release()

    def load(self) -> Ledger:
        """The ledger as it was; a last line that was cut off counts for nothing, it was not published."""
        ledger = Ledger()
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            lines = []
        for line in lines:
            try:
                ledger.restore(orjson.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
        self._rewrite(list(ledger.dump()))
        return ledger

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """On the disk when this returns, unless `problem` says otherwise."""
        if self._file < 0 or not lines:
            return
        try:
            _write(self._file, lines)
        except OSError as error:
            self._trouble(error)

    def _rewrite(self, lines: Sequence[dict[str, Any]]) -> None:
        if self.problem is not None:
            return
        partial = self._path.with_suffix(".new")
        try:
            self._file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            first = {"followed": os.path.abspath(self._root), "run_id": self._run_id}
            _write(self._file, [first, *lines])
            partial.replace(self._path)
        except OSError as error:
            self._trouble(error)

    def _trouble(self, error: OSError) -> None:
        self.problem = (
            f"cannot keep {self._path}: {error.strerror or error}. Results that leave the directory while "
            "nobody follows it will stay"
        )


def _write(descriptor: int, lines: Sequence[dict[str, Any]]) -> None:
    data = memoryview(b"".join(canonical_json(line) + b"\n" for line in lines))
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)
