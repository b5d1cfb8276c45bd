"""ProjectScylla experiment directories (semantics S10 to S16).

<timestamp>-<test>/                      the run, named by its directory
  config/experiment.json  checkpoint.json
  [in_progress/ or completed/]T<k>/<subtest>/run_<n>/run_result.json, agent/, judge/
  .../T<k>/<subtest>/.failed/              attempts that the harness repeats: ignored, as it does itself
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from streamer.schemas.base import UNKNOWN, label_for_reporting
from streamer.sources.base import ConvertOptions, Parsed, Remark, RunPlan, Unreadable, made_with, usage_of
from streamer.sources.files import (
    MAX_FILE_BYTES,
    TRIAL,
    FileError,
    artifacts_of,
    clean_name,
    exists,
    is_directory,
    is_file,
    listed,
    mtime_ns,
    objects,
    open_text,
    part,
    present,
    read_object,
    read_optional,
    start_of,
    subdirectories,
    text,
    time_of,
    walk,
)

RESULT = "run_result.json"
CONFIG = Path("config", "experiment.json")
CHECKPOINT = "checkpoint.json"
IN_PROGRESS = "in_progress"
COMPLETED = "completed"
FAILED = ".failed"
KEPT = (TRIAL, "agent", "judge")

OTHER_VERDICT = "with another verdict in checkpoint.json; run_result.json counts"
NO_JUDGE = "without a valid result of any judge: a failure with score 0, as ProjectScylla counts it"

LINES_OF_ERRORS = 10
"""The number of final lines of an agent's errors that form its message."""

DEFAULT_AGENT = "claude-code"
"""The default agent framework of an experiment."""

_TIER = re.compile(r"T\d+")
_RUN = re.compile(r"run_0*([1-9]\d*)")
_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")
_MODEL = re.compile(r"^\*\*Model\*\*:\s*(\S+)", re.MULTILINE)


class Scylla:
    name = "scylla"
    looks_for = "a directory with config/experiment.json, or with T0/00/run_01/run_result.json"

    def detect(self, path: Path) -> bool:
        if not is_directory(path):
            return False
        if is_file(path / CONFIG):
            return True
        return _has_tiers(path) and not any(is_file(parent / CONFIG) for parent in path.parents[:4])

    def skip(self, directory: Path) -> bool:
        return bool(_RUN.fullmatch(directory.parent.name)) or directory.name in (FAILED, "repo")

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        plan = RunPlan(run_id=clean_name(path))
        config = read_optional(path / CONFIG, plan.problems)
        checkpoint = read_optional(path / CHECKPOINT, plan.problems)
        # the harness runs the first of the models alone
        models = [model for model in listed(config, "models") if text(model)][:1]
        plan.agent = options.agent or DEFAULT_AGENT
        plan.model = models[0] if models else None
        labels = [label_for_reporting(plan.agent, model) for model in models]
        tiers = [tier for tier in listed(config, "tiers_to_run") if text(tier)]
        has_one_subtest = bool(tiers) and config.get("max_subtests") == 1
        plan.started = present(
            {
                "type": "run_started",
                "harness": self.name,
                "revision": max(mtime_ns(path / CONFIG), mtime_ns(path / CHECKPOINT)),
                "started_at": checkpoint.get("started_at"),
                "planned_at": checkpoint.get("started_at"),
                "tasks": [_task(path, config)],
                "attempts": config.get("runs_per_subtest"),
                "agent_models": labels or None,
                "tiers": tiers or None,
                "subtests": dict.fromkeys(tiers, 1) if has_one_subtest else None,
                "plan_complete": (has_one_subtest or not tiers) and not plan.problems,
                "provenance": made_with(
                    {
                        "dataset": config.get("task_repo"),
                        "dataset_version": config.get("task_commit"),
                        "timeout": config.get("timeout_seconds"),
                        "limits": config and {"turns": config.get("max_turns") or "none"},
                        "judge": listed(config, "judge_models") or config.get("judge_model"),
                        "concurrency": config.get("parallel_subtests"),
                    }
                ),
            }
        )
        plan.announced = _completed(part(checkpoint, "completed_runs"))
        # resuming a completed experiment leaves its status
        is_over = checkpoint.get("experiment_state", "complete") == "complete"
        if is_over and checkpoint.get("status") == COMPLETED:
            plan.finished = present(
                {
                    "type": "run_finished",
                    "revision": mtime_ns(path / CHECKPOINT),
                    "finished_at": checkpoint.get("last_updated_at"),
                    "status": COMPLETED,
                }
            )
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Parsed | Unreadable | Remark]:
        task_id = _task(path, read_optional(path / CONFIG, []))
        ended = part(read_optional(path / CHECKPOINT, []), "completed_runs")
        homes = list(walk(within or path, self.skip))
        files = [home / RESULT for home in homes if is_file(home / RESULT)]
        completed: set[tuple[str, ...]] = set()
        for file in sorted(files, key=lambda file: (_in_progress(path, file), file)):
            place = _place(path, file)
            if place is None:
                yield Unreadable(file, "its directory is not T<k>/<subtest>/run_<n>, so its slot is unknown")
                continue
            try:
                result = read_object(file)
            except FileError as error:
                yield Unreadable(file, str(error))
                continue
            problems: list[Unreadable] = []
            event = self._event(path, file, result, task_id, place, plan, options, problems)
            yield from problems
            yield from _differing(file, place, result.get("judge_passed"), ended)
            judges = objects(result, "judges")  # judging again replaces the score, not these
            if judges and not result.get("judge_score") and all(j.get("is_valid") is False for j in judges):
                yield Remark(file, NO_JUDGE, "/".join(place))
            yield Parsed(file, event, replaced=_in_progress(path, file) and place in completed)
            completed.add(place)
        for home in homes:
            yield from _start(path, home, task_id, plan)

    def part(self, run: Path, changed: Path) -> Path | None:
        for place in (changed, *changed.parents):
            if place == run or FAILED in changed.relative_to(run).parts:
                return None
            if _RUN.fullmatch(place.name) and is_directory(place):
                return place
        return None

    def _event(
        self,
        path: Path,
        file: Path,
        result: dict[str, Any],
        task_id: str,
        place: tuple[str, str, str],
        plan: RunPlan,
        options: ConvertOptions,
        problems: list[Unreadable],
    ) -> dict[str, Any]:
        tier, subtest, run = place
        tokens = part(result, "token_stats")
        output = tokens.get("output_tokens")
        started_at, finished_at = _times(file.parent, problems)
        return present(
            {
                "type": "trial_result",
                "harness": self.name,
                "task_id": task_id,
                "attempt": int(run),
                "agent": plan.agent,
                "model": plan.model or _model_of(file.parent) or options.model or UNKNOWN,
                "tier": tier,
                "subtest": subtest,
                "revision": mtime_ns(file),
                "trial_name": "/".join((tier, subtest, clean_name(file.parent))),
                "resolved": result.get("judge_passed"),
                "failure_mode": _failure_mode(result.get("exit_code")),
                "message": _message(file.parent, result),
                "artifacts": artifacts_of(path, file.parent, KEPT, (RESULT,)),
                "score": result.get("judge_score"),
                **usage_of(
                    plan.agent or DEFAULT_AGENT,
                    input_tokens=tokens.get("input_tokens"),
                    output_tokens=result.get("tokens_output") if output is None else output,
                    cache_read=tokens.get("cache_read_tokens"),
                    cache_write=tokens.get("cache_creation_tokens"),
                    cost=result.get("cost_usd"),
                ),
                "duration_seconds": result.get("duration_seconds"),
                "started_at": started_at,
                "finished_at": finished_at,
            }
        )


def _completed(tiers: dict[str, Any]) -> int | None:
    """The number of runs in a checkpoint that have ended. Its version 1.0 lists only their numbers."""
    subtests = [runs for tier in tiers for runs in part(tiers, tier).values()]
    ended = (
        runs if isinstance(runs, list) else [s for s in runs.values() if s in ("passed", "failed")]
        for runs in subtests
        if isinstance(runs, list | dict)
    )
    return sum(map(len, ended)) or None


def _differing(
    file: Path, place: tuple[str, str, str], passed: Any, ended: dict[str, Any]
) -> Iterator[Remark]:
    tier, subtest, run = place
    status = part(part(ended, tier), subtest).get(run)
    if isinstance(passed, bool) and status == ("failed" if passed else "passed"):
        yield Remark(
            file, OTHER_VERDICT, f"{'/'.join(place)}: {'passed' if passed else 'failed'}, not {status}"
        )


def _times(trial: Path, problems: list[Unreadable]) -> tuple[str | None, str | None]:
    """Start and end of a trial, from the end times `measured_at` of the agent and then the judge."""
    agent = read_optional(trial / "agent" / "timing.json", problems)
    judge = read_optional(trial / "judge" / "timing.json", problems)
    agent_end = time_of(agent.get("measured_at"))
    took = agent.get("agent_duration_seconds")
    started_at = None
    if agent_end and isinstance(took, int | float) and 0 <= took < timedelta.max.total_seconds():
        try:
            started_at = (agent_end - timedelta(seconds=took)).isoformat()
        except OverflowError:
            started_at = None
    return started_at, judge.get("measured_at") or agent.get("measured_at")


def _start(run: Path, trial: Path, task_id: str, plan: RunPlan) -> Iterator[Parsed]:
    place, model = _place(run, trial / RESULT), plan.model or _model_of(trial)
    if place is None or model is None or exists(trial / RESULT):
        return
    tier, subtest, number = place
    slot = {
        "task_id": task_id,
        "attempt": int(number),
        "agent": plan.agent,
        "model": model,
        "tier": tier,
        "subtest": subtest,
    }
    yield start_of(trial, slot, trial, trial / "agent", started_at=_times(trial, [])[0])


def _failure_mode(exit_code: Any) -> str | None:
    if not isinstance(exit_code, int) or isinstance(exit_code, bool):
        return None
    return "unset" if exit_code == 0 else f"exit_code_{exit_code}"


def _message(trial: Path, result: dict[str, Any]) -> str | None:
    if result.get("judge_passed") is True:
        return None
    if reasoning := text(result.get("judge_reasoning")):
        return reasoning
    if _failure_mode(result.get("exit_code")) in (None, "unset"):
        return None
    errors = text(read_optional(trial / "agent" / "result.json", []).get("stderr"))
    return "\n".join(errors.strip().splitlines()[-LINES_OF_ERRORS:]) if errors else None


def _model_of(trial: Path) -> str | None:
    file = trial / "agent" / "MODEL.md"
    try:
        with open_text(file) as opened:
            match = _MODEL.search(opened.read(MAX_FILE_BYTES))
    except FileError:
        return None
    return match[1] if match else None


def _task(path: Path, config: dict[str, Any]) -> str:
    name = clean_name(path)
    return text(config.get("experiment_id")) or _TIMESTAMP.sub("", name) or name


def _place(run: Path, file: Path) -> tuple[str, str, str] | None:
    parts = file.parent.relative_to(run).parts[-3:]
    if len(parts) < 3 or not _TIER.fullmatch(parts[0]):
        return None
    match = _RUN.fullmatch(parts[2])
    return (parts[0], clean_name(Path(parts[1])), match[1]) if match else None


def _in_progress(run: Path, file: Path) -> bool:
    return IN_PROGRESS in file.relative_to(run).parts


def _has_tiers(path: Path) -> bool:
    if path.name in (IN_PROGRESS, COMPLETED):
        return False
    return any(
        is_file(run / RESULT)
        for home in (path, path / IN_PROGRESS, path / COMPLETED)
        for tier in subdirectories(home)
        if _TIER.fullmatch(tier.name)
        for subtest in subdirectories(tier)
        for run in subdirectories(subtest)
    )
