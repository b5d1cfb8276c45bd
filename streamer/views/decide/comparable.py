"""May two sides be compared, and what may be said of them? (R36, inference 8 and 10.) Pure.

A side has the provenance of its run. A trial's own field replaces the run's for its task.

- Where both runs name a harness-changing field and differ, there is no verdict, unless that is allowed.
- Where only some tasks differ, these leave the comparison. At least half of the common tasks must remain.
- Every other difference is said. Agent, model and fields that a run varies on purpose do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from streamer.schemas.events import PRIMARY_METRIC
from streamer.schemas.provenance import (
    HARNESS_CHANGING,
    TRIED,
    Made,
    differ,
    enough_agree,
    is_contested,
    normalised,
)
from streamer.schemas.summaries import PairEvidence, Rank
from streamer.statistics.ability import tasks_are_fair
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import LEAST_TASKS, LEAST_TASKS_OF_A_MEAN, Paired, grouped
from streamer.text import counted, ends_in_points, points, start_of
from streamer.views.cells import place
from streamer.views.models import DIFFERENT_TASKS, Ends, name_of_key

ALLOWED = ("tasks", *sorted(HARNESS_CHANGING))
"""What a question may allow to differ: the tasks of the sides, and fields of provenance (R36)."""

ABOUT_ALLOWED = (
    "Judge even if the sides differ in this; repeatable. tasks: they ran different ones. Else, a "
    "provenance field."
)


# -----------------------------------------------------------------------------
# Two sides: which fields differ, which of them forbid a verdict, and which tasks leave the pairs.


SHOWN_CHARACTERS = 60
SHOWN_TASKS = 5


@dataclass(frozen=True)
class Comparability:
    """Whether two sides may be compared: what differs, in sentences whose names are not escaped.

    Fields in `refused` forbid a verdict. Tasks in `left_out` belong to no pair.
    """

    words: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def of_tasks(self, common: int, totals: tuple[int, int], starts: Sequence[float | None]) -> Comparability:
        """The same for sides with different tasks; refused if results may have chosen the common ones."""
        if tasks_are_fair(common, totals, starts):
            return self
        return replace(self, refused={"tasks": DIFFERENT_TASKS} | self.refused)


def comparable(
    a: Made, b: Made, names: tuple[str, str] = ("A", "B"), allowed: Collection[str] = (), planned: int = 0
) -> Comparability:
    """Compare what two sides were made with; the `allowed` fields may differ.

    `planned` counts all common tasks. While its run goes on, a side may lack some of them.
    """
    tried = {*a.varies, *b.varies} | TRIED
    common = [task for task in a.tasks if task in b.tasks]
    total = max(planned, len(common))
    words, refused, left_out = list[str](), dict[str, str](), dict[str, list[str]]()
    alone: tuple[list[str], list[str]] = [], []
    for name in sorted((a.fields | b.fields) - tried):
        ours, theirs = a.texts(name, common), b.texts(name, common)
        if not ours or not theirs:
            if ours or theirs:
                alone[0 if ours else 1].append(name)
            continue
        differs = [task for task in common if differ(a.value(task, name), b.value(task, name))]
        if ours.keys() == theirs.keys() and not differs:
            continue
        said = f"{name} {_listed(ours.values())} against {_listed(theirs.values())}"
        among = (
            f"in {len(differs):,} of {counted(total, 'common task')}: {_listed(map(name_of_key, differs))}"
        )
        if name.endswith("digest") and common:
            said = f"{name} differs {among}"
        if name in HARNESS_CHANGING and name not in allowed:
            if _runs_differ(name, a, b, differs):
                refused[name] = said
            elif differs:
                left_out[name] = differs
                if not name.endswith("digest"):
                    values = (_listed(one.texts(name, differs).values()) for one in (a, b))
                    said = f"{name} {' against '.join(values)} {among}"
        words.append(said)
    dropped = frozenset[str]().union(*left_out.values())
    if not enough_agree(len(dropped), total):
        few, fields = f"{total - len(dropped):,} of {counted(total, 'common task')}", " and ".join(left_out)
        refused |= dict.fromkeys(left_out, f"only {few} agree in {fields}")
        dropped = frozenset()
    elif dropped:
        words.append(f"{counted(len(dropped), 'common task')} left out, made in different ways")
    words += [f"known of {side} alone: {', '.join(of)}" for side, of in zip(names, alone, strict=True) if of]
    return Comparability(words, refused, dropped)


def not_comparable(refused: Mapping[str, str]) -> str:
    """Why there is no verdict, and what would give one.

    >>> not_comparable({"timeout": "timeout 600 against 900"})
    'not comparable: timeout 600 against 900; --allow timeout judges these'
    """
    allow = " ".join(f"--allow {name}" for name in refused)
    return f"not comparable: {'; '.join(dict.fromkeys(refused.values()))}; {allow} judges these"


def _runs_differ(name: str, a: Made, b: Made, differs: Collection[str]) -> bool:
    """Whether the runs differ, and some task does for that reason or there is no common task."""
    said = (one.run.get(name) for one in (a, b))
    if not differ(*(text and normalised(name, text) for text in said)):
        return False
    return not differs or any(name not in one.tasks[task] for task in differs for one in (a, b))


def listed(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def _listed(values: Iterable[str]) -> str:
    shown = (
        value if len(value) <= SHOWN_CHARACTERS else f"{start_of(value, SHOWN_CHARACTERS)}…"
        for value in sorted(values)
    )
    return listed(list(shown), SHOWN_TASKS)


# -----------------------------------------------------------------------------
# Many runs on one leaderboard: what differs among them, and which tasks two of its agents may be ranked by.


OF_AGENT = frozenset({"agent_version", "model_served"})
"""Fields in which agents differ by nature; the runs of one agent:model may not."""


class Pool:
    """What the runs of each agent:model of a leaderboard were made with, by run id."""

    def __init__(self, runs: Mapping[str, Mapping[str, Made]]) -> None:
        self._runs = runs
        self._varies = {
            label: {name for one in of.values() for name in one.varies} for label, of in runs.items()
        }
        every = [one for of in runs.values() for one in of.values()]
        self._fields = sorted(frozenset[str]().union(*(one.fields for one in every)) - TRIED)
        contested = [name for name in self._fields if name in HARNESS_CHANGING and is_contested(name, every)]
        self._values = {
            name: {label: _by_task(name, of.values()) for label, of in runs.items()} for name in contested
        }

    def common(self, one: str, other: str, tasks: Collection[str]) -> Collection[str]:
        """The tasks by which two agents may be ranked; empty where these are under half of `tasks`."""
        tried, agreed = self._varies[one] | self._varies[other], set(tasks)
        for name, by in self._values.items():
            if name not in tried:
                ours, theirs = by[one], by[other]
                agreed -= {t for t in tasks if t in ours and t in theirs and len(ours[t] | theirs[t]) > 1}
        return agreed if enough_agree(len(tasks) - len(agreed), len(tasks)) else ()

    def words(self) -> list[str]:
        """Every field in which runs differ, one sentence each: its values, and the runs that have them."""
        words, unknown = list[str](), list[str]()
        every = {f"{run} of {label}": one for label, of in self._runs.items() for run, one in of.items()}
        for name in self._fields:
            for group in self._runs.values() if name in OF_AGENT else [every]:
                runs = {run: one for run, one in group.items() if name not in one.varies}
                known = {run: texts for run, one in runs.items() if (texts := one.texts(name, one.tasks))}
                if known and len(known) < len(runs) and name not in unknown:
                    unknown.append(name)
                words += _among(name, runs, known)
        return words + ([f"unknown for some runs: {', '.join(unknown)}"] if unknown else [])


def _among(name: str, runs: Mapping[str, Made], known: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    if name.endswith("digest"):
        by_task = _by_task(name, runs.values())
        tasks = [name_of_key(task) for task, values in by_task.items() if len(values) > 1]
        if tasks:
            yield f"{name} differs among the runs in {counted(len(tasks), 'task')}: {_listed(tasks)}"
        return
    by_value = grouped((tuple(sorted(texts)), run) for run, texts in known.items())
    if len(by_value) > 1:
        said = (f"{_listed(known[of[0]].values())} ({_listed(of)})" for of in by_value.values())
        yield f"{name} differs among the runs: {'; '.join(sorted(said))}"


def _by_task(name: str, sides: Iterable[Made]) -> dict[str, set[str]]:
    """The values that a field has at each task where it is known."""
    values: dict[str, set[str]] = {}
    for one in sides:
        for task in one.tasks:
            if (value := one.value(task, name)) is not None:
                values.setdefault(task, set()).add(value)
    return values


# -----------------------------------------------------------------------------
# The sentences about two agents (inference 8). `compare`, `gate`, the boards and the page share them.


NOTHING = "Nothing separates"
"""How the words of two agents begin that are not told apart yet."""

EITHER = 2 / ALPHA
"""Evidence that shows one of two directions, whichever it is, however often you look."""

UNDECIDED = PairEvidence(better=1.0, worse=1.0, ahead=None)

LOOKS = "95 %, however often you look"
UNRELATED = "if the order has nothing to do with difficulty"


def read_differently(metric: str, sides: Sequence[str], directions: Sequence[str | None]) -> list[str]:
    """The sentence about a named metric that two plans read in opposite directions (R30)."""
    if None in directions or directions[0] == directions[1]:
        return []
    (first, second), (ours, theirs) = sides, directions
    return [f"{metric}: {ours} is better in {first}'s plan, {theirs} in {second}'s; judged as in {first}'s"]


def in_two_units(metric: str, units: Sequence[str | None]) -> str | None:
    """Why a named metric is not compared (R30); None: its units agree, or a plan names none."""
    is_one = None in units or units[0] == units[1]
    return None if is_one else f"{metric} has two units: {units[0]} against {units[1]}"


def counts_as_complete(run_id: str) -> str:
    """The sentence about a run that is judged as it stands (inference 7)."""
    return f"{run_id} has no plan and no end: it counts as complete"


def too_few_tasks(metric: str) -> str:
    """Why there is no interval although all trials are in."""
    least = LEAST_TASKS if metric == PRIMARY_METRIC else LEAST_TASKS_OF_A_MEAN
    return f"an interval needs all trials of {least} tasks where both sides have {metric}"


def overtaken(ahead: str, behind: str) -> str:
    return f"{ahead} can no longer be overtaken by {behind}, unless results are corrected"


def pair_words(
    a: str,
    b: str,
    result: Paired,
    final: Ends | None = None,
    evidence: PairEvidence = UNDECIDED,
    *,
    ranks: Sequence[Rank | None] = (None, None),
    shuffled: bool = False,
    about: str = "",
) -> list[str]:
    """The sentences that hold, strongest first; or one sentence saying that nothing is known."""
    said = list[str]()
    if not result.ended:
        said += _of_run(a, b, result, final if shuffled else None)
        ahead, behind, shown = (a, b, evidence.better) if evidence.ahead == "a" else (b, a, evidence.worse)
        if evidence.ahead and shown >= EITHER:
            said.append(
                f"{ahead} better than {behind} on tasks like these: evidence {shown:.3g}, {EITHER} needed; "
                f"{LOOKS}"
            )
    said += _of_ability(a, b, result)
    if final is not None and not shuffled and not result.ended:
        said.append(f"{_so_far(result, final)}, {UNRELATED}")
    said = said or [*_of_places(a, b, ranks)]
    if not said and result.ended:
        said = [f"{a} and {b}: no interval, so no conclusion"]
    said = said or [f"{NOTHING} {a} and {b}{about}" + ("" if result.over else " yet")]
    if result.uneven:
        said.append(f"{result.uneven} of {result.tasks} tasks have unequal attempts: no test uses them")
    return said


def _of_run(a: str, b: str, result: Paired, final: Ends | None) -> Iterable[str]:
    for ahead, behind, sign in ((a, b, 1), (b, a, -1)):
        if result.reachable is not None and min(sign * end for end in result.reachable) > 0:
            yield overtaken(ahead, behind)
        if final is not None and min(sign * final.low, sign * final.high) > 0:
            yield f"{ahead} ahead in this run's final pass rate: {_so_far(result, final, sign)}; {LOOKS}"


def _so_far(result: Paired, final: Ends, sign: int = 1) -> str:
    difference = _in_points(None if result.difference is None else sign * result.difference)
    ends = ends_in_points(*sorted((sign * final.low, sign * final.high)))
    if result.over:
        return f"{difference} in the results so far, {ends} if all had arrived"
    return f"{difference} so far, {ends} in the end"


def _of_ability(a: str, b: str, result: Paired) -> Iterable[str]:
    if result.certain:
        ahead = a if result.ahead > result.behind else b
        yield f"{ahead} ahead on tasks like these: sign test p = {result.p_value:.3g}"
    if result.interval is not None:
        difference = f"{_in_points(result.difference)} {ends_in_points(*result.interval)}"
        yield f"{a} minus {b}: {difference}; 95 %, for tasks like these"


def _of_places(a: str, b: str, ranks: Sequence[Rank | None]) -> Iterable[str]:
    """What the places of two agents show; agents between them may separate them before their own pairs do."""
    for (ahead, first), (behind, second) in permutations(zip((a, b), ranks, strict=True)):
        if first and second and first.worst < second.best:
            yield (
                f"{ahead} ahead of {behind} among all agents: place {place(first)} against {place(second)}; "
                "95 %, all agents at once"
            )


def _in_points(value: float | None) -> str:
    return "no common result" if value is None else points(value)
