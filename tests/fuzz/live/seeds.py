"""Seeds that change with every commit, and what is printed so that a run can be repeated."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.house.repository import ROOT

if TYPE_CHECKING:
    from tests.fuzz.live.episode import Outcome

VARIABLE = "FUZZ_SEED"


def a_seed() -> int:
    """The seed that the variable FUZZ_SEED names, else one of the commit; outside of git, of the day."""
    if given := os.environ.get(VARIABLE):
        return int(given)
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return datetime.now(UTC).toordinal()
    return int(commit[:8], 16) % 10**6


def told(on: str, seed: int, outcome: Outcome) -> str:
    rejected = sum(outcome.rejected.values())
    done = (
        f"seed {seed} on {on}: {outcome.rounds} rounds, {outcome.records:,} records, {rejected:,} rejected, "
        f"{outcome.refused} refused by the broker; {', '.join(outcome.faults) or 'no faults'}; "
        f"healthy runs current within {outcome.slowest_seconds:.1f} s"
    )
    if not outcome.harm:
        return f"{done}; no harm"
    command = f"python -m tests.fuzz.live --on {on} --seed {seed} --rounds {outcome.rounds}"
    return "\n".join([f"{done}; HARM:", *outcome.harm, f"Repeat it with: {command}"])
