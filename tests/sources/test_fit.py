"""An event that is too large loses its largest field, and counts."""

from __future__ import annotations

import math

from streamer.sources.base import fit_event


def test_an_event_that_would_be_too_large_loses_its_largest_field_and_counts() -> None:
    """A record of more than 1 MiB would be rejected, and the trial with it."""
    event = {
        "type": "trial_result",
        "run_id": "r",
        "task_id": "t",
        "claimed": {"c": "x" * 700_000},
        "benchmarks": {"b": "y" * 800_000},
        "output_tokens": 7,
    }
    fitted, misfits = fit_event(event)
    assert fitted == {name: value for name, value in event.items() if name != "benchmarks"}
    assert list(misfits) == ["benchmarks"]
    assert "800,008 bytes" in misfits["benchmarks"]


def test_of_metrics_only_what_does_not_fit_is_left_out() -> None:
    metrics = {"reward": 0.7, "a b": 1, "ok/x": 2, "text": "1", "yes": True, "nan": math.nan}
    event = {"type": "trial_result", "run_id": "r", "task_id": "t", "metrics": metrics}
    fitted, reasons = fit_event(event)
    assert fitted is not None
    assert fitted["metrics"] == {"reward": 0.7, "ok/x": 2}
    assert reasons["metrics"].startswith("'a b': 1, 'text': '1', 'yes': True, ...: left out.")
    assert "metrics" not in (fit_event({**event, "metrics": {"a b": 1}})[0] or {})
    many = {f"m{number:03}": number for number in range(100)}
    fitted, reasons = fit_event({**event, "metrics": many})
    assert fitted is not None
    assert list(fitted["metrics"]) == [f"m{number:03}" for number in range(64)]
    assert "m064" in reasons["metrics"]


def test_metrics_of_a_plan_are_no_numbers_and_stay() -> None:
    plan = {"type": "run_started", "run_id": "r", "metrics": {"reward": {"direction": "higher"}}}
    assert fit_event(plan) == (plan, {})
