"""Provenance: how trials were made, and where two trials differ (R36). Pure.

Values are normalised first: 600, 600.0, 10m and 600s are one timeout.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import Any

from streamer.schemas.summaries import RunSummary, TaskProvenance

HARNESS_CHANGING = frozenset(
    {
        *("dataset", "dataset_version", "task_digest", "timeout", "timeout_multiplier", "resources"),
        *("judge", "judge_version", "limits"),
    }
)
"""The provenance fields that must be equal for two results to be comparable (R36)."""

OF_TRIALS = HARNESS_CHANGING | {"harness_version", "agent_version", "model_served", "prices"}
"""The provenance fields of a trial that comparisons read; it may have others."""


def side_by_side(provenance: Sequence[dict[str, str]]) -> dict[str, str]:
    """The common provenance of several trials; different values are listed, sorted.

    >>> side_by_side([{"timeout": "600"}, {"timeout": "300", "judge": "x"}])
    {'timeout': '300, 600', 'judge': 'x'}
    """
    if provenance and all(one is provenance[0] for one in provenance):  # attempts mostly share theirs
        return provenance[0]
    values: dict[str, set[str]] = {}
    for one in provenance:
        for name, value in one.items():
            values.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(said)) for name, said in values.items()}


TRIED = frozenset({"agent", "model"})
"""Fields in which two sides are expected to differ."""

_PLAIN = frozenset({"dataset", "harness", "judge", "model_served", "prices"})
"""Fields with names as values. Versions and digests are names, too: 1.1 and 1.10 are two versions."""

_SECONDS = {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|s|m|h|d)(?:ecs?|econds?|ins?|inutes?|ours?|ays?)?")


@lru_cache(maxsize=4096)
def normalised(name: str, value: str) -> str:
    """The normal form of a field's value, for comparisons.

    Attempts and agents may spell a value differently, and equal parts count once.

    >>> [normalised("timeout", value) for value in ("600", "600.0", "10m", "600 s", "600, 600.0")]
    ['600', '600', '600', '600', '600']
    >>> normalised("resources", "memory=4096.0, cpus=2"), normalised("dataset_version", "1.10")
    ('cpus=2,memory=4096', '1.10')
    """
    return ",".join(sorted({_part(name, part) for part in re.split("[,;]", value)}))


def _part(name: str, text: str) -> str:
    """One of several values; it may have its own name, as in `cpus=2`."""
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


Values = Mapping[str, str]


@dataclass(frozen=True)
class Made:
    """The provenance of one side: its run, its tasks by `task_key` (which take precedence), tried fields."""

    run: Values
    tasks: Mapping[str, Values]
    varies: Collection[str] = ()

    @classmethod
    def of(cls, run: Mapping[str, Any], tasks: Mapping[str, Values]) -> Made:
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
        of = {task: provenance.get(task, {}) for task in tasks}
        own = {task: side_by_side([said[at] for at in labels if at in said]) for task, said in of.items()}
        return cls.of(run.model_dump(include={"harness", "provenance", "varies"}), own)

    @cached_property
    def fields(self) -> frozenset[str]:
        return frozenset(self.run).union(*self.tasks.values())

    def value(self, task: str, name: str) -> str | None:
        text = self.text(task, name)
        return None if text is None else normalised(name, text)

    def text(self, task: str, name: str) -> str | None:
        return self.tasks[task].get(name, self.run.get(name))

    def texts(self, name: str, tasks: Collection[str]) -> dict[str, str]:
        """Text of every normalised value that a field has at these tasks; {} if unknown."""
        texts = [self.text(task, name) for task in tasks] if tasks else [self.run.get(name)]
        return {normalised(name, text): text for text in texts if text is not None}


def differ(ours: str | None, theirs: str | None) -> bool:
    return ours is not None and theirs is not None and ours != theirs


def is_contested(name: str, sides: Collection[Made]) -> bool:
    shared = {normalised(name, one.run[name]) for one in sides if name in one.run}
    own: dict[str, set[str]] = {}
    for one in sides:
        for task, fields in one.tasks.items():
            if name in fields:
                own.setdefault(task, set(shared)).add(normalised(name, fields[name]))
    return len(shared) > 1 or any(len(values) > 1 for values in own.values())


def enough_agree(left_out: int, tasks: int) -> bool:
    """Whether at least half of the common tasks remain, so that these may be compared (inference 10)."""
    return 2 * left_out <= tasks
