"""FormulaCode's blocks inside agent:model summaries and scored trials, under the specification's names."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from streamer.schemas.base import Message, Number, SignedAmount, SignedCount, Total

SectionStatus = Literal["ok", "failed", "missing", "unparsable"]
SnapshotStatus = Literal["passed", "failed", "missing", "unparsable"]

ADVANTAGES = ("agent_advantage", *(f"agent_advantage_level{level}" for level in (1, 2, 3, 4)))
"""The specification's names of the advantages; the first equals level 4 unless a log claims otherwise."""


class FormulaCodeCoverage(Message):
    """How many trials each mean of a FormulaCode summary rests on (R1, R21)."""

    task_speedup: int = Field(ge=0, description="Trials with a speedup; a failure has 1.0 (R21).")
    agent_advantage: int = Field(ge=0, description="Trials with a known advantage.")


class FormulaCodeSummary(Message):
    """Run-level aggregation of one agent:model across all tasks."""

    mean_speedup: Number | None = Field(description="Mean of the task speedups, ratio > 0.")
    mean_speedup_standard_error: Number | None = Field(
        default=None,
        description="Of the mean speedup, clustered by task, a ratio. Null: a baseline, or fewer than two "
        "tasks (inference 6).",
    )
    mean_speedup_low: Number | None = Field(
        default=None, description="Lower end of the mean speedup's interval, 95 %."
    )
    mean_speedup_high: Number | None = Field(
        default=None, description="Upper end of the mean speedup's interval, 95 %."
    )
    mean_success_rate: Number | None = Field(description="Mean success over all trials, in [0, 1] (R21).")
    num_benchmarks: Total = Field(description="Sum over tasks, invalid entries included (A4).")
    num_valid_benchmarks: Total = Field(description="Sum over tasks of the valid entries (A1).")
    agent_advantage: Number | None = Field(description="Mean advantage over the oracle, level 4.")
    agent_advantage_level1: Number | None = Field(description="Mean advantage by module.")
    agent_advantage_level2: Number | None = Field(description="Mean advantage by class.")
    agent_advantage_level3: Number | None = Field(description="Mean advantage by function.")
    agent_advantage_level4: Number | None = Field(description="Mean advantage over all benchmarks.")
    mean_cost_per_task: Number | None = Field(description="Mean known cost in USD.")
    cost_weighted_advantage: Number | None = Field(
        description="agent_advantage / mean_cost_per_task, 1/USD; 0 if the cost is 0 (R25)."
    )
    mean_trajectory_length: Number | None = Field(description="Mean interactions per trial.")
    agent_advantages_gmean: dict[str, Number | None] | None = Field(
        description="gmean(1 + a) - 1 per advantage, plain mean where some 1 + a <= 0 (F7); null for nop."
    )
    fallbacks: int = Field(
        ge=0, description="Failed trials that count with known benchmarks, each at speedup 1.0 (R21)."
    )
    claimed: int = Field(ge=0, description="Trials whose advantages are only claimed by their log (R3).")
    missing: int = Field(
        default=0,
        ge=0,
        description="Trials of the finished run in which the agent was planned and has no sub-trial; they "
        "count as failures in these numbers, and in no others of the summary (R21).",
    )
    coverage: FormulaCodeCoverage = Field(description="What the means rest on.")


class BenchmarkSpeedup(Message):
    """One benchmark as it counts, after a fallback if there was one."""

    agent: float | None = Field(
        alias="agent/nop", description="Speedup of the agent, ratio; null if invalid (A1)."
    )
    oracle: float | None = Field(
        alias="oracle/nop", description="Speedup of the oracle, ratio; null if invalid."
    )
    advantage: float | None = Field(description="agent/nop minus oracle/nop; null if either is invalid.")
    fallback_to_baseline: bool = Field(
        default=False, description="True where the agent's value was reset to 1."
    )


class PytestSummary(Message):
    """The task's test suite under one agent; counts, null where the log gave none."""

    status: str = Field(description="ok, failed, missing or unparsable.")
    passed: int | None = Field(description="Tests passed.")
    failed: int | None = Field(description="Tests failed.")
    error: int | None = Field(description="Tests that ended in an error.")
    skipped: int | None = Field(description="Tests skipped.")
    total: int | None = Field(description="Tests collected.")
    failed_total: int = Field(description="failed + error.")


class SnapshotSummary(Message):
    """The snapshot comparison under one agent; counts, null where the log gave none."""

    status: str = Field(description="passed, failed, missing or unparsable.")
    passed: int | None = Field(description="Snapshots equal.")
    failed: int | None = Field(description="Snapshots that differ, the snapshot's own count (R6).")
    skipped: int | None = Field(description="Snapshots not compared.")
    total: int | None = Field(description="Snapshots in all.")
    pass_to_fail: float | None = Field(description="Tests that passed before and fail now.")


class FormulaCodePayload(Message):
    """The per-agent task payload of the specification."""

    per_benchmark_speedups: dict[str, BenchmarkSpeedup] | None = Field(
        description="Benchmark to its speedups; null where not measured (R21)."
    )
    benchmarks_left_out: int = Field(
        ge=0, description="Benchmarks not listed: beyond 256 KiB only the 100 slowest and 100 fastest are."
    )
    pytest_summary: PytestSummary | None = Field(description="Test counts; null: does not apply (R20).")
    snapshot_summary: SnapshotSummary | None = Field(description="Snapshots; null: does not apply (R20).")
    pytest_failed: bool = Field(
        description="Test suite failed, relative to the oracle's if there is one (D8)."
    )
    snapshot_failed: bool = Field(description="Snapshot comparison failed (D10).")
    success: bool = Field(description="Neither failed, or the harness's verdict where neither applies (R20).")
    fallback_to_baseline: bool = Field(description="Whether the baseline fallback was applied (R21).")
    claimed: bool = Field(description="True if the advantages are only claimed by the log (R3).")
    agent_advantage: float | None = Field(description="Overall advantage (level 4); null if unknown (R22).")
    agent_advantage_level1: float | None = Field(description="Module-level advantage.")
    agent_advantage_level2: float | None = Field(description="Class-level advantage.")
    agent_advantage_level3: float | None = Field(description="Function-level advantage.")
    agent_advantage_level4: float | None = Field(description="Overall advantage.")
    num_benchmarks: int = Field(description="Benchmarks, invalid ones included (A4).")
    num_valid_benchmarks: int = Field(description="Benchmarks with valid measurements (A1).")
    task_speedup: float | None = Field(
        description="Geometric mean speedup; 1.0 of nothing (A3), null: not measured."
    )
    task_cost_usd: float | None = Field(description="Agent cost for this task in USD.")
    trajectory_length: int | None = Field(description="Agent interactions.")


class TestCounts(Message):
    """Outcome of the task's own test suite (FormulaCode's TESTS block)."""

    __test__ = False
    model_config = ConfigDict(extra="ignore")

    status: SectionStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = Field(default=None, description="Tests passed.")
    failed: SignedCount | None = Field(default=None, description="Tests failed.")
    error: SignedCount | None = Field(default=None, description="Tests that ended in an error.")
    skipped: SignedCount | None = Field(default=None, description="Tests skipped.")
    total: SignedCount | None = Field(default=None, description="Tests collected.")


class SnapshotCounts(Message):
    """Outcome of the snapshot comparison (FormulaCode's SNAPSHOT block)."""

    model_config = ConfigDict(extra="ignore")

    status: SnapshotStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = Field(default=None, description="Snapshots equal.")
    failed: SignedCount | None = Field(
        default=None, description="Snapshots that differ, the snapshot's own count (R6)."
    )
    skipped: SignedCount | None = Field(default=None, description="Snapshots not compared.")
    total: SignedCount | None = Field(default=None, description="Snapshots in all.")
    pass_to_fail: SignedAmount | None = Field(
        default=None, description="Tests that passed before and fail now."
    )
