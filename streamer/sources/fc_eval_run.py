"""The results of one fc-eval run, read file by file; the rules are in `fc_eval`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.identity import UNKNOWN
from streamer.sources.agent_logs import AgentLogs, enriched, read_agent_logs
from streamer.sources.base import ConvertOptions, Found, RunPlan, Unreadable
from streamer.sources.fc_eval_layout import (
    METRICS,
    Agent,
    Place,
    agent_of_key,
    configured_agents,
    named_so,
    place,
    result_files,
)
from streamer.sources.fc_eval_payload import reported_cost, sections_of, trajectory_length
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
    has_own_file,
    run_file_results,
)

NAME = "fc-eval"
"""The harness."""

_NO_TASK = "not a trial result: it has no text under `task_id`"
_AGENTS = "agents"
_ENDING = ("task_id", "id", "trial_name", "failure_mode", "trial_started_at", "trial_ended_at")
_NOBODY = Agent(UNKNOWN, None)


@dataclass(slots=True)
class _Trial:
    """A trial as a whole.

    Attributes:
        directory: None if it stands only in the run-level file.
        ending: how it ended, by its own results.json; None if there is none or it cannot be read.
        indices: agents that have a sub-trial in it, readable or not.
    """

    directory: Path | None = None
    ending: dict[str, Any] | None = None
    indices: set[int] = field(default_factory=set)


class RunReading:
    """One reading of a run: remembers which agent of which trial was found."""

    def __init__(self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None) -> None:
        self._path = path
        self._own_names = {plan.run_id, *plan.aliases}
        self._multi, configured = configured_agents(path, plan)
        self._agents: dict[int, Agent] = dict(enumerate(configured, 1))
        self._within = within if configured else None  # else one trial says who the agents of another are
        self._options = options
        self._trials: dict[str, _Trial] = {}

    def files(self) -> list[tuple[Path, Place]]:
        """Results of the run's trials, sub-trials in the agents' order before their trial as a whole."""
        places = {
            file: place(clean_name(file.parent.parent), clean_name(file.parent), self._own_names)
            for file in result_files(self._path, self._within)
        }
        self._multi = self._multi or any(where.agent_index for where in places.values())
        claims = Counter(at.run for file, at in places.items() if depth(self._path, file) == TRIAL_DEPTH)
        if not self._own_names & claims.keys():
            self._own_names.update(run for run, _ in claims.most_common(1) if run)

        def order(item: tuple[Path, Place]) -> tuple[Any, ...]:
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

    def result_file(self, file: Path, where: Place) -> Iterator[Found | Unreadable]:
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
            trial.ending = _ending(result)
            if self._multi:
                return
        yield from self._measured(file, file.parent, result, where)

    def crashed_with_a_file(self) -> Iterator[Found | Unreadable]:
        """Agents without a sub-trial in a trial that has a result of its own nevertheless."""
        for name, trial in self._trials.items():
            if trial.directory and trial.ending and self._multi:
                yield from self._crashed(trial.directory / RESULTS, trial.ending, name)

    def run_file_alone(self) -> Iterator[Found | Unreadable]:
        """Trials that stand only in the run-level file, before any other file was read.

        Nothing where no file says who the agents are: then one trial says who those of another are.
        """
        if self._within is not None:
            yield from self.run_file(alone=True)

    def run_file(self, *, alone: bool = False) -> Iterator[Found | Unreadable]:
        """Trials that stand only in the run-level file, or whose own file cannot be read."""
        file = self._path / RESULTS if is_directory(self._path) else self._path
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

    def _run_file_entry(self, file: Path, result: dict[str, Any]) -> Iterator[Found | Unreadable]:
        where = place(result["task_id"], text(result.get("trial_name")) or "", self._own_names)
        trial = self._trials.setdefault(where.trial, _Trial())
        if trial.ending is not None:
            return
        trial.ending = _ending(result)
        if self._multi or where.agent_index is not None:
            yield from self._crashed(file, trial.ending, where.trial, from_run_file=True)
        else:
            yield from self._measured(file, trial.directory, result, where, from_run_file=True)

    def _measured(
        self,
        file: Path,
        directory: Path | None,
        result: dict[str, Any],
        where: Place,
        *,
        from_run_file: bool = False,
    ) -> Iterator[Found | Unreadable]:
        """The event of one agent's own result. What its logs know better (E1 to E3, E6) belongs in here."""
        agent = self._agent(where, result)
        problems: list[str] = []
        sections = sections_of(result, directory, f"{agent.label}:{agent.model or UNKNOWN}", problems)
        measured = {
            "resolved": result.get("is_resolved"),
            "input_tokens": result.get("total_input_tokens"),
            "output_tokens": result.get("total_output_tokens"),
            "cost_usd": reported_cost(result),
            "trajectory_length": trajectory_length(result),
        }
        yield from (Unreadable(file, problem) for problem in problems)
        logs = read_agent_logs(directory, main_trial=where.trial, agent_index=where.agent_index)
        yield self._found(file, where, agent, result, measured | sections, from_run_file, logs)

    def _crashed(
        self, file: Path, ending: dict[str, Any], name: str, *, from_run_file: bool = False
    ) -> Iterator[Found | Unreadable]:
        """An event without verdict for each agent that has no sub-trial in the trial (R21)."""
        where = place(ending["task_id"], name, self._own_names)
        known_agents: dict[int, Agent] = self._agents or ending[_AGENTS]
        agents: dict[int | None, Agent] = dict(known_agents.items()) or {None: _NOBODY}
        missing = [index for index in agents if index not in self._trials[name].indices]
        if missing and ending[METRICS]:
            which = ", ".join(f"{index}-{agents[index].label}" for index in missing)
            yield Unreadable(
                file,
                f"merged from results of agents whose directories are not beside it ({which}): it has their "
                "numbers only after the harness's fallback, so they count as crashed",
            )
        for index in missing:
            agent = agents[index]
            yield self._found(file, where._replace(agent_index=index), agent, ending, {}, from_run_file)

    def _found(
        self,
        file: Path,
        where: Place,
        agent: Agent,
        result: dict[str, Any],
        measured: dict[str, Any],
        from_run_file: bool,
        logs: AgentLogs | None = None,
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
            origins=told.sources,
            own=told.own,
            hints=told.problems,
        )

    def _agent(self, where: Place, result: dict[str, Any]) -> Agent:
        """Whose result it is: the agent configured at its place, else the one that the result names."""
        named = agent_of_key(part(result, METRICS).get("agent_model_key"))
        agent = self._agents.get(where.agent_index or 1)
        if agent is None or (where.agent_index is not None and not named_so(agent, where.label)):
            agent = named or Agent(where.label or self._options.agent or UNKNOWN, None)
        if agent.model is None and named and named.label == agent.label:
            agent = named
        self._agents.setdefault(where.agent_index or 1, agent)
        return agent


def _ending(result: dict[str, Any]) -> dict[str, Any]:
    """What is remembered of a trial as a whole: how it ended, who took part (D3), whether it was merged."""
    agents = filter(None, map(agent_of_key, part(result, "costs_by_agent_model")))
    return {
        **{name: result.get(name) for name in _ENDING},
        _AGENTS: dict(enumerate(agents, 1)),
        METRICS: bool(result.get(METRICS)),
    }
