"""The rulings on a group of trials, worked out independently of the product: slow and plain.

Trials are events as dicts, already without duplicates, and without the sections of FormulaCode. Statistics
are those of tests/statistics/oracles.py. A number that no trial has is None.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.statistics import oracles

Json = dict[str, Any]
Trials = Sequence[Json]

GRADES = ((0.95, "A"), (0.85, "B"), (0.75, "C"), (0.65, "D"))
BASELINES = ("nop", "oracle")
NO_FAILURE = (None, "", "unset", "none")
SCORED = ("pass_rate", "impl_rate", "composite_score", "cost_usd", "cost_of_pass", "duration_seconds")


# One trial


def verdict(trial: Json) -> bool | None:
    """As the harness says (R19), else the success that follows from tests and snapshot (R27)."""
    said: bool | None = trial.get("resolved")
    if said is not None or trial.get("failure_mode") not in NO_FAILURE:
        return said
    stored = [trial[name] for name in ("tests", "snapshot") if trial.get(name) is not None]
    return all(map(_section_passes, stored)) if stored else None


def has_numbers_alone(trial: Json) -> bool:
    """Whether its scorer gives numbers and no verdict, so it is no member of what rests on verdicts (R31)."""
    fails = trial.get("failure_mode") not in NO_FAILURE
    sections = [trial.get(name) for name in ("tests", "snapshot")]
    return verdict(trial) is None and not fails and not any(sections) and bool(trial.get("metrics"))


def members(trials: Trials) -> Trials:
    """The trials that have a verdict or could; none where no verdict is true and some have numbers (R31)."""
    rest = [trial for trial in trials if not has_numbers_alone(trial)]
    return rest if len(rest) == len(trials) or any(map(verdict, rest)) else []


def score_of(trial: Json) -> float | None:
    """The judge's score on its scale; outside it is missing (R13)."""
    score = trial.get("score")
    return None if score is None or not 0 <= score <= 1 + 1e-9 else min(1.0, float(score))


def _section_passes(section: Json) -> bool:
    good = section["status"] in ("ok", "passed")
    counts = [section.get(name) or 0 for name in ("failed", "error")] if section["status"] == "ok" else []
    return good and not any(counts) and (section.get("pass_to_fail") or 0) <= 0


def value_of(trial: Json, metric: str) -> float | None:
    passed = verdict(trial) is True
    impl, cost = score_of(trial), trial.get("cost_usd")
    if has_numbers_alone(trial) and metric in ("pass_rate", "composite_score", "cost_of_pass"):
        return None
    match metric:
        case "pass_rate":
            return float(passed)
        case "impl_rate":
            return impl
        case "composite_score":
            return None if impl is None else (float(passed) + impl) / 2
        case "cost_of_pass":  # (R14)
            return cost if passed else math.inf
    result: float | None = trial.get(metric)
    return result


# Statistics


def distribution(trials: Trials, metric: str) -> Json:
    """Statistics over the trials that have the metric (R1, R14 to R16); of a verdict's over members (R31)."""
    if metric in ("pass_rate", "composite_score", "cost_of_pass"):
        trials = members(trials)
    return oracles.distribution([float(v) for v in (value_of(t, metric) for t in trials) if v is not None])


# Groups


def cost_of_pass(trials: Trials) -> float | None:
    """Total known cost by the passes among the trials with a known cost (R14); None of no trial."""
    if not members(trials):
        return None
    if not any(verdict(trial) for trial in trials):
        return math.inf
    known = [trial for trial in trials if trial.get("cost_usd") is not None]
    passes = sum(verdict(trial) is True for trial in known)
    return float(sum(Fraction(trial["cost_usd"]) for trial in known) / passes) if passes else None


def graded(trials: Trials, judged: bool | None = None, finished: bool = False) -> Json:
    """Grade of a group, the number and the basis that it rests on, and whether it may move (R13)."""
    scored = [trial for trial in trials if score_of(trial) is not None]
    waiting = [t for t in trials if score_of(t) is None and t.get("failure_mode") in NO_FAILURE]
    if not members(trials):
        return {"grade": None, "grade_score": None, "grade_basis": None, "grade_provisional": False}
    by_judge = bool(scored) if judged is None else judged
    metric, statistic = ("composite_score", "median") if by_judge else ("pass_rate", "mean")
    score = distribution(trials, metric)[statistic]
    return {
        "grade": None if score is None else grade(score),
        "grade_score": score,
        "grade_basis": "composite_median" if by_judge else "mean_pass_rate",
        "grade_provisional": by_judge and bool(waiting) and not finished,
    }


def grade(score: float) -> str:
    return next((letter for threshold, letter in GRADES if score >= threshold), "F")


def uplift(ours: Json, baseline: Json) -> Json:
    """`tier_uplift` and `tier_delta` of two groups as :func:`graded` has them (R23)."""
    mine, theirs = ours["grade_score"], baseline["grade_score"]
    if ours["grade_basis"] != baseline["grade_basis"] or mine is None or theirs is None:
        return {"tier_uplift": None, "tier_delta": None}
    delta = mine - theirs
    return {"tier_uplift": delta / theirs if theirs > 0 else None, "tier_delta": delta}


# pass@k


def whole_trials(trials: Trials) -> list[tuple[Json, str | None]]:
    """The deciding event of each trial without baselines, and whose trial it is; None: a group's (R10)."""
    groups: dict[tuple[Any, ...], list[Json]] = defaultdict(list)
    result: list[tuple[Json, str | None]] = []
    for trial in trials:
        if trial.get("agent_index") is not None:
            place = ("shard", "task_id", "attempt", "tier", "subtest")
            groups[tuple(trial.get(name) for name in place)].append(trial)
        elif trial["agent"] not in BASELINES:
            result.append((trial, f"{trial['agent']}:{trial['model']}"))
    for group in groups.values():
        compared = [trial for trial in group if trial["agent"] not in BASELINES]
        if compared:
            result.append((max(compared, key=lambda trial: trial["agent_index"]), None))
    return result


def pass_at_k(trials: Trials, attempts: int = 1, tasks: int = 0) -> Json | None:
    """pass@k of trials; None over a mixture of agent:models or tiers (R11, F10).

    `attempts` and `tasks` are planned ones.
    """
    whole = [(trial, whose) for trial, whose in whole_trials(trials) if not has_numbers_alone(trial)]
    if trials and not members(trials):
        return None
    if len({whose for _, whose in whole}) > 1 or len({trial.get("tier") for trial, _ in whole}) > 1:
        return None
    return oracles.pass_at_k([(t["task_id"], verdict(t) is True) for t, _ in whole], attempts, tasks)


# Late scores


def after_late_scores(events: Trials) -> Json | None:
    """The trial that stands in one slot, in whatever order its events came; None: none does (R17, R32)."""
    floor = max((e["revision"] for e in events if e["type"] == "trial_retracted"), default=-1)
    later = sorted((e for e in events if e["revision"] > floor), key=lambda event: event["revision"])
    results = [event for event in later if event["type"] == "trial_result"]
    if not results:
        return None
    result = results[-1]
    trial = {**result, "metrics": dict(result.get("metrics") or {})}
    for event in later:
        if event["type"] != "trial_scored" or event.get("of_revision") not in (None, result["revision"]):
            continue
        newer = event["revision"] > result["revision"]
        if event.get("score") is not None and (newer or result.get("score") is None):
            trial["score"] = event["score"]
        for name, value in (event.get("metrics") or {}).items():
            if newer or name not in (result.get("metrics") or {}):
                trial["metrics"][name] = value
        if event.get("resolved") is not None and result.get("resolved") is None:
            trial["resolved"] = event["resolved"]
    return trial


# Accuracy of a run


def run_accuracy(trials: Trials, planned: Sequence[str], finished: bool) -> tuple[int, int, int]:
    """Resolved trials, those without a verdict, and all: the sub-trials of a group are one trial (R10, R19).

    `planned` are the agents that each group has once it is whole; it lacks no baselines.
    """
    groups: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for trial in trials:
        groups[trial["task_id"], trial["attempt"]].append(trial)
    verdicts: list[bool | None] = []
    for group in groups.values():
        if {*planned} - {*BASELINES} <= {trial["agent"] for trial in group}:
            compared = [trial for trial in group if trial["agent"] not in BASELINES] or group
            verdicts.append(verdict(max(compared, key=lambda trial: trial["agent_index"])))
        elif finished:
            verdicts.append(None)
    return verdicts.count(True), verdicts.count(None), len(verdicts)
