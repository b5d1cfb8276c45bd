"""The shared fc-eval run directories, read independently of the connector: raw logs, plain and slow."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.formulacode_keys import BASELINES
from tests.conformance.formulacode_rules import Json, SubTrial
from tests.support.data import shared_data

DOLLARS_PER_TOKEN = {"gpt-5": (1.25e-6, 1e-5), "gpt-5-2025-08-07": (1.25e-6, 1e-5)}
"""Prices of the models whose cost fc-eval did not know (E5, R2)."""


@dataclass(frozen=True)
class Trial:
    """One trial of a run: `whole` is its own file's result, else the run-level file's (D16)."""

    name: str
    task_id: str
    whole: Json
    subs: list[SubTrial]

    @property
    def attempt(self) -> int:
        return int(self.name.removeprefix(f"{self.task_id}.").partition("-of-")[0])

    @property
    def payloads(self) -> Json:
        stored: Json = metrics_of(self.whole).get("agent_metrics_by_agent") or {}
        return stored


def unpacked(folder: Path) -> Path:
    with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "fc_runs"


def trials(run: Path, agents: list[Json], multi: bool) -> list[Trial]:
    """Every trial of the run-level file, but where it does not say how any agent ended (R28)."""
    listed = json.loads((run / "results.json").read_text())["results"]
    left_out = crashed_as_a_whole(run, agents)
    result = [_trial(run, entry, agents, multi) for entry in listed]
    return [trial for trial in result if trial.name not in left_out]


def crashed_as_a_whole(run: Path, agents: list[Json]) -> set[str]:
    """Trials of several agents that stand in the run-level file alone, without metrics (D16)."""
    listed = json.loads((run / "results.json").read_text())["results"]
    names = {entry["trial_name"] for entry in listed if not metrics_of(entry)} if len(agents) > 1 else set()
    return {name for name in names if not any(run.glob(f"*/{name}*/results.json"))}


def _trial(run: Path, entry: Json, agents: list[Json], multi: bool) -> Trial:
    home = run / entry["task_id"] / entry["trial_name"].partition(".agent-")[0]
    subs = []
    keys = [f"{agent['agent_name']}:{agent['model_name']}" for agent in agents]
    for index, agent in enumerate(agents, 1):
        name = f"{home.name}.agent-{index}-{agent['agent_name']}" if multi else home.name
        own = _read(home.parent / name)
        written = own if own is not None else {"is_resolved": None, "total_cost": None}
        metrics = {} if own is None else raw_metrics(home.parent / name, own)
        written = {
            "is_resolved": written["is_resolved"],
            "failure_mode": written.get("failure_mode"),
            "total_cost": cost(agent, written),
        }
        subs.append(SubTrial(index, keys[index - 1], keys, written, metrics))
    return Trial(home.name, entry["task_id"], _read(home) or entry, subs)


def _read(directory: Path) -> Json | None:
    file = directory / "results.json"
    return json.loads(file.read_text()) if file.is_file() else None


def metrics_of(result: Json) -> Json:
    stored: Json = result.get("parser_extra_metrics") or {}
    return stored


def cost(agent: Json, written: Json) -> float | None:
    """As reported; fc-eval writes 0.0 for an unknown cost too, then it is tokens x price (R2)."""
    tokens = [written.get("total_input_tokens") or 0, written.get("total_output_tokens") or 0]
    if written["total_cost"] or written["total_cost"] is None or agent["agent_name"] in BASELINES:
        reported_cost: float | None = written["total_cost"]
        return reported_cost
    if not any(tokens):
        return None
    prices = DOLLARS_PER_TOKEN[agent["model_name"].removeprefix("openai/")]
    return sum(count * price for count, price in zip(tokens, prices, strict=True))


def raw_metrics(directory: Path, written: Json) -> Json:
    """What the raw log says, in the shape of fc-eval's metrics but before its fallback.

    A log that fc-eval never parsed, because the tests did not end, says nothing (G7).
    """
    kept = metrics_of(written)
    lengths = {name: kept[name] for name in ("trajectory_length",) if name in kept}
    if written["failure_mode"] == "test_timeout":
        return lengths
    text = (directory / "panes" / "post-test.txt").read_text("utf-8", "replace")
    metrics = lengths | {"tests": "failed", "snapshot_failed": True}
    suite, snapshot, result = (block(text, name) for name in ("TESTS", "SNAPSHOT", "RESULT"))
    if isinstance(suite, dict) and not isinstance(suite.get("error", 0), str):
        metrics |= {"test_failed": suite["failed"], "test_error": suite.get("error", 0)}
        metrics["counts_lost"] = suite.get("error", 1) == 1  # by fc-eval (B5)
    broken = (
        snapshot.get("pass-to-fail", 0) if isinstance(snapshot, dict) and "error" not in snapshot else None
    )
    if isinstance(broken, int | float):
        metrics |= {"snapshot_status": "failed" if broken > 0 else "passed", "snapshot_pass_to_fail": broken}
    if isinstance(result, dict):
        kept_of_result = ("per_benchmark_speedups_by_agent", "last_agent")
        metrics |= {name: result[name] for name in kept_of_result if name in result}
    return metrics


def block(text: str, name: str) -> Any:
    """JSON of a block of the log; None if it is missing or unparsable (B1, B2)."""
    start, end = text.find(f"FORMULACODE_{name}_START"), text.find(f"FORMULACODE_{name}_END")
    if start < 0 or end <= start:
        return None
    inner = text[start + len(f"FORMULACODE_{name}_START") : end]
    try:
        return json.loads("".join(inner.strip().splitlines()))
    except ValueError:
        return None
