"""How often a rank is wrong: simulated runs of several agents, looked at until the end.

    python -m benchmarks.rank_study [--runs N] [--seed N] [--page]

All agents of a run share the workers, and the queue has the trials of a task side by side. A run is missed if
the range of any agent leaves out a place that it may truly have. Agents of equal ability share their places:
each may have any of them. Two looks tell whether a range ever misses:

- the last look before the run is complete. Results only add evidence, so what was ever shown is shown there;
- the look at the end, where the sign test ranks (inference 7).

Each look has a level of 97.5 %, so both together have 95 %. The same seed prints the same table. `--page`
puts it into docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import ALLOWED
from benchmarks.gate_study import into_page
from benchmarks.simulated_runs import Scenario, events
from benchmarks.two_agents import CHANCES, CRASHED, PLANS, UNKNOWN, Plan, order_of, shifted
from streamer.folding.pairs import Trials, pair_counts, pair_evidence, ranks_at_end, ranks_so_far
from streamer.statistics.final import prefixes
from streamer.statistics.pairs import Place

AGENTS = (2, 3, 6)
WORSE = -0.20
"""What the second half of the agents lacks, where they are not equal."""
SCENARIOS = (
    Scenario("one pool of 32", concurrency=32),
    Scenario("10 % stay unknown", cancel=UNKNOWN),
    Scenario("crashes, run again", crash=CRASHED),
)

HEAD = (
    "| plan | in the run | agents | missed while it goes on | missed at the end | ever |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Field:
    """Agents that run together; the second half is worse, or all are equal."""

    agents: int
    equal: bool

    @property
    def better(self) -> list[float]:
        """How much better each is than the first."""
        return [0.0 if self.equal or agent < self.agents / 2 else WORSE for agent in range(self.agents)]

    @property
    def name(self) -> str:
        return f"{self.agents} equal" if self.equal else f"{self.agents}, half of them 20 points worse"

    def places(self) -> list[Place]:
        """From which to which place each may truly stand."""
        first = [1 + sum(other > own for other in self.better) for own in self.better]
        return [
            Place(place, place + self.better.count(own) - 1)
            for place, own in zip(first, self.better, strict=True)
        ]


FIELDS = tuple(Field(agents, equal) for agents in AGENTS for equal in (True, False))


class Missed(NamedTuple):
    """Whether a range misses while the run goes on, at its end, or ever; of many runs the shares."""

    going_on: float
    at_end: float
    ever: float


@dataclass(frozen=True)
class Run:
    """One run: the task of each pair, the outcomes pair by pair, and the trials as their results come in."""

    tasks: list[int]
    outcomes: NDArray[np.bool_]
    changes: list[int]

    def known(self, results: int) -> NDArray[np.bool_]:
        """Which outcomes are known after so many results."""
        known = np.zeros(len(self.outcomes), np.bool_)
        known[self.changes[:results]] = True
        return known


def simulated(plan: Plan, scenario: Scenario, field: Field, choice: Random) -> Run:
    """A run of all agents."""
    of_task = [choice.betavariate(*CHANCES) for _ in range(plan.tasks)]
    tasks = order_of(plan, choice)
    outcomes = [choice.random() < shifted(of_task[task], better) for task in tasks for better in field.better]
    return Run(tasks, np.array(outcomes), [trial for trial, _ in events(scenario, outcomes, choice)])


def one_run(plan: Plan, field: Field, run: Run) -> Missed:
    """Whether any range misses in one run."""
    results = len(run.changes)
    complete = results == len(run.outcomes)
    going_on = misses(plan, field, run, results - 1 if complete else results)
    at_end = complete and misses(plan, field, run, results)
    return Missed(going_on, at_end, going_on or at_end)


def misses(plan: Plan, field: Field, run: Run, results: int) -> bool:
    """Whether, after so many results, a range leaves out a place that its agent may truly have."""
    result = ranked(plan, field.agents, run, run.known(results))
    return any(
        shown.best > true.best or shown.worst < true.worst
        for shown, true in zip(result, field.places(), strict=True)
    )


def ranked(plan: Plan, agents: int, run: Run, known: NDArray[np.bool_]) -> list[Place]:
    """The places of all agents, as the worker works them out."""
    shape = (plan.pairs, agents)
    passed, unknown = (marks.reshape(shape).T.astype(np.int32) for marks in (run.outcomes & known, ~known))
    trials = Trials(np.ones_like(passed), passed, passed + unknown)
    if known.all():
        places = ranks_at_end(labels(agents), trials, run.tasks)
    else:
        later = np.tri(agents, k=-1, dtype=np.bool_)
        counts = pair_counts(trials, 0, [list(range(plan.pairs))] * agents, later, prefixes(plan.pairs))
        places = ranks_so_far(labels(agents), pair_evidence(counts))
    return [places[label] for label in labels(agents)]


@cache
def labels(agents: int) -> list[str]:
    return [str(agent) for agent in range(agents)]


def missed(plan: Plan, scenario: Scenario, field: Field, runs: int, seed: int) -> Missed:
    """Shares of runs; each has a chance of its own."""
    result = []
    for run in range(runs):
        choice = Random(f"{seed}/{plan.name}/{scenario.name}/{field.name}/{run}")
        result.append(one_run(plan, field, simulated(plan, scenario, field, choice)))
    return Missed(*(sum(column) / runs for column in zip(*result, strict=True)))


def row(plan: Plan, scenario: Scenario, field: Field, result: Missed) -> str:
    """The row of the table; what never ends complete has no end."""
    going_on, at_end, ever = (f"{share:.1%}" for share in result)
    at_end = "-" if any(scenario.cancel) else at_end
    return f"| {plan.name} | {scenario.name} | {field.name} | {going_on} | {at_end} | {ever} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if any row misses in more than 5 % of its runs, while they go on or at their end."""
    parser = argparse.ArgumentParser(description="How often a rank is wrong.")
    parser.add_argument("--runs", type=int, default=500, help="simulated runs for each row (500)")
    parser.add_argument("--seed", type=int, default=20, help="of all chance (20)")
    parser.add_argument("--page", action="store_true", help="put the table into docs/inference.md as well")
    options = parser.parse_args(arguments)
    print(f"{options.runs:,} runs for each row, seed {options.seed}\n")
    lines = list(HEAD)
    print("\n".join(lines))
    worst = 0.0
    for plan, scenario, field in product(PLANS, SCENARIOS, FIELDS):
        result = missed(plan, scenario, field, options.runs, options.seed)
        lines.append(row(plan, scenario, field, result))
        print(lines[-1], flush=True)
        worst = max(worst, result.going_on, result.at_end)
    if options.page:
        into_page({"rank-misses": "\n".join(lines)})
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
