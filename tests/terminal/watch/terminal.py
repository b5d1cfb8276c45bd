"""The program in a terminal of its own: tmux, driven from outside."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.cli import COMMAND
from tests.support.worker_process import wait_for

LOOK_SECONDS = 90.0
STILL_SECONDS = 1.0
AGE = re.compile(r"\d+ (s|min) ago")


def tmux() -> str:
    """Path of tmux; without one the test is skipped, loudly."""
    result = shutil.which("tmux")
    if not result:
        pytest.skip(
            "SKIPPED LOUDLY: there is no tmux, so `streamer watch` was not driven in a terminal. "
            "Install it (apt-get install tmux)"
        )
    return result


class Terminal:
    """A terminal with one command in it, which is the shell's last; use it as a context manager.

    Args:
        directory: of its socket.
        arguments: of `streamer`.
        environment: of the command; STREAMER_* of this process is dropped.
        size: columns and lines.
        program: instead of `streamer`.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        environment: Mapping[str, str],
        size: tuple[int, int],
        program: Sequence[str] = COMMAND,
    ) -> None:
        # The path of a socket must be short.
        self._tmux = [tmux(), "-S", str(directory / uuid.uuid4().hex[:8]), "-f", os.devnull]
        self._status = directory / f"status-{uuid.uuid4().hex}"
        dropped = ("STREAMER_", "NO_COLOR", "TMUX")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self._environment = clean | dict(environment) | {"LC_ALL": "C.UTF-8"}
        command = shlex.join([*program, *arguments])
        self._shell = f"{command}; echo $? > {shlex.quote(str(self._status))}; exec sleep infinity"
        self._size = size

    def __enter__(self) -> Self:
        columns, lines = map(str, self._size)
        self._call("new-session", "-d", "-x", columns, "-y", lines, self._shell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=30)

    @property
    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    @property
    def escapes(self) -> str:
        return self._call("capture-pane", "-p", "-e")

    @property
    def exit_code(self) -> int | None:
        """Of the command; None: it runs."""
        return int(self._status.read_text()) if self._status.exists() and self._status.read_text() else None

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._call("resize-window", "-x", str(columns), "-y", str(lines))

    def shows(self, *parts: str) -> str:
        seen = ""

        def there() -> bool:
            nonlocal seen
            seen = self.screen
            return all(part in seen for part in parts)

        try:
            wait_for(there, f"the terminal shows {parts}", LOOK_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen}") from None
        return seen

    def still(self) -> str:
        """What stands there once two looks a second apart are the same but for ages."""
        before = ""

        def same() -> bool:
            nonlocal before
            time.sleep(STILL_SECONDS)
            now = self.screen
            equal, before = AGE.sub("", now) == AGE.sub("", before), now
            return equal

        wait_for(same, "the terminal stands still", LOOK_SECONDS)
        return "".join(f"{line.rstrip()}\n" for line in before.rstrip().splitlines())

    def _call(self, *arguments: str) -> str:
        command, given = [*self._tmux, *arguments], self._environment
        done = subprocess.run(command, capture_output=True, timeout=60, env=given, text=True)
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout
