"""May two sides be compared? What they were made with, field by field (R36, inference 10). Pure.

A side has the provenance of its run. A trial's own field replaces the run's for its task.

- Where both runs name a harness-changing field and differ, there is no verdict, unless that is allowed.
- Where only some tasks differ, these leave the comparison. At least half of the common tasks must remain.
- Every other difference is said. Agent, model and fields that a run varies on purpose do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import Any

from streamer.schemas.summaries import HARNESS_CHANGING, RunSummary, TaskProvenance, side_by_side
from streamer.text import counted, start_of

# -----------------------------------------------------------------------------
# Values, normalised: 600, 600.0, 10m and 600s are one timeout.


TRIED = frozenset({"agent", "model"})
"""What two sides differ in by nature."""

ALLOWED = ("tasks", *sorted(HARNESS_CHANGING))
"""What a question may allow to differ: the tasks of the sides, and fields of provenance (R36)."""

ABOUT_ALLOWED = (
    "Judge though the sides differ in this; may be repeated. tasks: they ran different ones. Else a field of "
    "provenance."
)

_PLAIN = frozenset({"dataset", "harness", "judge", "model_served", "prices"})
"""Fields whose values are names. Versions and digests are names, too: 1.1 and 1.10 are two versions."""

_SECONDS = {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|s|m|h|d)(?:ecs?|econds?|ins?|inutes?|ours?|ays?)?")


@lru_cache(maxsize=4096)
def normalised(name: str, value: str) -> str:
    """A value of a field in the one way in which it is compared.

    Equal parts are one: attempts and agents may spell a value differently.

    >>> [normalised("timeout", value) for value in ("600", "600.0", "10m", "600 s", "600, 600.0")]
    ['600', '600', '600', '600', '600']
    >>> normalised("resources", "memory=4096.0, cpus=2"), normalised("dataset_version", "1.10")
    ('cpus=2,memory=4096', '1.10')
    """
    return ",".join(sorted({_part(name, part) for part in re.split("[,;]", value)}))


def _part(name: str, text: str) -> str:
    """One of several values; it may have a name of its own, as in `cpus=2`."""
    own, equals, value = (part.strip() for part in text.rpartition("="))
    name = own or name
    if name.endswith("digest"):
        value = value.lower().removeprefix("sha256:")
    elif name not in _PLAIN and not name.endswith("version"):
        value = _number(value.lower(), in_time=bool(re.search("time|second|duration|^limits$", name)))
    return own + equals + value


def _number(value: str, *, in_time: bool) -> str:
    if in_time and re.fullmatch(rf"(?:{_DURATION.pattern}\s?)+", value):
        parts = _DURATION.findall(value)
        seconds = sum((Decimal(count) * Decimal(_SECONDS[unit]) for count, unit in parts), Decimal())
        return f"{seconds.normalize():f}"
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    return f"{number.normalize():f}" if number.is_finite() and abs(number.adjusted()) < 30 else value


# -----------------------------------------------------------------------------
# Two sides: which fields differ, which of them forbid a verdict, and which tasks leave the pairs.


Values = Mapping[str, str]
"""Field of provenance to its text."""

SHOWN_CHARACTERS = 60
SHOWN_TASKS = 5


@dataclass(frozen=True)
class Made:
    """What one side was made with.

    Attributes:
        run: what its run says of all trials.
        tasks: each of its tasks, by `task_key`, and what the trials there say in place of the run.
        varies: the fields that its run tries out.
    """

    run: Values
    tasks: Mapping[str, Values]
    varies: Collection[str] = ()

    @classmethod
    def of(cls, run: Mapping[str, Any], tasks: Mapping[str, Values]) -> Made:
        """From the fields `harness`, `provenance` and `varies` of a run's plan or summary."""
        harness = {"harness": run["harness"]} if run.get("harness") else {}
        return cls(harness | (run.get("provenance") or {}), tasks, run.get("varies") or ())

    @classmethod
    def by(
        cls,
        run: RunSummary,
        tasks: Iterable[str],
        provenance: Mapping[str, TaskProvenance],
        labels: Collection[str],
    ) -> Made:
        """What some agents of a run were made with, as its summary and its tasks say."""
        of = {task: provenance.get(task, {}) for task in tasks}
        own = {task: side_by_side([said[at] for at in labels if at in said]) for task, said in of.items()}
        return cls.of(run.model_dump(include={"harness", "provenance", "varies"}), own)

    @cached_property
    def fields(self) -> frozenset[str]:
        """Every field that is known of any trial."""
        return frozenset(self.run).union(*self.tasks.values())

    def value(self, task: str, name: str) -> str | None:
        """A field at a task, normalised; None: not known."""
        text = self.text(task, name)
        return None if text is None else normalised(name, text)

    def text(self, task: str, name: str) -> str | None:
        return self.tasks[task].get(name, self.run.get(name))

    def texts(self, name: str, tasks: Collection[str]) -> dict[str, str]:
        """Every value that a field has at some tasks, as it is compared, to its text; {}: not known."""
        texts = [self.text(task, name) for task in tasks] if tasks else [self.run.get(name)]
        return {normalised(name, text): text for text in texts if text is not None}


@dataclass(frozen=True)
class Comparability:
    """Whether two sides may be compared.

    Attributes:
        words: what differs, one sentence each; values are cut, not escaped.
        refused: the fields that forbid a verdict unless they are allowed, each with its sentence.
        left_out: common tasks whose trials were made in different ways; they belong to no pair.
    """

    words: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


def comparable(
    a: Made, b: Made, names: tuple[str, str] = ("A", "B"), allowed: Collection[str] = (), planned: int = 0
) -> Comparability:
    """Compare what two sides were made with.

    Args:
        a, b: the sides.
        names: what sentences call them.
        allowed: harness-changing fields that may differ.
        planned: common tasks in all, of which `tasks` of a side may lack some while its run goes on.
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
        differs = [task for task in common if _differ(a.value(task, name), b.value(task, name))]
        if ours.keys() == theirs.keys() and not differs:
            continue
        said = f"{name} {_listed(ours.values())} against {_listed(theirs.values())}"
        among = f"in {len(differs):,} of {counted(total, 'common task')}: {_listed(differs)}"
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
    if 2 * len(dropped) > total:
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
    if not _differ(*(text and normalised(name, text) for text in said)):
        return False
    return not differs or any(name not in one.tasks[task] for task in differs for one in (a, b))


def _differ(ours: str | None, theirs: str | None) -> bool:
    return ours is not None and theirs is not None and ours != theirs


def _listed(values: Iterable[str]) -> str:
    every = sorted(values)
    more = f" and {len(every) - SHOWN_TASKS:,} more" if len(every) > SHOWN_TASKS else ""
    return ", ".join(_cut(value) for value in every[:SHOWN_TASKS]) + more


def _cut(value: str) -> str:
    return value if len(value) <= SHOWN_CHARACTERS else f"{start_of(value, SHOWN_CHARACTERS)}…"


# -----------------------------------------------------------------------------
# Many runs on one leaderboard: what differs among them, and which tasks two of its agents may be ranked by.


OF_AGENT = frozenset({"agent_version", "model_served"})
"""Fields in which agents differ by nature; the runs of one agent:model may not."""


class Pool:
    """What the runs of a leaderboard were made with.

    Args:
        runs: agent:model to what each of its runs was made with, by the run's id.
    """

    def __init__(self, runs: Mapping[str, Mapping[str, Made]]) -> None:
        self._runs = runs
        self._varies = {
            label: {name for one in of.values() for name in one.varies} for label, of in runs.items()
        }
        every = [one for of in runs.values() for one in of.values()]
        self._fields = sorted(frozenset[str]().union(*(one.fields for one in every)) - TRIED)
        contested = [name for name in self._fields if name in HARNESS_CHANGING and _is_contested(name, every)]
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
        return agreed if 2 * len(agreed) >= len(tasks) else ()

    def words(self) -> list[str]:
        """Every field in which runs differ, one sentence each: its values, and the runs that have them."""
        words, unknown = list[str](), list[str]()
        for name in self._fields:
            groups = [self._runs[label] for label in self._runs] if name in OF_AGENT else [self._of_all()]
            for group in groups:
                runs = {run: one for run, one in group.items() if name not in one.varies}
                known = {run: texts for run, one in runs.items() if (texts := one.texts(name, one.tasks))}
                if known and len(known) < len(runs) and name not in unknown:
                    unknown.append(name)
                words += _among(name, runs, known)
        return words + ([f"not known of every run: {', '.join(unknown)}"] if unknown else [])

    def _of_all(self) -> dict[str, Made]:
        return {f"{run} of {label}": one for label, of in self._runs.items() for run, one in of.items()}


def _among(name: str, runs: Mapping[str, Made], known: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """The sentence about a field of several runs, if they differ."""
    if name.endswith("digest"):
        by_task = _by_task(name, runs.values())
        tasks = [task for task, values in by_task.items() if len(values) > 1]
        if tasks:
            yield f"{name} differs among the runs in {counted(len(tasks), 'task')}: {_listed(tasks)}"
        return
    by_value: dict[tuple[str, ...], list[str]] = {}
    for run, texts in known.items():
        by_value.setdefault(tuple(sorted(texts)), []).append(run)
    if len(by_value) > 1:
        said = (f"{_listed(known[of[0]].values())} ({_listed(of)})" for of in by_value.values())
        yield f"{name} differs among the runs: {'; '.join(sorted(said))}"


def _is_contested(name: str, sides: Collection[Made]) -> bool:
    """Whether some task may have several values."""
    shared = {normalised(name, one.run[name]) for one in sides if name in one.run}
    own: dict[str, set[str]] = {}
    for one in sides:
        for task, fields in one.tasks.items():
            if name in fields:
                own.setdefault(task, set(shared)).add(normalised(name, fields[name]))
    return len(shared) > 1 or any(len(values) > 1 for values in own.values())


def _by_task(name: str, sides: Iterable[Made]) -> dict[str, set[str]]:
    """The values that a field has at each task where it is known."""
    values: dict[str, set[str]] = {}
    for one in sides:
        for task in one.tasks:
            if (value := one.value(task, name)) is not None:
                values.setdefault(task, set()).add(value)
    return values
