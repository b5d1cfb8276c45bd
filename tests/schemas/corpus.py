"""The corpus for clients in other languages: events, and the summaries that must come out.

    python -m tests.schemas.corpus

writes schemas/examples/NAME/events.ndjson and summaries.ndjson; `make schema` runs it. The summaries lack the
provenance fields, such as offsets, so that they follow from the events alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from streamer.folding.fold import fold_records
from streamer.schemas.base import NOT_DIGESTED, canonical_json
from streamer.schemas.wire import records_of_lines
from tests.house.repository import ROOT

FOLDER = ROOT / "schemas" / "examples"
KEPT = NOT_DIGESTED - {"digest"}
"""Fields that the expected summaries lack."""

Event = dict[str, Any]


def plan(run_id: str, **fields: Any) -> Event:
    """A `run_started`."""
    return {"type": "run_started", "run_id": run_id, **fields}


def trial(run_id: str, task_id: str, **fields: Any) -> Event:
    """A `trial_result` of terminus with gpt-5, unless the fields say otherwise."""
    named = {"agent": "terminus", "model": "gpt-5"}
    return {"type": "trial_result", "run_id": run_id, "task_id": task_id, **named, **fields}


def smallest() -> list[Event]:
    """One trial, with the required fields alone."""
    return [{"type": "trial_result", "run_id": "smallest", "task_id": "fix-git"}]


def attempts() -> list[Event]:
    """A plan, two attempts at three tasks, costs, a failure mode, an end: pass@1 and pass@2."""
    run_id = "attempts"
    outcomes = {"fix-git": (True, True), "play-zork": (True, False), "write-raytracer": (False, False)}
    results = [
        trial(
            run_id,
            task_id,
            attempt=attempt,
            resolved=passed,
            cost_usd=0.125 * attempt,
            duration_seconds=60.0 * attempt,
            **({} if passed else {"failure_mode": "agent_timeout"}),
        )
        for task_id, verdicts in outcomes.items()
        for attempt, passed in enumerate(verdicts, 1)
    ]
    end = {"type": "run_finished", "run_id": run_id, "status": "finished"}
    return [plan(run_id, tasks=3, attempts=2, display_name="Two attempts"), *results, end]


def tiers() -> list[Event]:
    """Two tiers with a judge's scores: composites, grades, uplift over the baseline tier."""
    run_id = "tiers"
    scores = {"T0": (0.5, 0.75), "T1": (0.875, 1.0)}
    return [
        plan(run_id, tasks=2, attempts=1, tiers=["T0", "T1"], judged=True),
        *(
            trial(run_id, f"task-{number}", tier=tier, subtest="01", resolved=score > 0.5, score=score)
            for tier, result in scores.items()
            for number, score in enumerate(result)
        ),
    ]


def corrections() -> list[Event]:
    """A duplicate, a correction, a late loser, a retraction: the same answer in any order (R17)."""
    run_id = "corrections"
    first = trial(run_id, "fix-git", resolved=False, revision=1)
    corrected = trial(run_id, "fix-git", resolved=True, revision=2)
    withdrawn = trial(run_id, "play-zork", resolved=True, revision=1)
    retraction = {**trial(run_id, "play-zork", revision=2), "type": "trial_retracted"}
    return [corrected, first, first, retraction, withdrawn, trial(run_id, "kept", resolved=False)]


def speedups() -> list[Event]:
    """A multi-agent trial with benchmarks: nop, oracle and an agent (FormulaCode)."""
    run_id = "speedups"
    ratios = {"asv.time_fast": {"agent/nop": 2.0, "oracle/nop": 1.5}, "asv.time_same": {"agent/nop": 1.0}}
    agents = ("nop", "oracle", "terminus")
    return [
        trial(
            run_id,
            "speed-up",
            agent=agent,
            agent_index=index,
            resolved=True,
            tests={"status": "ok", "passed": 3, "failed": 0, "error": 0, "skipped": 0, "total": 3},
            **({"benchmarks": ratios} if agent == "terminus" else {}),
        )
        for index, agent in enumerate(agents, 1)
    ]


def unfinished() -> list[Event]:
    """A shuffled run with trials in flight: what can be reached, and the interval of the final pass rate."""
    run_id, tasks = "unfinished", [f"task-{number}" for number in range(10)]
    start = {**trial(run_id, "task-6"), "type": "trial_started", "position": 6}
    results = [trial(run_id, task, resolved=task != "task-2", cost_usd=0.25) for task in tasks[:5]]
    queue = plan(run_id, tasks=tasks, attempts=1, order=tasks, order_kind="shuffled", concurrency=2)
    return [queue, *results, start]


EXAMPLES = {made.__name__: made() for made in (smallest, attempts, tiers, corrections, speedups, unfinished)}
"""Name of the folder -> its events."""


def lines(values: Iterable[Any]) -> bytes:
    """Canonical JSON, one value a line."""
    return b"".join(canonical_json(value) + b"\n" for value in values)


def expected(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The summaries of some events, by type and group, without the provenance fields."""
    folding = fold_records(records_of_lines([orjson.dumps(event) for event in events]))
    changes = sorted(folding.summaries(), key=lambda change: (change.kind, change.key))
    summaries = [orjson.loads(change.value or b"") for change in changes]
    return [{name: value for name, value in one.items() if name not in KEPT} for one in summaries]


def documents() -> dict[str, bytes]:
    """Every file of the corpus, by its path below schemas/examples/."""
    return {
        f"{name}/{file}": lines(values)
        for name, events in EXAMPLES.items()
        for file, values in (("events.ndjson", events), ("summaries.ndjson", expected(events)))
    }


def main() -> None:
    """Write the corpus."""
    for name, text in documents().items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_bytes(text)


if __name__ == "__main__":
    main()
