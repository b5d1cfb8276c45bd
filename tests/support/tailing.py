"""Following a directory inside a test, and writing into one as harnesses and copying people do."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from streamer.folding.fold import fold_records
from streamer.schemas.wire import records_of_lines
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.sources.tail import Ledger
from streamer.sources.tail.follow import Follower
from tests.support.eventually import WAIT_SECONDS
from tests.support.worker_process import wait_for

Event = dict[str, Any]

PIECE_BYTES, MOST_PIECES = 4096, 8


def digests_of(events: list[Event]) -> dict[str, str]:
    """What a fold of events says, by summary."""
    folding = fold_records(records_of_lines(map(orjson.dumps, list(events))))
    assert folding.rejected == 0
    return {f"{change.kind} {change.key}": change.digest for change in folding.summaries()}


def converted_digests(root: Path, options: ConvertOptions | None = None) -> dict[str, str]:
    """What a fold of the converted directory says."""
    return digests_of(list(convert([root], options or ConvertOptions(), ConvertReport())))


def wait_for_digests(
    events: Callable[[], list[Event]], expected: dict[str, str], seconds: float = WAIT_SECONDS
) -> None:
    """Wait until the events fold to the expected digests; folded once none came between two looks."""
    seen, folded, result = -1, -1, dict[str, str]()

    def agree() -> bool:
        nonlocal seen, folded, result
        now = events()
        still, seen = len(now) == seen, len(now)
        if still and folded != seen:
            folded, result = seen, digests_of(now)
        return still and result == expected

    try:
        wait_for(agree, "the digests of convert", seconds)
    except AssertionError:
        print({key for key in expected.keys() | result.keys() if expected.get(key) != result.get(key)})
        raise


class Followed:
    """A directory that is being followed in a thread; what would be published is kept in `events`."""

    def __init__(self, root: Path, ledger: Ledger | None = None, **more: Any) -> None:
        self.root = root
        self.events: list[Event] = []
        self.said: list[str] = []
        self.lines: list[Event] = []
        self.ledger = ledger or Ledger()
        self.options = more.pop("options", ConvertOptions())
        given = {"still_seconds": 0.5, "missing_seconds": 0.2, "pace_seconds": 0.1} | more
        self.follower = Follower(
            root, self.options, self.ledger, self._publish, self.lines.extend, self.said.append, **given
        )

    def _publish(self, events: list[Event]) -> None:
        self.events += events

    @property
    def digests(self) -> dict[str, str]:
        return digests_of(self.events)

    @property
    def trials(self) -> list[Event]:
        return [event for event in self.events if event["type"] == "trial_result"]

    def wait_until_converted(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait until what was published says what `convert` says of the directory as it is."""
        wait_for_digests(lambda: list(self.events), converted_digests(self.root, self.options), seconds)


@contextmanager
def followed(root: Path, ledger: Ledger | None = None, **more: Any) -> Iterator[Followed]:
    """Follow a directory for the length of the block."""
    following = Followed(root, ledger, **more)
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            following.follower.follow(stop, lambda: None)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield following
    finally:
        stop.set()
        thread.join(60)
        # Here, so that a block that waits in vain for a thread that has ended says why it ended.
        assert not failures, failures


def write_in_pieces(path: Path, content: bytes, pause: float, piece: int = PIECE_BYTES) -> None:
    """Write a file in place, as a program does that is slow at it; it exists, empty, from the start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(content), piece):
            file.write(content[start : start + piece])
            time.sleep(pause)


def copy_roughly(source: Path, target: Path, rng: random.Random, pause: float = 0.0) -> None:
    """Copy a tree file by file in any order, in pieces, with half files, moves and rewrites on the way.

    At the end the target holds what the source does, with the files' times.
    """
    files = [path for path in source.rglob("*") if path.is_file()]
    rng.shuffle(files)
    for path in files:
        final = target / path.relative_to(source)
        content = path.read_bytes()
        way = rng.random()
        if way < 0.1:  # first a wrong one
            write_in_pieces(final, content[: len(content) // 2], pause)
        elif way < 0.2:  # elsewhere, then moved here
            elsewhere = final.with_name(f"{final.name}.part")
            write_in_pieces(elsewhere, content, pause)
            elsewhere.rename(final)
        elif way < 0.25 and final.exists():
            final.unlink()
        piece = max(rng.choice([PIECE_BYTES, PIECE_BYTES, 500]), len(content) // MOST_PIECES)
        write_in_pieces(final, content, pause, piece)
        if rng.random() < 0.5:
            shutil.copystat(path, final)
    directories = [path for path in target.rglob("*") if path.is_dir()]
    for directory in rng.sample(directories, min(5, len(directories))):
        aside = directory.with_name(f"{directory.name} moved aside")
        directory.rename(aside)
        time.sleep(pause)
        aside.rename(directory)
    for path in files:
        final = target / path.relative_to(source)
        shutil.copystat(path, final)
        os.chmod(final, 0o644)
