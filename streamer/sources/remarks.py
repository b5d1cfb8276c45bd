"""The gaps in the files of trials, reported once per run and not once per trial."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_DETAILS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that the files of one trial leave open.

    Attributes:
        path: the file that leaves it open.
        what: goes on from "N trials ..."; the same text for every trial of a run that it concerns.
        detail: what about this trial; trials of a run share it where they can. Free of control characters.
    """

    path: Path
    what: str
    detail: str


@dataclass(slots=True)
class Remarks:
    """Remarks of one run that say the same.

    Attributes:
        run_id: of the run.
        what: what they say, see :class:`Remark`.
        trials: how many trials they are about.
        details: detail to how many of the trials have it.
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
        trials = "1 trial" if self.trials == 1 else f"{self.trials} trials"
        return f"run {self.run_id}: {trials} {self.what}: {shown}{rest}"
