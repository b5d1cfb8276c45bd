"""How many pairs decide between two public agents: at random, by history, and task by task as before.

    python -m benchmarks.history [--orders N] [--seed N] [--page]

The agents are the submissions of Terminal-Bench in tests/data; each run of a submission is an attempt at each
task. Of each ordered pair the first agent has finished. The trials of the second one come in rounds, in N
orders, at random and by history: live tasks first, by the runs of all other agents alone. Evidence of 20 that
the second agent is worse decides, at any look. `task by task` is the gate of before: its unit is the task.

False alarms: in each pair of trials the outcomes are swapped at random, so that neither agent is favoured.
Forecasts: what the outlook of a run promises where an eighth, a quarter or half of its pairs are known and
nothing is decided. It asks for evidence of 40, because either agent may be the better one. `--page` puts the
tables into docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from random import Random
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.gate_study import into_page
from benchmarks.verdicts import public_runs
from streamer.statistics.final import prefixes
from streamer.statistics.pairs import Attempts, Pair, PairedTask, evidence_worse
from streamer.views.decide.comparable import EITHER
from streamer.views.decide.history import (
    MOST_PLANS,
    NEEDED,
    PastRun,
    PastTrial,
    decided_after,
    order_for_comparison,
    pairs_to_decide,
    tasks_of,
)

Trial = tuple[str, int]
Outcomes = Mapping[Trial, bool]

BANDS = ((0.10, 0.15), (0.15, 0.25), (0.25, 1.0), (0.10, 1.0))
"""Drops of the pass rate; the lower end belongs to a band."""

SHARES = (8, 4, 2)
"""A forecast is read when so large a part of the pairs is known: an eighth and so on."""

DECISION_HEAD = (
    "| drop, points | at random | by history | task by task | by history / task by task | at most half, "
    "of the pairs of agents |",
    "|---|---|---|---|---|---|",
)
ALARM_HEAD = ("| two agents with swapped outcomes | at random | by history |", "|---|---|---|")
FORECAST_HEAD = (
    "| pairs known | order | forecasts | decides: in all, within a factor of two | decides: more pairs, "
    "within a factor of two | will not decide: right |",
    "|---|---|---|---|---|---|",
)


class Agent(NamedTuple):
    """A public agent: its runs, and all its outcomes by task."""

    runs: Sequence[PastRun]
    outcomes: Mapping[str, Sequence[bool]]

    @property
    def rate(self) -> float:
        return fmean(map(fmean, self.outcomes.values()))

    @property
    def attempts(self) -> int:
        return min(map(len, self.outcomes.values()))

    def drawn(self, attempts: int, random: Random) -> Outcomes:
        """So many attempts at each task; which one is the first is drawn."""
        return {
            (task, number): passed
            for task, every in self.outcomes.items()
            for number, passed in enumerate(random.sample(list(every), attempts), 1)
        }


class Replay(NamedTuple):
    """Two agents in one order of each kind.

    Attributes:
        drop: by how much the second agent passes less often.
        at_random, by_history: the pairs in order, ours of the second agent.
        by_task: after how many pairs the gate of before decides; None: never.
    """

    drop: float
    at_random: Sequence[Pair]
    by_history: Sequence[Pair]
    by_task: int | None


def agents(submissions: int | None = None) -> list[Agent]:
    """The public agents, or so many of them."""
    trials: dict[str, dict[str, list[PastTrial]]] = {}
    for rows in public_runs():
        label, run = rows[0]["submission"], f"{rows[0]['submission']} {rows[0]['run']}"
        trials.setdefault(label, {})[run] = [
            PastTrial(run, label, row["task_id"], row["task_id"], bool(row["is_resolved"]), None, None)
            for row in rows
        ]
    result = []
    for by_run in list(trials.values())[:submissions]:
        outcomes: dict[str, list[bool]] = {}
        for trial in (trial for run in by_run.values() for trial in run):
            outcomes.setdefault(trial.task, []).append(trial.passed)
        result.append(Agent([PastRun(run, None, own) for run, own in by_run.items()], outcomes))
    return result


def replays(every: Sequence[Agent], orders: int, random: Random) -> Iterator[Replay]:
    """Every ordered pair of agents, in so many orders."""
    for first, second in permutations(every, 2):
        others = [run for one in every if one not in (first, second) for run in one.runs]
        live = {task.task for task in tasks_of(others) if task.is_live}
        attempts, tasks = min(first.attempts, second.attempts), list(first.outcomes)
        drop = first.rate - second.rate
        for _ in range(orders):
            seed = str(random.random())
            theirs, ours = first.drawn(attempts, random), second.drawn(attempts, random)
            queues = [order_for_comparison(tasks, ahead, attempts, seed) for ahead in (tasks, live)]
            pairs = [[Pair(ours[trial], theirs[trial]) for trial in queue] for queue in queues]
            before = by_task(queues[0], ours, theirs, attempts) if drop >= BANDS[0][0] else None
            yield Replay(drop, *pairs, before)


def by_task(queue: Sequence[Trial], ours: Outcomes, theirs: Outcomes, attempts: int) -> int | None:
    """After how many trials evidence suffices whose unit is the task: the gate of before."""
    tasks = list(dict.fromkeys(task for task, _ in queue))
    past = [Attempts(attempts, sum(theirs[task, number + 1] for number in range(attempts))) for task in tasks]
    known, passed, looks = Counter[str](), Counter[str](), set(prefixes(len(queue)))
    for size, trial in enumerate(queue, 1):
        known[trial[0]] += 1
        passed[trial[0]] += ours[trial]
        if size in looks:
            own = [Attempts(known[task], passed[task], attempts - known[task]) for task in tasks]
            pairs = [PairedTask(*sides) for sides in zip(own, past, strict=True)]
            if evidence_worse(pairs, len(tasks)) >= NEEDED:
                return size
    return None


class Used(NamedTuple):
    """After how many pairs one comparison is decided, each way; None: never, so it took all its pairs."""

    planned: int
    ways: tuple[int | None, int | None, int | None]

    @classmethod
    def by(cls, one: Replay) -> Used:
        ways = (decided_after(one.at_random), decided_after(one.by_history), one.by_task)
        return cls(len(one.at_random), ways)

    @property
    def pairs(self) -> list[int]:
        return [at or self.planned for at in self.ways]


def ratio_of(used: Sequence[Used]) -> float:
    """Pairs by history, over the pairs of the gate of before."""
    return sum(one.pairs[1] for one in used) / sum(one.pairs[2] for one in used)


def decisions(every: Sequence[Replay], orders: int) -> Iterator[str]:
    """The table of decided comparisons."""
    yield from DECISION_HEAD
    for low, high in BANDS:
        band = [one for one in every if low <= one.drop < high]
        if not band:
            continue
        used = [Used.by(one) for one in band]
        cells = []
        for way in range(3):
            decided = fmean(one.ways[way] is not None for one in used)
            cells.append(f"{decided:.0%}, {median(one.pairs[way] for one in used):.0f} pairs")
        name = f"{100 * low:.0f} to {100 * high:.0f}" if high < 1 else f"{100 * low:.0f} and more"
        pairs = [used[start : start + orders] for start in range(0, len(used), orders)]
        halved = sum(ratio_of(pair) <= 0.5 for pair in pairs)
        cells += [f"{ratio_of(used):.2f}", f"{halved} of {len(pairs)}"]
        yield f"| {name} | {' | '.join(cells)} |"


def false_alarms(every: Sequence[Replay], random: Random) -> Iterator[str]:
    """How often a look at swapped outcomes calls the second agent worse."""
    yield from ALARM_HEAD
    shares = []
    for way in ("at_random", "by_history"):
        swapped = (
            [pair if random.random() < 0.5 else Pair(pair.theirs, pair.ours) for pair in getattr(one, way)]
            for one in every
        )
        shares.append(f"{fmean(decided_after(pairs) is not None for pairs in swapped):.1%}")
    yield f"| called worse at any look, of {len(every):,} | {' | '.join(shares)} |"


def forecasts(every: Sequence[Replay]) -> Iterator[str]:
    """How often the promised number of pairs was right."""
    yield from FORECAST_HEAD
    for share in SHARES:
        for way, name in (("at_random", "at random"), ("by_history", "by history")):
            scored = [one for replay in every if (one := _scored(getattr(replay, way), share)) is not None]
            promised = [(known, promise, came) for known, promise, came in scored if promise is not None]
            cells = (
                _share(within(promise, came) for _, promise, came in promised),
                _share(within(promise - known, came and came - known) for known, promise, came in promised),
                _share(came is None for _, promise, came in scored if promise is None),
            )
            yield f"| 1/{share} | {name} | {len(scored):,} | {' | '.join(cells)} |"


def _scored(pairs: Sequence[Pair], share: int) -> tuple[int, int | None, int | None] | None:
    """Known pairs, the promised and the true number of pairs; None: not in this run. No forecast: None."""
    ends = (decided_after(side, EITHER) for side in (pairs, [Pair(b, a) for a, b in pairs]))
    came = min((at for at in ends if at is not None), default=None)
    known = len(pairs) // share
    if came is not None and came <= known:
        return None
    won = sum(pair.won() is True for pair in pairs[:known])
    lost = sum(pair.lost() is True for pair in pairs[:known])
    promise = pairs_to_decide(min(won, lost), max(won, lost), known, MOST_PLANS * len(pairs))
    return known, promise if promise and promise <= len(pairs) else None, came


def within(promised: int, came: int | None) -> bool:
    """Whether it came, and within a factor of two."""
    return came is not None and promised <= 2 * came and came <= 2 * promised


def _share(right: Iterator[bool]) -> str:
    every = list(right)
    return f"{fmean(every):.0%} of {len(every):,}" if every else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="How many pairs decide between two public agents.")
    parser.add_argument("--orders", type=int, default=30, help="orders of each ordered pair of agents (30)")
    parser.add_argument("--agents", type=int, help="only so many agents")
    parser.add_argument("--seed", type=int, default=39, help="of all chance (39)")
    parser.add_argument("--page", action="store_true", help="put the tables into docs/inference.md as well")
    given = parser.parse_args(arguments)
    random = Random(given.seed)
    every = list(replays(agents(given.agents), given.orders, random))
    tables = {
        "history-decisions": "\n".join(decisions(every, given.orders)),
        "history-alarms": "\n".join(false_alarms(every, random)),
        "history-forecasts": "\n".join(forecasts(every)),
    }
    print("\n\n".join(tables.values()))
    if given.page:
        into_page(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
