"""Real results among the traffic, and the numbers that other people's code made of them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from streamer.schemas.base import encode_id
from streamer.storage.kafka import Names
from tests.conformance import test_rulings_verdicts, test_terminal_bench
from tests.faults.traffic import Message, Traffic
from tests.support.rows import read_rows, scylla_row_to_event, terminal_bench_row_to_event

SCYLLA_RUN = "haiku_n3"
RUNS = 8
COPIES = 2


class RealRuns:
    """Some real Terminal-Bench runs, and ProjectScylla's with the corrections that came later.

    Args:
        data: the folder of shared real data.
    """

    def __init__(self, data: Path, seed: int) -> None:
        rng = random.Random(seed)
        rows = read_rows(data / "terminal_bench" / "trials.jsonl.gz")
        self._runs: dict[str, Any] = json.loads((data / "terminal_bench" / "expected.json").read_text())[
            "runs"
        ]
        having = sorted(path for path, expected in self._runs.items() if expected.get("from_trial_files"))
        self.paths = rng.sample(having, RUNS)
        events = [
            terminal_bench_row_to_event(row, row["run_path"]) for row in rows if row["run_path"] in self.paths
        ]
        self._trials = {path: [event for event in events if event["run_id"] == path] for path in self.paths}
        scylla = json.loads((data / "scylla" / "expected.json").read_text())["datasets"]
        self._scylla = scylla[SCYLLA_RUN]["pooled"]["by_score"]
        for revision, name in enumerate(("haiku_n3_superseded", "haiku_n3")):
            rows = read_rows(data / "scylla" / f"{name}.jsonl")
            self._trials[SCYLLA_RUN] = [
                scylla_row_to_event(row, SCYLLA_RUN, revision=revision) for row in rows
            ]
            events += self._trials[SCYLLA_RUN]
        values = [(event["run_id"], orjson.dumps(event)) for event in events for _ in range(COPIES)]
        rng.shuffle(values)
        self._values = values

    def messages(self, traffic: Traffic) -> list[Message]:
        """All of it, twice and in disorder."""
        return [traffic.message(run, value) for run, value in self._values]

    def check(self, latest: Mapping[str, Mapping[str, bytes]], names: Names) -> int:
        """Compare what the topics say with what the harnesses' own code computed; how many runs.

        Args:
            latest: topic -> key -> last value.

        Raises:
            AssertionError: a number differs.
        """
        runs = latest[names.run_summaries]
        for path in self.paths:
            summary = orjson.loads(runs[encode_id(path)])
            test_terminal_bench.check(summary, self._runs[path]["from_trial_files"], self._trials[path])
        summaries = map(orjson.loads, latest[names.tier_summaries].values())
        tiers = {s["tier"]: s for s in summaries if s["run_id"] == SCYLLA_RUN and s["agent_model"] is None}
        trials = self._trials[SCYLLA_RUN]
        test_rulings_verdicts.check_run(orjson.loads(runs[SCYLLA_RUN]), tiers, self._scylla, trials)
        return len(self.paths) + 1
