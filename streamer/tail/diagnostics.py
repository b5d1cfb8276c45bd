"""The problems of a directory that the user sees: each one once, and only while it lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from operator import itemgetter
from pathlib import Path

from streamer.sources.files import VANISHED
from streamer.sources.report import ConvertReport
from streamer.tail.file_stability import FileStability, Stability

Complaint = tuple[Path | None, str]
"""The path that a line is about, None for a run or the directory as a whole, and what it says of it."""


class Diagnostics:
    """Tells what readings of the whole find wrong.

    A line is reported when two scans one after the other gave it. Its path must look as it did before the
    second scan began, and must not have changed for long.

    Args:
        stability: judges paths.
        say: takes lines.

    Attributes:
        unreadable: path to reason, for what cannot be read and stays so.
        waiting: paths of which the next reading may say something else.
        pending: whether the next reading may have something to say.
    """

    def __init__(self, stability: FileStability, say: Callable[[str], None]) -> None:
        self.unreadable: dict[Path, str] = {}
        self.waiting: set[Path] = set()
        self.pending = False
        self._stability = stability
        self._say = say
        self._said: set[str] = set()
        self._before: Set[Complaint] = frozenset()

    def judge(self, report: ConvertReport, begun: float) -> dict[Path, Stability]:
        """The unreadable paths of a reading, begun then: one that was not there and is now has changed."""
        stabilities = self._stability.judge((path for path, _ in report.unreadable), begun)
        for path, reason in report.unreadable:
            if reason.endswith(VANISHED) and stabilities[path] is not Stability.GONE:
                stabilities[path] = Stability.CHANGED
        return stabilities

    def hear(self, report: ConvertReport, begun: float) -> None:
        """Say what a reading of the whole, begun then, makes certain."""
        stabilities = self.judge(report, begun)
        stabilities |= self._stability.judge((path for path, _, _ in report.left_out), begun)
        lines = _diagnostics(report)
        told = lines.keys()
        certain = {
            (path, what)
            for path, what in told & self._before
            if path is None or stabilities[path] is Stability.STANDS
        }
        self.waiting = {path for path, verdict in stabilities.items() if verdict is not Stability.STANDS}
        self.unreadable = dict(told for told in report.unreadable if _complaint(*told) in certain)
        self.pending = bool(told - certain)
        self._before = told
        self._say_once({what: lines[path, what] for path, what in certain})
        self._stability.forget(begun)

    def once(self, lines: Iterable[str]) -> None:
        """Say what was not said before."""
        self._say_once({line: line for line in lines})

    def _say_once(self, lines: Mapping[str, str]) -> None:
        """Say the lines, in their order, whose keys were not said of before."""
        for what, line in sorted(lines.items(), key=itemgetter(1)):
            if what not in self._said:
                self._said.add(what)
                self._say(line)


def _diagnostics(report: ConvertReport) -> dict[Complaint, str]:
    """Each complaint and its line. A remark on a run is one complaint, however many trials join."""
    lines = (
        *((None, f"note: {note}") for note in report.notes),
        *((path, f"{path}: {name} left out: {reason}") for path, name, reason in report.left_out),
        *((path, f"{path}: {name} cut: {reason}") for path, name, reason in report.cut),
        *(_complaint(path, reason) for path, reason in report.unreadable),
    )
    remarks = {(None, remarks.about): f"note: {remarks}" for remarks in report.remarks.values()}
    return {complaint: complaint[1] for complaint in lines} | remarks


def _complaint(path: Path, reason: str) -> Complaint:
    return path, f"{path}: {reason}"
