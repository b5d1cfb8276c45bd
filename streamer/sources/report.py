"""The report of a conversion: what it read, where its numbers come from, and what its files leave open."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.sources.base import Found, Remark, Unreadable
from streamer.text import counted

EXPLAINED = ("input_tokens", "output_tokens", "cost_usd", "trajectory_length")
"""Fields that may come from the harness's result or from an agent's own logs."""

NO_RUN = "no run of a known harness found; give the directory of a run, or one above it"
"""Said where nothing was read."""

_DETAILS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the numbers of a sent trial come from that may come from several files.

    Attributes:
        path: the file that the trial was read from.
        values: field to (value, file); (None, "") where the files say nothing.
        hints: what files could not tell, and why.
    """

    path: Path
    values: dict[str, tuple[Any, str]]
    hints: tuple[str, ...]


def explanation_of(found: Found, event: dict[str, Any]) -> Explanation:
    """The explanation of a trial that is sent as this event."""
    values = {
        name: (event[name], found.origins.get(name, found.path.name)) if name in event else (None, "")
        for name in EXPLAINED
    }
    return Explanation(found.path, values, found.hints)


@dataclass(slots=True)
class Remarks:
    """Remarks of one run that say the same.

    Attributes:
        run_id: of the run.
        what: what they say, see :class:`Remark`.
        trials: how many trials they are about.
        details: detail to how many of the trials have it.

    >>> print(Remarks("nightly", "have no speedups", 3, Counter({"of nop": 2, "of oracle": 1})))
    run nightly: 3 trials have no speedups: of nop; of oracle
    """

    run_id: str
    what: str
    trials: int = 0
    details: Counter[str] = field(default_factory=Counter)

    @property
    def about(self) -> str:
        """The facts that do not depend on the number of trials: the run, and the remark on it."""
        return f"run {self.run_id}: {self.what}"

    def __str__(self) -> str:
        """For people; of many details the most frequent."""
        shown = "; ".join(detail for detail, _ in self.details.most_common(_DETAILS_SHOWN))
        more = len(self.details) - _DETAILS_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        trials = counted(self.trials, "trial")
        return f"run {self.run_id}: {trials} {self.what}: {shown}{rest}"


@dataclass
class ConvertReport:
    """The results of a conversion, and its problems.

    Attributes:
        runs: ids of the runs that events were made for (shards, if pooled).
        trials: trial results sent.
        run_file_trials: the trials among them that stood only in run-level files.
        duplicates: trial files left out because their content was sent already.
        unreadable: each file, or entry of a file, that gave nothing.
        left_out: (path, field, reason) of each value that does not fit the schema.
        remarks: (id of a run, what) to what its files leave open.
        cut: (path, field, reason) of each name that was too long and is sent cut.
        explanations: one for each trial result sent, in their order.
        starts: the directory of each start sent, in their order.
        notes: what the user should know besides.
    """

    runs: list[str] = field(default_factory=list)
    trials: int = 0
    run_file_trials: int = 0
    duplicates: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)
    left_out: list[tuple[Path, str, str]] = field(default_factory=list)
    remarks: dict[tuple[str, str], Remarks] = field(default_factory=dict)
    cut: list[tuple[Path, str, str]] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    starts: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note_remark(self, run_id: str, remark: Remark) -> None:
        """Count a remark with the others of its run that say the same."""
        key = (run_id, remark.what)
        remarks = self.remarks.setdefault(key, Remarks(*key))
        remarks.trials += 1
        remarks.details[remark.detail] += 1
