"""fc-eval run directories (semantics G and D4, D7, D16); the layout is in `fc_eval_layout`.

- A multi-agent trial is the events of its sub-trials, each with its `agent_index`. The merged result
  is no event: everything in it follows from them (R10). With one configured agent it is the same: that
  sub-trial, index 1 (D1). A single-agent trial has no index.
- A trial that crashed stands only in the run-level file (D16). It counts, once for every agent that
  has no sub-trial in it (R21): without verdict, with its failure mode.
- A sub-trial whose file cannot be read is there all the same: it is reported, not counted as crashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from schemas.identity import UNKNOWN, agent_model_label
from streamer.score.model_names import model_for_reporting
from streamer.sources.base import ConvertOptions, Found, RunPlan, Unreadable
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

BASELINES = ("nop", "oracle")


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
        labels = [agent_model_label(a.label, model_for_reporting(a.model or UNKNOWN)) for a in agents]
        started = {name: value for name, value in (plan.started or {}).items() if name != "agent_models"}
        plan.started = {"benchmark": BENCHMARK, **started, "harness": self.name, "baselines": list(BASELINES)}
        if labels:
            plan.started["agent_models"] = labels
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Found | Unreadable]:
        if within == path / RESULTS:
            if not options.trial_files_only:
                yield from RunReading(path, plan, options, within).run_file_alone()
            return
        run = RunReading(path, plan, options, within)
        for file, where in run.files():
            yield from run.result_file(file, where)
        yield from run.crashed_with_a_file()
        if not options.trial_files_only and within is None:
            yield from run.run_file()

    def part(self, run: Path, changed: Path) -> Path | None:
        return part_of_run(run, changed)
