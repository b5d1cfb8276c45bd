"""fc-eval run directories (semantics G and D4, D7, D16); the layout is in `fc_eval_layout`.

- A multi-agent trial is the events of its sub-trials, each with its `agent_index`. With one configured
  agent it is the same: that sub-trial, index 1 (D1). A single-agent trial has no index.
- The merged result of a multi-agent trial is no event: everything in it follows from the sub-trials
  (R10). Where an agent's sub-trial has no file, the merged result is read for it (R28), in the trial's
  own file or in the run-level file.
- A trial that crashed stands only in the run-level file (D16). Of one agent that is its result: no
  verdict, a failure mode. Of several agents the file does not say how they ended. They are left out and
  reported; who was planned is counted when the run has finished (R21).
- A sub-trial whose file cannot be read is there all the same: it is reported, and nothing replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamer.model_names import BASELINE_LABELS, label_for_reporting
from streamer.sources.base import ConvertOptions, Item, RunPlan
from streamer.sources.fc_eval_layout import (
    configured_agents,
    is_fc_eval,
)
from streamer.sources.fc_eval_run import NAME, RunReading
from streamer.sources.terminal_bench import TerminalBench
from streamer.sources.terminal_bench_layout import (
    LOG_DIRECTORIES,
    RESULTS,
    part_of_run,
)

BENCHMARK = "formulacode"
"""The benchmark where the dataset has no name."""


class FcEval:
    """Connector for fc-eval, the harness of FormulaCode."""

    name = NAME

    def detect(self, path: Path) -> bool:
        return is_fc_eval(path)

    def skip(self, directory: Path) -> bool:
        return directory.name in LOG_DIRECTORIES

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        """The plan as Terminal-Bench keeps it, and what fc-eval adds: several agents, baselines."""
        plan = TerminalBench().plan(path, options)
        multi, agents = configured_agents(path, plan)
        if multi:
            plan.agent = plan.model = None
        labels = [label_for_reporting(a.label, a.model) for a in agents]
        started = {name: value for name, value in (plan.started or {}).items() if name != "agent_models"}
        plan.started = {
            "benchmark": BENCHMARK,
            **started,
            "harness": self.name,
            "baselines": sorted(BASELINE_LABELS),
        }
        if labels:
            plan.started["agent_models"] = list(dict.fromkeys(labels))
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        if within == path / RESULTS:
            if not options.trial_files_only:
                yield from RunReading(path, plan, options, within).run_file_alone()
            return
        run = RunReading(path, plan, options, within)
        for file, where in run.files():
            yield from run.result_file(file, where)
        yield from run.merged_files()
        if not options.trial_files_only and within is None:
            yield from run.run_file()
        yield from run.starts()

    def part(self, run: Path, changed: Path) -> Path | None:
        return part_of_run(run, changed)
