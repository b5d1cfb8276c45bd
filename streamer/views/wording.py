"""Grades, accuracies and pass@k as text for people: every surface words them the same way.

Each function takes a summary, as its model or as the dict of its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from streamer.schemas.metrics import PRIMARY_METRIC, board_metric
from streamer.text import UNSEEN, counted, percent, shown
from streamer.views.columns import found

Json = Mapping[str, Any]
Summary = BaseModel | Json

BASES = {"composite_median": "composite", "mean_pass_rate": "pass rate"}
"""`grade_basis` -> what people call it (R13)."""

GRADES = "SABCDF"
"""The letters, best first."""

MARKS = {"*": "planned trials are missing", "?": "trials wait for their judge", "!": "decided"}
"""What each mark beside a grade means where there is little room."""

GRADE_MARKS = "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
"""All marks beside a grade in one line."""

OUTCOMES = {"passed": "passed", "failed": "failed", "fell_back": "fell back", "no_verdict": "no verdict"}
"""`outcome` of a trial -> what people call it."""

MIXED = "No pass@k: the trials mix agents or tiers, and each of those has its own (R11)"
"""Why pass@k is null where a group has trials."""


def grade(group: Summary) -> str:
    """The grade in words: with what it still waits for, planned trials or the judge.

    >>> grade({"grade": "B", "provisional": True, "grade_provisional": True})
    'B (prov., judge awaited)'
    >>> grade({"grade": "B", "provisional": False, "grade_provisional": False})
    'B'
    >>> grade({"grade": None, "provisional": True, "grade_provisional": False})
    '–'
    """
    awaited = [
        word
        for field, word in (("provisional", "prov."), ("grade_provisional", "judge awaited"))
        if of(group, field)
    ]
    letter = of(group, "grade")
    if letter is None:
        return UNSEEN
    return f"{letter} ({', '.join(awaited)})" if awaited else str(letter)


def is_open(group: Summary) -> bool:
    """Whether results are still missing: planned trials are not in, or trials are in flight.

    >>> is_open({"provisional": False, "in_flight": 2}), is_open({"provisional": False, "in_flight": 0})
    (True, False)
    """
    return bool(found(group, ("provisional",)) or found(group, ("in_flight",)))


def marked_grade(group: Summary) -> str:
    """The grade where there is little room, with :data:`GRADE_MARKS`.

    >>> marked_grade({"grade": "B", "provisional": True, "grade_provisional": True})
    'B*?'
    >>> settled = {"decided": {"grade": True}}
    >>> marked_grade({"grade": "F", "provisional": True, "grade_provisional": False, "uncertainty": settled})
    'F*!'
    """
    letter = of(group, "grade")
    marks = "*" * of(group, "provisional") + "?" * of(group, "grade_provisional")
    marks += "!" * bool(is_open(group) and found(group, ("uncertainty", "decided", "grade")))
    return UNSEEN if letter is None else f"{letter}{marks}"


def basis(group: Summary) -> str:
    """The number behind the grade: `pass rate`, `composite`, or a dash without one."""
    return BASES.get(of(group, "grade_basis"), UNSEEN)


def grade_with_basis(group: Summary) -> str:
    """The grade in words, and the number that it rests on.

    >>> waiting = {"provisional": True, "grade_provisional": False}
    >>> grade_with_basis({"grade": "D", "grade_basis": "mean_pass_rate", "grade_score": 0.65, **waiting})
    'D (prov.) by pass rate 65.0 %'
    >>> grade_with_basis({"grade": "C", "grade_basis": "composite_median", "grade_score": 0.8, **waiting})
    'C (prov.) by composite 0.8'
    >>> grade_with_basis({"grade": None, "grade_basis": None, "grade_score": None, **waiting})
    '–'
    """
    score = of(group, "grade_score")
    if of(group, "grade") is None or score is None:
        return grade(group)
    number = percent(score) if of(group, "grade_basis") == "mean_pass_rate" else shown(score)
    return f"{grade(group)} by {basis(group)} {number}"


def accuracy(summary: Summary) -> str:
    """The accuracy, and the one without infrastructure failures wherever there were some.

    >>> some = {"accuracy": 0.4124, "accuracy_excluding_infrastructure": 0.43, "infrastructure_failures": 3}
    >>> accuracy(some), accuracy(some | {"infrastructure_failures": 0})
    ('41.2 % (43.0 % without 3 infrastructure failures)', '41.2 %')
    """
    count = of(summary, "infrastructure_failures")
    if not count:
        return percent(of(summary, "accuracy"))
    without = percent(of(summary, "accuracy_excluding_infrastructure"))
    failures = counted(count, "infrastructure failure")
    return f"{percent(of(summary, 'accuracy'))} ({without} without {failures})"


def accuracy_name(run: Summary) -> str:
    """Name of a run's accuracy: "all trials" where the run has several agents, since it mixes them."""
    return "all trials" if of(run, "agent_models") > 1 else "accuracy"


def pass_at_ends(summary: Summary) -> str:
    """pass@1 and pass@k of the largest k, where there is little room.

    >>> some = {str(k): {"value": k / 4, "partial": False} for k in (1, 2, 4)}
    >>> pass_at_ends({"pass_at_k": some})
    '1: 25.0 %, 4: 100.0 %'
    """
    held = of(summary, "pass_at_k") or {}
    known = sorted(int(k) for k, found in held.items() if of(found, "value") is not None)
    return pass_at_k({"pass_at_k": {str(k): held[str(k)] for k in (*known[:1], *known[-1:])}})


def pass_at_k(summary: Summary) -> str:
    """pass@k on one line; `*` marks what not every task supports yet (R11).

    >>> some = {"1": {"value": 0.5, "partial": False}, "2": {"value": 0.75, "partial": True}}
    >>> pass_at_k({"pass_at_k": some}), pass_at_k({"pass_at_k": None})
    ('1: 50.0 %, 2: 75.0 %*', '–')
    """
    held = of(summary, "pass_at_k") or {}
    known = {int(k): found for k, found in held.items() if of(found, "value") is not None}
    parts = (f"{k}: {percent(of(f, 'value'))}{'*' * of(f, 'partial')}" for k, f in sorted(known.items()))
    return ", ".join(parts) or UNSEEN


def best_first(primary: str = PRIMARY_METRIC) -> Callable[[Json], tuple[bool, bool, float, str]]:
    """Sort key of agents: baselines last, then unknown values, the best first, equal ones by label.

    Args:
        primary: METRIC that the run names as its primary one; see `run_summary`.

    >>> found = [{"agent_model": "a", "baseline": False, "accuracy": 0.1}]
    >>> found.append({"agent_model": "b", "baseline": False, "accuracy": 0.2})
    >>> [agent["agent_model"] for agent in sorted(found, key=best_first("accuracy"))]
    ['b', 'a']
    """

    def key(group: Json) -> tuple[bool, bool, float, str]:
        metric = board_metric(primary, [group])
        value = metric.value(group) if metric else None
        sign = -1.0 if metric and metric.higher_is_better else 1.0
        return (group["baseline"], value is None, sign * (value or 0.0), group["agent_model"])

    return key


def primary_of(run: Json | None) -> str:
    """What the boards of a run are ordered by; the pass rate of a run that older versions summarised."""
    return (run or {}).get("primary_metric") or PRIMARY_METRIC


def of(summary: Summary, name: str) -> Any:
    """A field of a summary."""
    return summary[name] if isinstance(summary, Mapping) else getattr(summary, name)
