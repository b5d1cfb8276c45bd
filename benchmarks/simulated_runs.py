"""Simulated runs: which trial ends when, and what becomes known of it. It imports nothing of `streamer`.

So a mistake in the intervals cannot hide in the runs that they are tried on.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random

PLANNED, PASSES = 89, 38
FAILURES_TAKE = 3.0

Event = tuple[int, bool | None]
"""A trial, by its number in the planned order, and its outcome as known from now on."""


@dataclass(frozen=True)
class Scenario:
    """What happens in a run besides passing and failing. Each share is one of failures and one of passes.

    Attributes:
        name: as the table says it.
        concurrency: trials that run at once.
        crash: share of trials that crash once at their end. They run again behind all others.
        cancel: share that is cancelled at its end and never has a final value.
        judge: share that waits for a judge: half of it as long as a failure runs, the others for good.
        retract: share whose result is retracted later, and published again at the end of the run.
        budget: share of all running time after which the run is stopped; what runs then has no final value.
        longest_first: whether trials start in the order of their true duration: no shuffle.
        rounds: rounds of 20 tasks, each shuffled; 1: there are no rounds, and every trial is a task.
        order: one of :data:`ORDERS`.
        crash_is_false: a crash is sent as a failure, and its trial runs again all the same.
        silent: a crashed trial is not reported, and neither is its start. The order is not known either.
        outage: share of the results, the first ones, that fail because a service is down.
        resumed: after half of the results, the run goes on with a list that has finished trials first.
        kills: how often the run is killed, evenly spread over its results. What runs is lost. The run goes
            on with the shortest trials first, while its first list stays its order.
        subset: only tasks are planned that another agent has failed, of like abilities.
        at_once: how many trials run at once, a row for each; (): 8 and 32.
    """

    name: str
    concurrency: int = 8
    crash: tuple[float, float] = (0.0, 0.0)
    cancel: tuple[float, float] = (0.0, 0.0)
    judge: tuple[float, float] = (0.0, 0.0)
    retract: tuple[float, float] = (0.0, 0.0)
    budget: float = 1.0
    longest_first: bool = False
    rounds: int = 1
    order: str = field(default="shuffled", repr=False)
    crash_is_false: bool = field(default=False, repr=False)
    silent: bool = field(default=False, repr=False)
    outage: float = field(default=0.0, repr=False)
    resumed: bool = field(default=False, repr=False)
    kills: int = field(default=0, repr=False)
    subset: bool = field(default=False, repr=False)
    at_once: tuple[int, ...] = field(default=(), repr=False)

    @property
    def is_shuffled(self) -> bool:
        """Whether the interval promises anything: the order is shuffled, and what is sent is true."""
        broken = (self.longest_first, self.crash_is_false, self.silent, self.outage, self.resumed)
        return self.order == "shuffled" and not any(broken)


SCENARIOS = [
    Scenario("failures three times as long"),
    Scenario("crashes, run again at the end", crash=(0.4, 0.1)),
    Scenario("cancelled trials", cancel=(0.4, 0.1)),
    Scenario("judges late or never", judge=(0.1, 0.4)),
    Scenario("budget for 60 % of the time", budget=0.6),
    Scenario("retractions", retract=(0.1, 0.4)),
    Scenario(
        "all of these",
        crash=(0.3, 0.1),
        cancel=(0.2, 0.05),
        judge=(0.05, 0.2),
        retract=(0.05, 0.2),
        budget=0.8,
    ),
    Scenario("five rounds of 20 tasks", rounds=5),
    Scenario("twenty rounds of 20 tasks", rounds=20, at_once=(200,)),
    Scenario("only tasks that another agent failed", subset=True),
    Scenario("killed three times, resumed with the shortest first", kills=3),
    Scenario("the same, with crashes and cancelled trials", kills=3, crash=(0.3, 0.1), cancel=(0.2, 0.05)),
    Scenario("longest first", longest_first=True),
    Scenario("easy tasks tend to come first", order="easy tend to be first"),
    Scenario("alike tasks are neighbours", order="alike are neighbours"),
    Scenario("easy tasks first", order="easy first"),
    Scenario("crashes sent as failures, run again at the end", crash=(0.4, 0.1), crash_is_false=True),
    Scenario("silent crashes, only the concurrency known", crash=(0.4, 0.1), silent=True),
    Scenario("a service is down for the first third", outage=1 / 3),
    Scenario("a resume lists finished trials first", resumed=True),
]
"""The rows from `longest first` on break an assumption, so nothing is promised there."""


def chances(choice: Random) -> list[float]:
    """The chance of each task to pass, shuffled."""
    return [choice.betavariate(0.5, 0.7) for _ in range(PLANNED)]


def tending(choice: Random) -> list[float]:
    """Easy tasks tend to come first: chance and place have a correlation of about -0.3."""
    return sorted(chances(choice), key=lambda chance: choice.gauss(0.0, 1.1) - chance)


def neighbours(choice: Random) -> list[float]:
    """Blocks of 10 tasks with the same chance, as of one repository or one author."""
    blocks = [choice.betavariate(0.5, 0.7) for _ in range(-(-PLANNED // 10))]
    return [blocks[place // 10] for place in range(PLANNED)]


ORDERS = {
    "easy tend to be first": tending,
    "alike are neighbours": neighbours,
    "easy first": lambda choice: sorted(chances(choice), reverse=True),
}
"""Orders that are not shuffled, as the chances of the tasks in the order of the queue."""


def outcomes_of(scenario: Scenario, choice: Random) -> list[bool]:
    """The outcome of each planned trial, in the order of the queue."""
    if scenario.subset:
        every = (chance for _ in count() for chance in chances(choice) if choice.random() >= chance)
        return [choice.random() < chance for chance in islice(every, PLANNED)]
    if scenario.order != "shuffled":
        return [choice.random() < chance for chance in ORDERS[scenario.order](choice)]
    if scenario.rounds == 1:
        return choice.sample([True] * PASSES + [False] * (PLANNED - PASSES), PLANNED)
    rates = [choice.betavariate(0.5, 0.7) for _ in range(20)]
    return [choice.random() < rate for _ in range(scenario.rounds) for rate in choice.sample(rates, 20)]


def two_agents(rounds: int, choice: Random) -> tuple[list[int], list[bool], list[bool]]:
    """The task of each pair in the queue, and its outcomes for two equal agents, in rounds of 20 tasks."""
    rates = [choice.betavariate(0.5, 0.7) for _ in range(20)]
    tasks = [task for _ in range(rounds) for task in choice.sample(range(20), 20)]
    ours, theirs = ([choice.random() < rates[task] for task in tasks] for _ in range(2))
    return tasks, ours, theirs


def events(scenario: Scenario, outcomes: Sequence[bool], choice: Random) -> list[Event]:
    """What becomes known of which trial, in the order in which it does; trials by their place in the queue.

    The outcomes are in the order of the queue. For `longest_first` durations make the queue.
    """
    changes: list[tuple[float, int, bool | None]] = []
    ended = 0.0
    durations = durations_of(outcomes, choice)
    if scenario.longest_first:
        queue = sorted(zip(durations, outcomes, strict=True), reverse=True)
        durations, outcomes = [duration for duration, _ in queue], [passed for _, passed in queue]
    down = round(scenario.outage * len(outcomes))
    crashed: list[tuple[float, int]] = []
    for number, (ended, trial) in enumerate(ends(scenario, outcomes, choice, durations, crashed)):
        passed = outcomes[trial] and number >= down
        changes += results(scenario, trial, passed, ended, choice)
    if scenario.crash_is_false:
        changes += [(at, trial, False) for at, trial in crashed]
    told = sorted(
        changes, key=lambda item: min(item[0], ended)
    )  # what would come after the run comes at its end
    retracted = [(trial, outcomes[trial]) for _, trial, outcome in changes if outcome is None]
    return [(trial, outcome) for _, trial, outcome in told] + retracted


def durations_of(outcomes: Sequence[bool], choice: Random) -> list[float]:
    return [choice.expovariate(1.0) * (1.0 if passed else FAILURES_TAKE) for passed in outcomes]


def ends(
    scenario: Scenario,
    outcomes: Sequence[bool],
    choice: Random,
    durations: Sequence[float] | None = None,
    crashed: list[tuple[float, int]] | None = None,
) -> Iterator[tuple[float, int]]:
    """When each trial ends that does not crash, as long as the budget lasts.

    Args:
        durations: of the trials; None: they are drawn.
        crashed: collects when which trial crashes.
    """
    durations = durations_of(outcomes, choice) if durations is None else durations
    order = range(len(outcomes))
    queue = deque(order)
    budget = sum(durations) * scenario.budget
    crashes = {trial for trial in order if happens(scenario.crash, outcomes[trial], choice)}
    running: list[tuple[float, int]] = []
    kills = [len(outcomes) * part // (scenario.kills + 1) for part in range(1, scenario.kills + 1)]
    now, ended = 0.0, 0
    while queue or running:
        if kills and ended >= kills[0]:
            del kills[0]
            queue = deque(sorted([*queue, *(trial for _, trial in running)], key=durations.__getitem__))
            running = []
        while queue and len(running) < scenario.concurrency:
            trial = queue.popleft()
            heapq.heappush(running, (now + durations[trial], trial))
        now, trial = heapq.heappop(running)
        budget -= durations[trial]
        if budget < 0 and scenario.budget < 1:
            return
        if trial in crashes:
            crashes.remove(trial)
            queue.append(trial)
            if crashed is not None:
                crashed.append((now, trial))
        else:
            ended += 1
            yield now, trial


def results(
    scenario: Scenario, trial: int, passed: bool, ended: float, choice: Random
) -> Iterator[tuple[float, int, bool | None]]:
    """When a trial's outcome becomes known, and when it is retracted."""
    if happens(scenario.cancel, passed, choice):
        return
    if happens(scenario.judge, passed, choice):
        if choice.random() < 0.5:
            yield ended + choice.expovariate(1 / FAILURES_TAKE), trial, passed
        return
    yield ended, trial, passed
    if happens(scenario.retract, passed, choice):
        yield ended + choice.expovariate(1 / FAILURES_TAKE), trial, None


def happens(shares: tuple[float, float], passed: bool, choice: Random) -> bool:
    """Whether something happens whose share hangs on the outcome."""
    return choice.random() < shares[passed]
