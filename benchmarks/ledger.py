"""How often a ledger and a race are wrong, and what they find: simulated candidates of known ability.

    python -m benchmarks.ledger [--repetitions N] [--races N] [--runs N] [--seed N] [--page]

Each candidate runs 89 tasks with 5 attempts, in rounds of its own order. All meet the same results of one
baseline. Three tables:

- power: how often a candidate at some place of a ledger without verdicts is called better;
- ledger: 1,000 candidates one after another, of which nine of ten are as good as the baseline. A plain gate
  judges each for itself, by the largest evidence of any look;
- race: 20 candidates of one run, looked at 64 times, until one is dropped.

Results only add evidence, so the last look has every verdict that any look before had. The truth is numpy's
alone; `streamer` only gives the verdicts. The same seed prints the same tables. `--page` puts them into
docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.gate_study import into_page
from streamer.statistics.final import ALPHA, prefixes
from streamer.statistics.ledger import adjusted, drops, judged, share
from streamer.statistics.pairs import e_value

CHANCES = 0.5, 0.7
TASKS, ATTEMPTS, RATE = 89, 5, CHANCES[0] / sum(CHANCES)
PAIRS = TASKS * ATTEMPTS
SPREAD = sum(CHANCES)
"""Parameters of the beta distribution of the tasks' chances add up to this."""

CANDIDATES, BETTER_EVERY, GAIN = 1_000, 10, 0.13
PLACES, GAINS = (1, 10, 100), (0.0, 0.06, 0.13, 0.2)
RACING, WORSE = 20, 0.2

Marks = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Rng = np.random.Generator

POWER_HEAD = (
    "| the candidate is | number 1 | number 10 | number 100 | a plain gate |",
    "|---|---|---|---|---|",
)
LEDGER_HEAD = (
    "| judged by | called better | false ones among them | better ones found |",
    "|---|---|---|---|",
)
RACE_HEAD = (
    "| race of 20 | an equal one is dropped | worse ones dropped | trials saved | each pair for itself |",
    "|---|---|---|---|---|",
)


# -----------------------------------------------------------------------------
# The truth: chances of tasks, and the results of a baseline and of candidates.


def chances_of(random: Rng) -> Numbers:
    """The chance of each task to be passed by the baseline."""
    return random.beta(SPREAD * RATE, SPREAD * (1 - RATE), TASKS)


def moved(chances: Numbers, gain: float) -> Numbers:
    """Chances with a mean that is higher by `gain`, 0 to 1, or lower: each task by the same share."""
    if gain < 0:
        return chances * (1 + gain / RATE)
    return chances + (1 - chances) * gain / (1 - RATE)


def passed(chances: Numbers, sides: int, random: Rng) -> Marks:
    """The results of some sides: side by task by attempt."""
    return random.random((sides, TASKS, ATTEMPTS)) < chances[None, :, None]


def in_order(sides: int, random: Rng) -> NDArray[np.int64]:
    """The pairs of each side in the order of its queue: rounds, each of them shuffled."""
    rounds = np.tile(np.arange(ATTEMPTS), TASKS) + random.random((sides, PAIRS))
    return np.argsort(rounds, axis=1)


def in_pairs(ours: Marks, theirs: Marks, random: Rng) -> tuple[Marks, Marks]:
    """Which pairs only we win, and only they do, in the order of each of our queues."""
    order = in_order(len(ours), random)
    sides = [
        np.take_along_axis(np.broadcast_to(side.reshape(-1, PAIRS), order.shape), order, axis=1)
        for side in (ours, theirs)
    ]
    return sides[0] & ~sides[1], sides[1] & ~sides[0]


# -----------------------------------------------------------------------------
# The verdicts under test. Tables of their functions make them fast.


SIZES = np.array([0, *prefixes(PAIRS)])


@cache
def evidence_table() -> Numbers:
    """`e_value` of wins (rows) and losses (columns) of the side that is called worse."""
    table = np.zeros((PAIRS + 1, PAIRS + 1))
    for wins in range(PAIRS + 1):
        for losses in range(PAIRS + 1 - wins):
            table[wins, losses] = e_value.__wrapped__(wins, losses)
    return table


@cache
def adjusted_table() -> Numbers:
    return np.vectorize(adjusted)(np.maximum(1.0, evidence_table()))


class Evidence(NamedTuple):
    """The evidence for each candidate, 0 where it is not ahead: an e-value, and the largest of any look."""

    sound: Numbers
    largest: Numbers


def evidence_of(won: Marks, lost: Marks) -> Evidence:
    """The evidence that each candidate is better, from its pairs in order, once all are in."""
    wins, losses = (
        np.concatenate([np.zeros((len(marks), 1), int), marks.cumsum(axis=1)], axis=1)[:, SIZES]
        for marks in (won, lost)
    )
    # the baseline's wins are our losses
    at_end = evidence_table()[losses[:, -1], wins[:, -1]]
    sound = (at_end + adjusted_table()[losses, wins].max(axis=1)) / 2
    largest = evidence_table()[losses, wins].max(axis=1)
    is_ahead = wins[:, -1] > losses[:, -1]
    return Evidence(np.where(is_ahead, sound, 0.0), np.where(is_ahead, largest, 0.0))


# -----------------------------------------------------------------------------
# Power at a place, and the share of false verdicts of a whole ledger.


def powers(gain: float, runs: int, seed: int) -> list[float]:
    """How often a candidate is called better, at each place and by a plain gate."""
    random = np.random.default_rng([seed, round(100 * gain)])
    sound, largest = [], []
    for _ in range(runs):
        chances = chances_of(random)
        won, lost = in_pairs(passed(moved(chances, gain), 1, random), passed(chances, 1, random), random)
        one = evidence_of(won, lost)
        sound.append(one.sound[0])
        largest.append(one.largest[0])
    needed = [1 / (float(ALPHA) * share(place)) for place in PLACES]
    return [float(np.mean(np.array(sound) >= level)) for level in needed] + [
        float(np.mean(np.array(largest) >= 1 / ALPHA))
    ]


class Shares(NamedTuple):
    """How many candidates are called better, the share of false ones among them, and of better ones found."""

    better: float
    false: float
    found: float


def shares(called: Marks, is_better: Marks) -> Shares:
    """The verdicts against the truth; without a verdict the share of false ones is 0."""
    false = int((called & ~is_better).sum())
    return Shares(
        float(called.sum()),
        false / max(1, int(called.sum())),
        float((called & is_better).sum() / is_better.sum()),
    )


def one_ledger(candidates: int, random: Rng) -> tuple[Shares, Shares]:
    """A ledger of candidates, every tenth of them better: judged by its levels, and each by a plain gate."""
    chances = chances_of(random)
    is_better = np.arange(candidates) % BETTER_EVERY == BETTER_EVERY // 2
    ours = passed(chances, candidates, random)
    ours[is_better] = passed(moved(chances, GAIN), int(is_better.sum()), random)
    result = evidence_of(*in_pairs(ours, passed(chances, 1, random), random))
    verdicts = np.array([one.better for one in judged(result.sound.tolist())])
    return shares(verdicts, is_better), shares(result.largest >= float(1 / ALPHA), is_better)


def ledgers(repetitions: int, candidates: int, seed: int) -> tuple[Shares, Shares]:
    """The means over repetitions."""
    random = np.random.default_rng([seed, 1])
    every = [one_ledger(candidates, random) for _ in range(repetitions)]
    levels, plain = (
        Shares(*np.mean([ledger[which] for ledger in every], axis=0).tolist()) for which in range(2)
    )
    return levels, plain


# -----------------------------------------------------------------------------
# Races.


class Raced(NamedTuple):
    """One race.

    Attributes:
        false: a candidate was dropped that is as good as any.
        dropped: share of the worse candidates that were dropped; 0 without one.
        saved: share of all trials that came after a drop of their candidate.
        alone: an equal candidate would be dropped if each pair were judged for itself, at 5 %.
    """

    false: bool
    dropped: float
    saved: float
    alone: bool


def one_race(worse: int, random: Rng) -> Raced:
    """A race in one queue; the last `worse` candidates are 20 points behind the others."""
    chances = chances_of(random)
    every = passed(chances, RACING, random)
    if worse:
        every[-worse:] = passed(moved(chances, -WORSE), worse, random)
    results = every.reshape(RACING, PAIRS)[:, in_order(1, random)[0]]
    blocks = np.add.reduceat(
        (results[:, None] & ~results[None]).astype(np.int64), SIZES[:-1], axis=2
    )  # wins of row over column
    wins = np.concatenate([np.zeros((RACING, RACING, 1), int), blocks.cumsum(axis=2)], axis=2)
    losses = wins.transpose(1, 0, 2)
    largest = np.maximum.accumulate(evidence_table()[wins, losses], axis=2)
    shown = np.where(wins < losses, largest, 0.0)
    equal = range(RACING - worse)
    alone = bool((shown[:, :, 1:][np.ix_(equal, range(RACING))] >= float(1 / ALPHA)).any())
    names = [str(one) for one in range(RACING)]
    left, saved, hypotheses = set(names), 0, RACING * (RACING - 1)
    for look, size in enumerate(SIZES.tolist()):
        if shown[:, :, look].max() * float(ALPHA) < hypotheses:
            continue  # Holm begins with the strongest, which is too weak
        evidence = {(names[a], names[b]): float(shown[a, b, look]) for a, b in permutations(range(RACING), 2)}
        for name, _ in drops(evidence, left, hypotheses):
            left.remove(name)
            saved += PAIRS - size
    dropped = [int(name) for name in names if name not in left]
    return Raced(
        any(one in equal for one in dropped),
        sum(one not in equal for one in dropped) / max(1, worse),
        saved / (RACING * PAIRS),
        alone,
    )


def races(worse: int, many: int, seed: int) -> list[float]:
    """The means of many races, as `Raced` has them."""
    random = np.random.default_rng([seed, 2, worse])
    means: list[float] = np.mean([one_race(worse, random) for _ in range(many)], axis=0).tolist()
    return means


# -----------------------------------------------------------------------------
# The tables.


def power_row(gain: float, runs: int, seed: int) -> str:
    name = f"{100 * gain:.0f} points better" if gain else "as good"
    return f"| {name} | {' | '.join(f'{one:.1%}' for one in powers(gain, runs, seed))} |"


def ledger_rows(result: Sequence[Shares]) -> list[str]:
    named = zip(("the ledger", "a plain gate for each"), result, strict=True)
    return [f"| {name} | {of.better:.1f} | {of.false:.1%} | {of.found:.1%} |" for name, of in named]


def race_row(worse: int, result: Sequence[float]) -> str:
    false, dropped, saved, alone = result
    name = f"{worse} of them 20 points worse" if worse else "all equal"
    found = (f"{dropped:.1%}", f"{saved:.1%}") if worse else ("-", "-")
    return f"| {name} | {false:.1%} | {found[0]} | {found[1]} | {alone:.1%} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if more is false than promised."""
    parser = argparse.ArgumentParser(description="How often a ledger and a race are wrong.")
    parser.add_argument("--repetitions", type=int, default=200, help="ledgers of 1,000 candidates (200)")
    parser.add_argument("--races", type=int, default=1_000, help="races for each row (1,000)")
    parser.add_argument(
        "--runs", type=int, default=4_000, help="candidates for each row of the power (4,000)"
    )
    parser.add_argument("--seed", type=int, default=8, help="of all chance (8)")
    parser.add_argument("--page", action="store_true", help="put the tables into docs/inference.md as well")
    options = parser.parse_args(arguments)
    judged_so = ledgers(options.repetitions, CANDIDATES, options.seed)
    raced = {worse: races(worse, options.races, options.seed) for worse in (0, RACING // 2)}
    tables = {
        "ledger-power": [*POWER_HEAD, *(power_row(gain, options.runs, options.seed) for gain in GAINS)],
        "ledger-false": [*LEDGER_HEAD, *ledger_rows(judged_so)],
        "race": [*RACE_HEAD, *(race_row(worse, result) for worse, result in raced.items())],
    }
    print("\n\n".join("\n".join(lines) for lines in tables.values()))
    if options.page:
        into_page({name: "\n".join(lines) for name, lines in tables.items()})
    return int(max(judged_so[0].false, raced[0][0], raced[RACING // 2][0]) > ALPHA)


if __name__ == "__main__":
    sys.exit(main())
