"""How often a gate is wrong, when it decides, and what it finds: simulated comparisons.

    python -m benchmarks.gate_study [--runs N] [--seed N] [--page]

Each cell has a plan, a way in which the comparison runs, and a candidate that is better or worse by some
points. After each result a gate with a margin of 2 points asks both questions of inference 7:

- `final`: whether this run ends so. Wrong is a verdict, at any look, that the run's own end contradicts.
- `ability`: whether the agent is so on tasks like these. It fails by the evidence, and passes at the end.

All levels are 95 %. A trial without a final value keeps the outcome that it would have had. The same seed
prints the same tables. `--page` puts them into docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from random import Random
from statistics import median
from typing import NamedTuple

from benchmarks.coverage import ALLOWED
from benchmarks.report import between_markers
from benchmarks.two_agents import PLANS, WAYS, Plan, TwoRuns, Way, two_runs
from streamer.statistics.final import ALPHA, Outcome, at_prefixes, final_of_prefixes, prefixes
from streamer.statistics.pairs import (
    DIFFERENCE_PREFIXES,
    Attempts,
    FinalDifference,
    GateVerdict,
    Pair,
    Paired,
    PairedTask,
    ability,
    difference_of,
    evidence_worse,
    no_further_behind,
    paired,
)
from tests.house.repository import ROOT

PAGE = ROOT / "docs" / "inference.md"
MARGIN = Fraction("0.02")
BETTER = (0.0, 0.02, 0.10, -0.02, -0.05, -0.10, -0.20)
"""Points by which the candidate passes more often, as shares."""
MOST = 0.995
"""From this share on all comparisons count as decided."""
SHOWN = WAYS[1]
"""The way whose false alarms and power are shown: how a comparison runs hardly changes them."""

WON_AND_LOST: dict[tuple[Outcome, Outcome], tuple[Outcome, Outcome]] = {
    pair: (pair.won(), pair.lost())
    for pair in (Pair(*both) for both in product((True, False, None), repeat=2))
}
"""What each pair says; looked up, because a study asks a billion times."""


class Judged(NamedTuple):
    """What a gate says of one comparison.

    Attributes:
        verdict: of question `final`, as soon as it has one.
        truth: what the end of the run says.
        share: of the planned results that were in; 1 without a verdict.
        fails: question `ability`, at any look.
        passes: question `ability`, at the end.
        behind: the sign test at the end says that the candidate is behind.
    """

    verdict: GateVerdict
    truth: GateVerdict
    share: float
    fails: bool
    passes: bool
    behind: bool


@dataclass(frozen=True)
class Cell:
    """Shares of comparisons.

    Attributes:
        wrong: with a wrong verdict of question `final`, ever.
        decided: with a verdict of question `final`.
        failed: with the verdict `fail` of it.
        half: share of the plan with which half of the verdicts were there; None: there were none.
        fails, passes, behind: as in `Judged`.
    """

    wrong: float
    decided: float
    failed: float
    half: float | None
    fails: float
    passes: float
    behind: float


def difference_at(runs: TwoRuns, look: int) -> FinalDifference:
    """The final differences that are possible after so many results: `final_difference` of these pairs."""
    pairs = [WON_AND_LOST[pair] for pair in zip(*runs.at(look), strict=True)]
    planned = len(pairs)
    sizes = prefixes(planned, DIFFERENCE_PREFIXES)
    won, lost = ([pair[side] for pair in pairs] for side in (0, 1))
    wins, losses = (final_of_prefixes(planned, at_prefixes(side, sizes), ALPHA / 2) for side in (won, lost))
    return difference_of(wins, losses)


def first_decided(runs: TwoRuns) -> int:
    """After how many results question `final` is settled; results + 1: it never is.

    Results only narrow the interval, so the look can be found by halving. A difference that is empty is
    settled too: whatever comes, there is no verdict any more.
    """

    def settled(look: int) -> bool:
        result = difference_at(runs, look)
        return result.empty or no_further_behind(result.ends(), MARGIN) is not GateVerdict.UNDECIDED

    return bisect_left(range(runs.results + 1), True, key=settled)


def judged(plan: Plan, runs: TwoRuns) -> Judged:
    """What a gate says of one comparison, whenever somebody looks."""
    ahead = sum(runs.ours) - sum(runs.theirs)
    truth = no_further_behind(FinalDifference(ahead, ahead, plan.pairs).ends(), MARGIN)
    look = first_decided(runs)
    verdict = GateVerdict.UNDECIDED
    if look <= runs.results:
        verdict = no_further_behind(difference_at(runs, look).ends(), MARGIN)
    share = look / runs.planned if verdict is not GateVerdict.UNDECIDED else 1.0
    tasks = task_pairs(plan, runs)
    ended = at_end(tasks)
    pairs = [Pair(*pair) for pair in zip(*runs.at(runs.results), strict=True)]
    answer = ability(evidence_worse(pairs, plan.pairs), ended.interval, MARGIN, ALPHA)
    shown = ended.p_value is not None and ended.p_value <= ALPHA and ended.agrees
    return Judged(
        verdict,
        truth,
        share,
        fails=answer is GateVerdict.FAIL,
        passes=answer is GateVerdict.PASS,
        behind=shown and ended.behind > ended.ahead,
    )


def task_pairs(plan: Plan, runs: TwoRuns) -> list[PairedTask]:
    """The tasks, in the order of their first pairs, as they stand after the last result.

    More results only add evidence, so no earlier look has more of it.
    """
    ours, theirs = runs.at(runs.results)
    sides: dict[int, tuple[list[Outcome], list[Outcome]]] = {}
    for task, one, other in zip(runs.tasks, ours, theirs, strict=True):
        stored = sides.setdefault(task, ([], []))
        stored[0].append(one)
        stored[1].append(other)
    return [PairedTask(_attempts(*one), _attempts(*other)) for one, other in sides.values()]


@lru_cache
def _attempts(*outcomes: Outcome) -> Attempts:
    unknown = outcomes.count(None)
    return Attempts(len(outcomes) - unknown, outcomes.count(True), unknown)


def at_end(tasks: Sequence[PairedTask]) -> Paired:
    """What the end says of them; the order of the tasks does not matter."""
    return _at_end(tuple(sorted(Counter(tasks).items())))


@lru_cache(maxsize=1 << 14)
def _at_end(counts: tuple[tuple[PairedTask, int], ...]) -> Paired:
    return paired([pair for pair, times in counts for _ in range(times)])


def cell(plan: Plan, way: Way, better: float, runs: int, seed: int) -> Cell:
    """Many comparisons; each has a chance of its own, so that more of them only add to fewer."""
    result = [
        judged(plan, two_runs(plan, way, better, Random(f"{seed}/{plan.name}/{way.name}/{better}/{run}")))
        for run in range(runs)
    ]
    with_verdict = [one for one in result if one.verdict is not GateVerdict.UNDECIDED]
    return Cell(
        wrong=sum(one.verdict is not one.truth for one in with_verdict) / runs,
        decided=len(with_verdict) / runs,
        failed=sum(one.verdict is GateVerdict.FAIL for one in result) / runs,
        half=median(one.share for one in with_verdict) if with_verdict else None,
        fails=sum(one.fails for one in result) / runs,
        passes=sum(one.passes for one in result) / runs,
        behind=sum(one.behind for one in result) / runs,
    )


Cells = dict[tuple[str, str, float], Cell]
"""By the names of plan and way, and what the candidate is better by."""


def cells(runs: int, seed: int) -> Cells:
    """All cells; what is done so far goes to stderr."""
    result = {}
    for plan, way, better in product(PLANS, WAYS, BETTER):
        result[plan.name, way.name, better] = cell(plan, way, better, runs, seed)
        print(plan.name, way.name, better, result[plan.name, way.name, better], file=sys.stderr, flush=True)
    return result


def points(better: float) -> str:
    """How good the candidate is, in points.

    >>> points(0.0), points(-0.02), points(0.1)
    ('equal', '-2', '+10')
    """
    return f"{100 * better:+.0f}" if better else "equal"


def misses(one: Cell) -> str:
    """How often the verdict of question `final` is ever wrong."""
    return f"{one.wrong:.1%}"


def halves(one: Cell) -> str:
    """With which share of the plan half of the verdicts are there, and how many there are if not all.

    >>> halves(Cell(0, 1, 0, 0.5, 0, 0, 0)), halves(Cell(0, 0.6, 0, 0.5, 0, 0, 0))
    ('50%', '50% (60%)')
    """
    half = "-" if one.half is None else f"{one.half:.0%}"
    return half if one.decided >= MOST else f"{half} ({one.decided:.0%})"


def by_way(result: Cells, shown: Callable[[Cell], str]) -> Iterator[str]:
    """One number of all cells: a row for each plan and way, a column for each candidate."""
    yield f"| plan | how it runs | {' | '.join(map(points, BETTER))} |"
    yield "|---" * (2 + len(BETTER)) + "|"
    for plan, way in dict.fromkeys((plan, way) for plan, way, _ in result):
        yield f"| {plan} | {way} | {' | '.join(shown(result[plan, way, better]) for better in BETTER)} |"


def power(result: Cells) -> Iterator[str]:
    """False alarms and power of both questions, one way to run: a row for each plan and candidate."""
    columns = (
        *("plan", "candidate", "`final` passes", "`final` fails", "`ability` fails, any look"),
        *("`ability` passes, at the end", "sign test: behind, at the end"),
    )
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for plan, way, better in result:
        if way == SHOWN.name:
            one = result[plan, way, better]
            shares = (one.decided - one.failed, one.failed, one.fails, one.passes, one.behind)
            yield f"| {plan} | {points(better)} | {' | '.join(f'{share:.1%}' for share in shares)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if question `final` is wrong in more than 5 % of any cell, else 0."""
    parser = argparse.ArgumentParser(description="How often a gate is wrong, and what it finds.")
    parser.add_argument("--runs", type=int, default=2_000, help="simulated comparisons for each cell (2000)")
    parser.add_argument("--seed", type=int, default=20, help="of all chance (20)")
    parser.add_argument("--page", action="store_true", help="put the tables into docs/inference.md as well")
    options = parser.parse_args(arguments)
    result = cells(options.runs, options.seed)
    tables = {
        "gate-misses": by_way(result, misses),
        "gate-halves": by_way(result, halves),
        "gate-power": power(result),
    }
    texts = {name: "\n".join(lines) for name, lines in tables.items()}
    print(f"{options.runs:,} comparisons for each cell, seed {options.seed}")
    for text in texts.values():
        print(f"\n{text}")
    if options.page:
        into_page(texts)
    return int(any(one.wrong > ALLOWED for one in result.values()))


def into_page(texts: Mapping[str, str]) -> None:
    """Put each text between the markers of its name in docs/inference.md."""
    page = PAGE.read_text("utf-8")
    for name, text in texts.items():
        page = between_markers(page, name, text)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
