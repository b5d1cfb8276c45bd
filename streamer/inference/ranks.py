"""The places that agents may truly have: all ranges hold together (inference 7).

While a run goes on, they hold however often you look. At its end the sign test gives them again, at a
level of its own.

How a pair becomes a place:

1. For each two agents, count the tasks that only one of them passed: the wins and the losses of the first.
2. `least_losses` tells how many losses show, at some level, that the first agent is worse.
3. `places` asks so for every two agents, in both directions, at the levels of Holm's method.

Everything is exact: integers and fractions, no floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from streamer.inference.finite_population import ALPHA
from streamer.inference.paired import Attempts, PairedTask

Direction = tuple[str, str]
"""Two agents: the first is worse than the second."""


class ComparisonMissing(StrEnum):
    """Why agents are not compared, or not ranked."""

    NO_PLAN = "no_plan"
    """The run did not say how many trials it plans, and it has not ended with all of them in."""
    PLAN_EXCEEDED = "plan_exceeded"
    """There are more trials than planned, and the run has not ended with all of them in."""
    TOO_MANY_AGENTS = "too_many_agents"
    """More than 60 agents."""
    TOO_MANY_TRIALS = "too_many_trials"
    """More trials than are compared once a second, or more tasks than are ranked."""


class Place(NamedTuple):
    """Where an agent may truly stand: from `best` to `worst`, 1 is the first place."""

    best: int
    worst: int


def places(
    agents: Iterable[str], shown: Callable[[Fraction], Collection[Direction]], alpha: Fraction = ALPHA
) -> dict[str, Place]:
    """The best and the worst place that each agent may truly have.

    Holm's method over all m directed pairs: some are shown at alpha/m, then perhaps more at alpha/(m-1), and
    so on, until no more are. Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    An agent stands behind every agent that it is shown to be worse than. Two agents may be shown to be worse
    than each other, at different looks. Neither then stands behind the other.

    Args:
        agents: all that are ranked.
        shown: which directions are shown at a level; at a higher level at least the same ones.
        alpha: chance that any range is ever wrong.

    >>> p_values = {("c", "a"): 0.001, ("c", "b"): 0.002, ("b", "a"): 0.04}
    >>> places("abc", lambda level: [pair for pair, p in p_values.items() if p <= level])
    {'a': Place(best=1, worst=2), 'b': Place(best=1, worst=2), 'c': Place(best=3, worst=3)}
    """
    ranked = list(agents)
    directions = len(ranked) * (len(ranked) - 1)
    found: Collection[Direction] = ()
    while len(found) < directions:
        more = set(shown(alpha / (directions - len(found))))
        if len(more) <= len(found):
            break
        found = more
    certain = [(behind, ahead) for behind, ahead in found if (ahead, behind) not in found]
    best = Counter(behind for behind, _ in certain)
    worst = Counter(ahead for _, ahead in certain)
    return {agent: Place(1 + best[agent], len(ranked) - worst[agent]) for agent in ranked}


def places_at_end(
    tasks: Mapping[str, Mapping[str, Sequence[Attempts]]], alpha: Fraction = ALPHA
) -> dict[str, Place]:
    """The places of agents whose runs are over, by the one-sided sign test of every two.

    A task goes to the agent that passes it more often in equal attempts (see `TaskPair.won`). Of each task
    as many of the newest runs of both agents count as have equally many trials together. A task without such
    runs says nothing of the two. Two agents without a common task are never told apart. It may be asked once.

    Args:
        tasks: agent to task to the agent's trials there, run by run, the newest first. A task that unknown
            trials leave open counts against either claim, as long as it can.
        alpha: chance that any range is wrong, at one look that was fixed beforehand.

    >>> passed, failed = [Attempts(1, 1)], [Attempts(1, 0)]
    >>> places_at_end({"a": dict.fromkeys("abcdefgh", passed), "b": dict.fromkeys("abcdefgh", failed)})
    {'a': Place(best=1, worst=1), 'b': Place(best=2, worst=2)}
    """
    pools = {agent: {task: _pools(runs) for task, runs in held.items()} for agent, held in tasks.items()}
    counts: dict[Direction, tuple[int, int]] = {}
    for one, other in combinations(tasks, 2):
        common = tasks[one].keys() & tasks[other].keys()
        found = (_of_equal_attempts(pools[one][task], pools[other][task]) for task in common)
        pairs = Counter(pair for pair in found if pair is not None)
        counts[one, other] = _possible_wins(pairs), _sure_losses(pairs)
        turned = Counter({PairedTask(pair.theirs, pair.ours): times for pair, times in pairs.items()})
        counts[other, one] = _possible_wins(turned), _sure_losses(turned)
    most = max((sum(found) for found in counts.values()), default=0)

    def shown(level: Fraction) -> list[Direction]:
        least = least_losses_at_end(most, level)
        return [pair for pair, (wins, losses) in counts.items() if losses >= least[wins + losses]]

    return places(tasks, shown, alpha)


def _pools(runs: Iterable[Attempts]) -> dict[int, Attempts]:
    """The trials of the newest run, of the newest two and so on, by how many they are."""
    found, total = dict[int, Attempts](), Attempts(0, 0)
    for run in runs:
        total = Attempts(*map(sum, zip(total, run, strict=True)))
        found[total.planned] = total
    return found


def _of_equal_attempts(ours: Mapping[int, Attempts], theirs: dict[int, Attempts]) -> PairedTask | None:
    """The largest pools of both sides with equally many trials; None: there are none."""
    planned = next((planned for planned in reversed(theirs) if planned in ours), None)
    return None if planned is None else PairedTask(ours[planned], theirs[planned])


def _possible_wins(pairs: Mapping[PairedTask, int]) -> int:
    return sum(times for pair, times in pairs.items() if pair.won() is not False)


def _sure_losses(pairs: Mapping[PairedTask, int]) -> int:
    return sum(times for pair, times in pairs.items() if pair.lost() is True)


@lru_cache(maxsize=256)
def least_losses(tasks: int, level: Fraction) -> tuple[int, ...]:
    """From how many losses on the e-value of "we are worse" reaches 1/level, whenever you look.

    Args:
        tasks: the largest number of tasks that differ.
        level: between 0 and 1, exact.

    Returns:
        For n = 0 to `tasks` differing tasks the least losses among them; n + 1: even n losses are too few.

    Six losses in a row are too few, and seven suffice. With one win even eight are too few:

    >>> least_losses(9, Fraction(1, 20))
    (1, 2, 3, 4, 5, 6, 7, 7, 8, 9)
    """
    numerator, denominator = level.as_integer_ratio()
    least = [1]  # without a task the e-value is 1
    losses, ways, below = 1, 0, 2  # C(n, losses), and the sum of all C(n+1, j) up to j = losses
    for n in range(1, tasks + 1):
        ways = 1 if losses == n else ways * n // (n - losses)
        below = 2 * below - ways
        if numerator * below < denominator * (n + 1) * ways:  # the e-value of `comparisons.e_value`
            below += ways * (n + 1) // (losses + 1)
            ways = ways * (n - losses) // (losses + 1)
            losses += 1
        least.append(losses)
    return tuple(least)


@lru_cache(maxsize=256)
def least_losses_at_end(tasks: int, level: Fraction) -> tuple[int, ...]:
    """The same of the one-sided sign test, which may be asked once, when all tasks are in.

    Five losses in a row have p = 1/32. Of eight tasks seven losses have p = 9/256, and six have 37/256:

    >>> least_losses_at_end(8, Fraction(1, 20))
    (1, 2, 3, 4, 5, 5, 6, 7, 7)
    """
    numerator, denominator = level.as_integer_ratio()
    least = [1]
    losses, ways, above = 1, 0, 0  # C(n, losses), and the sum of all C(n, j) from j = losses on
    for n in range(1, tasks + 1):
        fewer = 1 if losses == n else ways * losses // (n - losses)  # C(n-1, losses-1)
        above = 2 * above + fewer
        ways += fewer
        if denominator * above > numerator * 2**n:
            above -= ways
            ways = ways * (n - losses) // (losses + 1)
            losses += 1
        least.append(losses)
    return tuple(least)
