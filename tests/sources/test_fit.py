"""An event that is too large loses its largest field, and counts."""

from __future__ import annotations

from streamer.sources.fit import fit_event


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
