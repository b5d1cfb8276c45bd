"""What the benchmarks share: events, the floor to compare with, timing turn about, tables."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from pydantic import BaseModel

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TASKS = 500


class Floor(BaseModel):
    """The fields that any consumer of these events reads: validating them is the least one can do."""

    run_id: str
    task_id: str
    attempt: int
    agent: str
    model: str
    tier: str | None = None
    resolved: bool | None = None
    score: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    duration_seconds: float | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    trajectory_length: int | None = None
    benchmarks: dict[str, dict[str, float]] = {}


def validate_only(lines: Sequence[bytes]) -> None:
    """Validate every event and keep nothing."""
    for line in lines:
        Floor.model_validate_json(line)


def events(
    number: int, *, runs: int = 32, tiers: int = 7, agents: int = 5, benchmarks: int = 0, seed: int = 1
) -> Iterator[bytes]:
    """Seeded `trial_result` events of about 400 bytes, each of another slot, the runs in turn."""
    rng = random.Random(seed)
    for index in range(number):
        end = _START + timedelta(seconds=index)
        duration = round(rng.lognormvariate(4, 1), 3)
        event: dict[str, Any] = {
            "type": "trial_result",
            "schema_version": 1,
            "run_id": f"run-{index % runs:05d}",
            "task_id": f"task-{rng.randrange(_TASKS):04d}",
            "attempt": index // runs + 1,
            "agent": f"agent-{rng.randrange(agents)}",
            "model": "anthropic/claude-sonnet-4",
            "tier": f"T{rng.randrange(tiers)}",
            "resolved": rng.random() < 0.6,
            "score": round(rng.betavariate(5, 2), 4),
            "input_tokens": rng.randrange(1_000, 200_000),
            "output_tokens": rng.randrange(100, 20_000),
            "cost_usd": round(rng.lognormvariate(-1, 1), 6),
            "duration_seconds": duration,
            "started_at": (end - timedelta(seconds=duration)).isoformat(),
            "finished_at": end.isoformat(),
            "trajectory_length": rng.randrange(3, 120),
        }
        if benchmarks:
            event["benchmarks"] = {name: _ratios(rng) for name in _names(benchmarks)}
        yield json.dumps(event, separators=(",", ":")).encode()


def _names(benchmarks: int) -> Iterator[str]:
    for number in range(benchmarks):
        yield f"pkg.module_{number % 5}.Class{number % 11}.time_case(n={number})"


def _ratios(rng: random.Random) -> dict[str, float]:
    return {
        "agent/nop": round(rng.lognormvariate(0.1, 0.4), 6),
        "oracle/nop": round(rng.lognormvariate(0.2, 0.4), 6),
    }


def turn_about(cases: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of processor time of each case, once to warm up and then `repeats` times, by turns.

    What disturbs the machine disturbs all cases alike, so that their ratios hold.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            began = time.process_time()
            case()
            if turn:
                seconds[name].append(time.process_time() - began)
    return seconds


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of at least one value."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Spread of the quotients, turn by turn."""
    return spread([above / below for above, below in zip(numerators, denominators, strict=True)])


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows of cells in aligned columns; the first row is the head."""
    texts = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in texts]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
