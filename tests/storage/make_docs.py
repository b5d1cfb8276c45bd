"""The generated part of docs/redis.md, and the state of Redis that its examples show.

`python -m tests.storage.make_docs` rewrites the table of metrics.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from streamer.folding.slots import InFlightChange, RunUpdate, SlotKey, TasksChange, packed, slot_in_run
from streamer.schemas.base import canonical_json
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import TrialInFlight
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "redis.md"
START, END = "<!-- metrics: generated from streamer/schemas/events.py -->\n", "<!-- end of metrics -->\n"


def metric_table() -> str:
    rows = [
        f"| `{metric.name}` | `{'.'.join(metric.path)}` | {'higher' if metric.higher_is_better else 'lower'} "
        f"| {metric.unit} | {metric.description} |\n"
        for metric in BOARD_METRICS.values()
    ]
    return (
        "| METRIC | field of the summary | better | unit | what it is |\n|---|---|---|---|---|\n"
        + "".join(rows)
    )


def with_table(document: str) -> str:
    head, rest = document.split(START)
    return head + START + metric_table() + END + rest.split(END)[1]


def example_updates() -> list[RunUpdate]:
    """One run of two agents and a baseline, in two batches; one of its trials is in flight."""
    key = SlotKey("", "fix-git", 1, "claude-code", "opus", "T0", None)
    trial = TrialInFlight(**key._asdict(), started_at=datetime(2026, 1, 2, 3, tzinfo=UTC), position=4)
    listed = {slot_in_run(key): canonical_json(trial.model_dump(mode="json"))}
    in_flight = InFlightChange("nightly", listed, 1, 41)
    outcomes = canonical_json({"claude-code:opus": [1, 1, 0], "terminus:openai/gpt-5": [1, 0, 0]})
    tasks = TasksChange("nightly", packed({"T0||fix-git": outcomes.decode()}), 1, 41)
    first, second = _two_batches()
    return [first, replace(second, in_flight=in_flight, tasks=tasks)]


def _two_batches() -> list[RunUpdate]:
    return [
        an_update(
            a_run_change("nightly", version=40, benchmark="terminal-bench-core", trials=3),
            an_agent_model_change("nightly", "nop", "nop", version=40, accuracy=0.0),
            an_agent_model_change("nightly", "terminus", "openai/gpt-5", version=40, accuracy=0.5, trials=2),
        ),
        an_update(
            a_run_change("nightly", version=41, benchmark="terminal-bench-core", trials=4),
            an_agent_model_change(
                "nightly", "claude-code", "opus", version=41, accuracy=1.0, mean_cost=0.25, grade="S"
            ),
            a_tier_change("nightly", "T0", version=41),
            a_tier_change("nightly", "T0", "claude-code", "opus", version=41),
        ),
    ]


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
