"""Seeds that change with every run, and what is printed so that a run can be repeated."""

from __future__ import annotations

import os
import random

from tests.fuzz.live.episode import Outcome

VARIABLE = "FUZZ_SEED"


def a_seed() -> int:
    """The seed that the variable FUZZ_SEED names, else another one each time."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else random.SystemRandom().randrange(10**6)


def told(on: str, seed: int, outcome: Outcome) -> str:
    """What an episode did, what it found, and the command that repeats it."""
    rejected = sum(outcome.rejected.values())
    done = (
        f"seed {seed} on {on}: {outcome.rounds} rounds, {outcome.records:,} records, {rejected:,} rejected, "
        f"{outcome.refused} refused by the broker; "
        f"healthy runs current within {outcome.slowest_seconds:.1f} s"
    )
    if not outcome.harm:
        return f"{done}; no harm"
    command = f"python -m tests.fuzz.live --on {on} --seed {seed} --rounds {outcome.rounds}"
    return "\n".join([f"{done}; HARM:", *outcome.harm, f"Repeat it with: {command}"])
