"""The results of one fc-eval run, read file by file; the rules are in `fc_eval`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.schemas.decode import shown
from streamer.schemas.identity import UNKNOWN
from streamer.sources.agent_keys import ConfiguredAgent
from streamer.sources.agent_logs import AgentLogs, enriched, read_agent_logs
from streamer.sources.base import ConvertOptions, Found, Item, Remark, RunPlan, Unreadable
from streamer.sources.costs import reported_cost
from streamer.sources.fc_eval_layout import METRICS, TrialName, place
from streamer.sources.fc_eval_merged import Merged
from streamer.sources.fc_eval_payload import left_open, payload_of, trajectory_length
from streamer.sources.fc_eval_roster import Roster, last_position
from streamer.sources.files import (
    FileError,
    clean_name,
    exists,
    is_directory,
    is_file,
    known,
    mtime_ns,
    part,
    read_object,
    subdirectories,
    text,
)
from streamer.sources.terminal_bench_layout import (
    RESULTS,
    TRIAL_DEPTH,
    depth,
    failed_tests,
    has_own_file,
    own_names,
    result_files,
    run_file_results,
    trial_artifacts,
    trials_begun,
)

NAME = "fc-eval"
"""The harness."""

LEFT_OUT = "of which some agents have no result in any file, so these agents are left out"
_NO_TASK = "not a trial result: it has no text under `task_id`"


@dataclass(slots=True)
class _Trial:
    """A trial as a whole.

    Attributes:
        directory: None if it stands only in the run-level file.
        has_result: whether it has a results.json of its own that can be read.
        indices: agents that have a sub-trial in it, readable or not.
    """

    directory: Path | None = None
    has_result: bool = False
    indices: set[int] = field(default_factory=set)


class RunReading:
    """One reading of a run: remembers which agent of which trial was found."""

    def __init__(self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None) -> None:
        self._path = path
        self._own_names: Collection[str] = {plan.run_id, *plan.aliases}
        self._roster = Roster(path, self._run_file, plan, options)
        # Without a configuration, one trial says who the agents of another are.
        self._within = within if self._roster.is_configured else None
        self._options = options
        self._trials: dict[str, _Trial] = {}

    def files(self) -> list[tuple[Path, TrialName]]:
        """Results of the run's trials, sub-trials in the agents' order before their trial as a whole."""
        places = {
            file: place(clean_name(file.parent.parent), clean_name(file.parent), self._own_names)
            for file in result_files(self._path, self._within, sub_trials=True)
        }
        self._roster.is_multi |= any(where.agent_index for where in places.values())
        claims = ((file, where.run) for file, where in places.items())
        self._own_names = own_names(self._own_names, self._path, claims)

        def order(item: tuple[Path, TrialName]) -> tuple[Any, ...]:
            file, where = item
            home = file.parent.parent
            return (
                depth(self._path, file),
                home,
                where.trial,
                where.agent_index is None,
                where.agent_index or 0,
            )

        return sorted(places.items(), key=order)

    def result_file(self, file: Path, where: TrialName) -> Iterator[Item]:
        """The event of a trial's or a sub-trial's own file."""
        trial = self._trials.setdefault(where.trial, _Trial())
        if where.agent_index is None:
            trial.directory = file.parent
        else:
            trial.indices.add(where.agent_index)
        try:
            result = read_object(file)
        except FileError as error:
            yield Unreadable(file, str(error))
            return
        if text(result.get("task_id")) is None:
            yield Unreadable(file, _NO_TASK)
            return
        if where.agent_index is None:
            trial.has_result = True
            if self._roster.is_multi:
                return
        yield from self._measured(file, file.parent, result, where)

    def merged_files(self) -> Iterator[Item]:
        """Agents without a sub-trial of their own in a trial that has a result as a whole."""
        for name, trial in self._trials.items():
            if not (self._roster.is_multi and trial.directory and trial.has_result):
                continue
            if self._roster.agents.keys() - trial.indices:
                file = trial.directory / RESULTS
                try:
                    result = read_object(file)
                except FileError as error:
                    yield Unreadable(file, str(error))
                    continue
                if text(result.get("task_id")):
                    yield from self._of_several(file, result, name)

    def run_file_alone(self) -> Iterator[Item]:
        """Trials that stand only in the run-level file, before any other file was read.

        Nothing where no file names the agents: then one trial names another's agents.
        """
        if self._within is not None:
            yield from self.run_file(alone=True)

    def run_file(self, *, alone: bool = False) -> Iterator[Item]:
        """Trials that stand only in the run-level file, or whose own file cannot be read."""
        file = self._run_file
        if not exists(file):
            return
        try:
            results = run_file_results(file)
        except FileError as error:
            yield Unreadable(file, str(error))
            return
        for number, result in enumerate(results):
            if isinstance(result, dict) and text(result.get("task_id")):
                if not (alone and self._has_own_file(result)):
                    yield from self._run_file_entry(file, result)
            else:
                yield Unreadable(file, f"results[{number}]: {_NO_TASK}")

    def starts(self) -> Iterator[Item]:
        """Agents that have begun and have no result of their own."""
        begun = trials_begun(self._path, self._within)
        return self._roster.starts_of(begun, self._own_names)

    @property
    def _run_file(self) -> Path:
        return self._path / RESULTS if is_directory(self._path) else self._path

    def _has_own_file(self, result: dict[str, Any]) -> bool:
        """Whether a trial of the run-level file has a result of its own; else notes which agents have one."""
        task_id, name = result["task_id"], text(result.get("trial_name"))
        if has_own_file(self._path, task_id, name):
            return True
        where = place(task_id, name or "", self._own_names)
        trial = self._trials.setdefault(where.trial, _Trial())
        for directory in subdirectories(self._path / task_id):
            sub = place(task_id, clean_name(directory), self._own_names)
            if sub.trial == where.trial and sub.agent_index and is_file(directory / RESULTS):
                trial.indices.add(sub.agent_index)
        return False

    def _run_file_entry(self, file: Path, result: dict[str, Any]) -> Iterator[Item]:
        where = place(result["task_id"], text(result.get("trial_name")) or "", self._own_names)
        trial = self._trials.setdefault(where.trial, _Trial())
        if trial.has_result:
            return
        trial.has_result = True
        if self._roster.is_multi or where.agent_index is not None:
            yield from self._of_several(file, result, where.trial, from_run_file=True)
        else:
            yield from self._measured(file, trial.directory, result, where, from_run_file=True)

    def _of_several(
        self, file: Path, result: dict[str, Any], name: str, *, from_run_file: bool = False
    ) -> Iterator[Item]:
        """Agents that have no sub-trial, by the result of their trial as a whole (R28).

        With one agent this is the agent's own (D1). Of others it says what was merged; a trial that
        ended before the merge (D16) says nothing of its agents.
        """
        trial, agents = self._trials[name], self._roster.agents
        where = place(result["task_id"], name, self._own_names)
        if self._roster.trial_size == len(agents) == 1:
            ((position, agent),) = agents.items()
            if position not in trial.indices:
                own = where._replace(agent_index=position, label=agent.label)
                yield from self._measured(file, trial.directory, result, own, from_run_file=from_run_file)
            return
        last = last_position(result, self._own_names)
        merged = Merged(result, self._roster, last)
        lost = []
        for position, agent in sorted(agents.items()):
            if position in trial.indices:
                continue
            share = merged.share(position)
            if share is None:
                lost.append(f"{position}-{agent.label}")
                continue
            own = where._replace(agent_index=position, label=agent.label)
            ending = result if position == last else {"task_id": result["task_id"]}
            yield from left_open(file, share.payload)
            measured = share.measured | share.payload.fields
            yield self._found(file, own, agent, ending, measured, from_run_file, partial=True)
        if lost or not agents:
            who = ", ".join(lost) or "agents that no file names"
            ended = shown(result.get("failure_mode"))
            why = "written over in the merge" if merged.entries else f"the trial ended: {ended}"
            yield Remark(file, LEFT_OUT, f"{who} ({why})")

    def _measured(
        self,
        file: Path,
        directory: Path | None,
        result: dict[str, Any],
        where: TrialName,
        *,
        from_run_file: bool = False,
    ) -> Iterator[Item]:
        """The event of one agent's own result. What its logs know better (E1 to E3, E6) belongs in here."""
        agent = self._roster.agent_of(where, result)
        payload = payload_of(result, directory, self._roster.subject(where.agent_index or 1, agent))
        measured = {
            "resolved": result.get("is_resolved"),
            "input_tokens": result.get("total_input_tokens"),
            "output_tokens": result.get("total_output_tokens"),
            "cost_usd": reported_cost(result, agent.label),
            "trajectory_length": trajectory_length(part(result, METRICS)),
            "artifacts": trial_artifacts(self._path, directory),
        }
        yield from left_open(file, payload)
        logs = read_agent_logs(directory, main_trial=where.trial, agent_index=where.agent_index)
        yield self._found(file, where, agent, result, measured | payload.fields, from_run_file, logs)

    def _found(
        self,
        file: Path,
        where: TrialName,
        agent: ConfiguredAgent,
        result: dict[str, Any],
        measured: dict[str, Any],
        from_run_file: bool,
        logs: AgentLogs | None = None,
        *,
        partial: bool = False,
    ) -> Found:
        event = {
            "type": "trial_result",
            "harness": NAME,
            "task_id": result["task_id"],
            "attempt": where.attempt,
            "agent": agent.label,
            "model": agent.model or self._options.model or UNKNOWN,
            "agent_index": where.agent_index,
            "revision": mtime_ns(file),
            "trial_id": result.get("id"),
            "trial_name": result.get("trial_name"),
            "failure_mode": result.get("failure_mode"),
            "message": failed_tests(result),
            "started_at": result.get("trial_started_at"),
            "finished_at": result.get("trial_ended_at"),
            **measured,
        }
        told = enriched(known(event), logs or AgentLogs(), own=file.name)
        return Found(
            file,
            told.event,
            from_run_file=from_run_file,
            other_run=None if from_run_file or where.run in self._own_names else where.run,
            nested=not from_run_file and depth(self._path, file) != TRIAL_DEPTH,
            partial=partial,
            origins=told.sources,
            own=told.own,
            hints=told.problems,
        )
