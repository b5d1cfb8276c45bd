"""What the benchmarks share: events, the floor to compare with, timing turn about, tables."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from pydantic import BaseModel

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TASKS = 500


@dataclass(frozen=True)
class Scale:
    """How much is measured. All counts are of events, unless their names say otherwise.

    Attributes:
        repeats: turns that count.
        warm_up: turns before that, which do not.
        backlog: drained by ours and by the floor.
        growth: slots of one run.
        runs: runs that `backlog` events are spread over.
        fold: events of the file; a twentieth of them with 100 benchmarks each.
        trickle: published at `trickle_rate` a second, one by one.
        big_run: slots of the run whose memory and recovery are measured.
    """

    name: str
    repeats: int
    backlog: int
    bytewax: int
    naive_faust: int
    fold: int
    growth: tuple[int, ...]
    runs: tuple[int, ...]
    trickle: int
    big_run: int
    trickle_rate: float = 200.0
    warm_up: int = 1


SCALES = {
    scale.name: scale
    for scale in (
        Scale("tiny", 1, 600, 200, 100, 400, (200,), (20,), 60, 600, warm_up=0),
        Scale("small", 2, 50_000, 5_000, 1_500, 20_000, (10_000, 50_000), (1, 100, 2_000), 1_000, 50_000),
        Scale(
            "full",
            3,
            500_000,
            20_000,
            5_000,
            500_000,
            (10_000, 100_000, 1_000_000),
            (1, 100, 2_000),
            4_000,
            1_000_000,
        ),
    )
}


def add_scale(parser: argparse.ArgumentParser) -> None:
    """The option --scale."""
    parser.add_argument("--scale", choices=list(SCALES), default="full", help="how much; default full")


def scale_of(args: argparse.Namespace, **instead: int | None) -> Scale:
    """The scale asked for, with what is given instead of its own."""
    given = {name: value for name, value in instead.items() if value is not None}
    return replace(SCALES[args.scale], **given)  # type: ignore[arg-type]


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


def quotients(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Turn by turn."""
    return [above / below for above, below in zip(numerators, denominators, strict=True)]


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Spread of the quotients, turn by turn."""
    return spread(quotients(numerators, denominators))


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows of cells in aligned columns; the first row is the head."""
    texts = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in texts]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
