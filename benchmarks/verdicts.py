"""How often a comparison, a gate and a board say something, in this tree and in another one.

    python -m benchmarks.verdicts TREE
    python -m benchmarks.verdicts --refused

TREE is a checkout of another version. The public runs of Terminal-Bench in tests/data become events, with
half of their results and with all of them. Crashed trials, and whole runs, stand in run-level files alone:
they are in, as `streamer convert` has them. Their order is once undeclared, as in their files, and once
declared as shuffled. Each pair of runs is compared and gated by the commands of each tree, and each run is
folded to its board. The table has the share that has a verdict (exit 0 or 1), or an interval.

--refused lists the pairs of finished runs that are not comparable, and what `--allow` has to name (R36).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner

from benchmarks.common import table
from streamer.terminal import cli
from tests.house.repository import ROOT
from tests.support.data import shared_data
from tests.support.rows import read_rows, terminal_bench_row_to_event

STATES = (
    ("half, undeclared", 0.5, None),
    ("half, shuffled", 0.5, "shuffled"),
    ("over, undeclared", 1.0, None),
    ("over, shuffled", 1.0, "shuffled"),
)
"""Name, share of the results that are in, and kind of the order."""

MEASURES = ("compare", "compare interval", "gate final", "gate ability", "board final", "board ability")

PROBE = """
import json, sys
from itertools import combinations
from pathlib import Path
from click.testing import CliRunner
from streamer.terminal import cli

def answer(*arguments):
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]

def has(document, *names):
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document is not None

files = sorted(Path(sys.argv[1]).iterdir())
for a, b in combinations(files, 2):
    code, said = answer("compare", "--files", a, b)
    print(json.dumps(["compare", code in (0, 1), a.name, b.name]))
    difference = has(said[0] if said else {}, "differences", "pass_rate", "interval")
    print(json.dumps(["compare interval", difference, a.name, b.name]))
    for question in ("final", "ability"):
        code, _ = answer("gate", b, "--against", a, "--question", question)
        print(json.dumps(["gate " + question, code in (0, 1), a.name, b.name]))
for file in files:
    for summary in answer("fold", file)[1]:
        if "baseline" in summary:
            print(json.dumps(["board final", has(summary, "uncertainty", "final"), file.name]))
            print(json.dumps(["board ability", has(summary, "uncertainty", "ability"), file.name]))
"""
"""Prints what was asked, whether it said something, and of which runs; needs no more than the commands."""


def public_runs() -> list[list[dict[str, Any]]]:
    """The trials of each run."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in ("trials.jsonl.gz", "trials_runfile_only.jsonl.gz"):
        for row in read_rows(shared_data() / "terminal_bench" / file):
            runs.setdefault((row["submission"], row["run"]), []).append(row)
    return list(runs.values())


def lines_of(
    rows: list[dict[str, Any]], run: str, share: float, kind: str | None
) -> Iterator[dict[str, Any]]:
    """The events of a run of which so many results are in."""
    rows = sorted(rows, key=lambda row: (row.get("trial_started_at") or "", row["trial_name"]))
    attempts = max(row["attempt"] for row in rows)
    tasks = list(dict.fromkeys(row["task_id"] for row in rows))
    starts = [row["trial_started_at"] for row in rows if row.get("trial_started_at")]
    plan = {"type": "run_started", "run_id": run, "tasks": tasks, "attempts": attempts}
    order = {"order": tasks * attempts, "order_kind": kind} if kind else {"order": tasks * attempts}
    yield plan | order | ({"started_at": min(starts)} if starts else {})
    ended = sorted(rows, key=lambda row: row.get("trial_ended_at") or "")
    yield from (terminal_bench_row_to_event(row, run) for row in ended[: round(share * len(ended))])
    if share == 1:
        yield {"type": "run_finished", "run_id": run, "status": "completed"}


def shares(tree: Path, folder: Path) -> dict[str, list[bool]]:
    """Answers of that tree for these files, by measure: whether each of them says something."""
    environment = {"PYTHONPATH": str(tree.resolve()), "PYTHONSAFEPATH": "1"}
    said = subprocess.run(
        [sys.executable, "-c", PROBE, str(folder)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    result: dict[str, list[bool]] = {name: [] for name in MEASURES}
    for name, spoke, *_ in map(json.loads, said.splitlines()):
        result[name].append(spoke)
    return result


def refused_pairs(folder: Path, runs: int | None = None) -> Iterator[tuple[str, str, list[str]]]:
    """Every two finished runs, and what forbids a verdict on them; [] where nothing does."""
    for number, trials in enumerate(public_runs()[:runs]):
        events = lines_of(trials, f"run-{number:02}", 1.0, None)
        (folder / f"run-{number:02}.ndjson").write_text("".join(json.dumps(one) + "\n" for one in events))
    for a, b in combinations(sorted(folder.iterdir()), 2):
        said = CliRunner().invoke(cli, ["compare", "--files", str(a), str(b), "--json"])
        yield a.stem, b.stem, json.loads(said.stdout)["refused"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tree", type=Path, nargs="?", help="a checkout of another version")
    parser.add_argument("--refused", action="store_true", help="list the pairs that are not comparable")
    parser.add_argument("--runs", type=int, help="only so many runs")
    given = parser.parse_args(arguments)
    if given.refused:
        with TemporaryDirectory(prefix="refused-") as directory:
            pairs = list(refused_pairs(Path(directory), given.runs))
        refused = [[a, b, ", ".join(why)] for a, b, why in pairs if why]
        print(table([["A", "B", "refused"], *refused]))
        print(f"{len(refused)} of {len(pairs)} pairs are not comparable")
        return
    if given.tree is None:
        parser.error("give TREE, or --refused")
    runs = public_runs()[: given.runs]
    rows: list[list[object]] = [["state and order", "measured", "of", "other", "this"]]
    with TemporaryDirectory(prefix="verdicts-") as directory:
        for state, share, kind in STATES:
            folder = Path(directory) / state
            folder.mkdir()
            for number, trials in enumerate(runs):
                events = lines_of(trials, f"run-{number:02}", share, kind)
                text = "".join(json.dumps(event) + "\n" for event in events)
                (folder / f"run-{number:02}.ndjson").write_text(text)
            other, this = (shares(tree, folder) for tree in (given.tree, ROOT))
            rows += (
                [state, name, len(this[name]), *(f"{sum(t[name]) / len(t[name]):.0%}" for t in (other, this))]
                for name in MEASURES
            )
    print(table(rows))


if __name__ == "__main__":
    main()
