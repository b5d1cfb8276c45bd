"""Folding for the conformance tests, and comparing with what other people's code computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pytest

from streamer.folding.breakdowns import by_subtest
from streamer.folding.fold import Folding, fold_records
from streamer.schemas.wire import records_of_lines
from tests.conformance.group_rules import Trials, pass_at_k

TOLERANCE = 1e-9
"""Relative; the harnesses sum floats one by one, we round once (A7, A8, R18)."""

Summary = dict[str, Any]


def folded(events: Iterable[Mapping[str, Any]]) -> Folding:
    """The fold of event dicts; none may be rejected."""
    folding = fold_records(records_of_lines(orjson.dumps(event) for event in events))
    assert folding.rejected == 0
    return folding


def summaries(folding: Folding, kind: str) -> list[Summary]:
    return [c.summary for c in folding.summaries() if c.kind == kind and c.summary is not None]


def the_run(folding: Folding) -> Summary:
    (summary,) = summaries(folding, "run")
    return summary


def pooled_tiers(folding: Folding) -> dict[str, Summary]:
    return {s["tier"]: s for s in summaries(folding, "tier") if s["agent_model"] is None}


def pooled_subtests(folding: Folding) -> dict[tuple[str, str], Summary]:
    """The only run's tiers by (tier, subtest), over all agents."""
    (run_id,) = folding.runs()
    bodies = by_subtest(folding.pipeline.run(run_id).state)
    return {(b["tier"], b["subtest"]): b for b in bodies if b["agent_model"] is None}


def digests(folding: Folding) -> dict[str, str]:
    return {f"{change.kind} {change.key}": change.digest for change in folding.summaries()}


def close(expected: Any) -> Any:
    """Equal within the tolerance; exactly zero only near zero; text and null equal themselves only."""
    if expected is None or isinstance(expected, str):
        return expected
    return pytest.approx(expected, rel=TOLERANCE, abs=1e-12)


def travelling(value: Any) -> Any:
    """A number as it travels in our JSON (R14)."""
    return "Infinity" if value == float("inf") else value


ERRORS = ("standard_error", "low", "high")
"""Of a mean, beside the specification's statistics; tests/folding/test_scores.py has their rules."""


def statistics_of(summary: Summary, metric: str) -> dict[str, Any]:
    return {name: value for name, value in summary["statistics"][metric].items() if name not in ERRORS}


def check_ruled(ours: Mapping[str, Any], ruled: Mapping[str, Any]) -> None:
    """Every number that is ruled, as it travels in our JSON (R14)."""
    assert {name: ours[name] for name in ruled} == {n: close(travelling(v)) for n, v in ruled.items()}


def check_pass_at_k(ours: Summary, trials: Trials, attempts: int = 1) -> None:
    """R11: k = 1 always, what each k covers, and null over several agent:models or tiers."""
    ruled, stored = pass_at_k(trials, attempts), ours["pass_at_k"]
    assert (stored is None) is (ruled is None)
    assert {k: (v["value"], v["tasks_covered"]) for k, v in (stored or {}).items()} == {
        k: (close(v["value"]), v["tasks_covered"]) for k, v in (ruled or {}).items()
    }
