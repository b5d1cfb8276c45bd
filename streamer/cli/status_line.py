"""One line on stderr that changes in place, on a terminal; nothing elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading

from streamer.cli.printing import say, visible
from streamer.text_width import start_of

_CLEAR = "\r\x1b[2K"


class StatusLine:
    """The line, and other lines that are printed above it; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terminal = sys.stderr.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        """Change the line."""
        if self._terminal and text != self._text:
            with self._lock:
                self._text = text
                self._draw()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        with self._lock:
            if self._terminal and self._text:
                sys.stderr.write(_CLEAR)
            say(line)
            if self._terminal and self._text:
                self._draw()

    def end(self) -> None:
        """Remove it."""
        with self._lock:
            if self._terminal and self._text:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()
            self._text = ""

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + start_of(visible(self._text), width))
        sys.stderr.flush()
