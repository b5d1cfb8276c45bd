"""The agents of a run of fc-eval, and the agent of each result and of each start (D3, D4, G2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from streamer.schemas.identity import UNKNOWN
from streamer.sources.agent_keys import ConfiguredAgent, Subject, agent_of_key
from streamer.sources.base import ConvertOptions, Found, RunPlan
from streamer.sources.fc_eval_layout import METRICS, TrialName, configured_agents, named_so, place
from streamer.sources.files import FileError, clean_name, part, text
from streamer.sources.starts import start_of
from streamer.sources.terminal_bench_layout import made_first, run_file_results


class Roster:
    """The agents of a run: from its configuration, else from its results.

    Args:
        path: of the run, a directory or a run-level file.
        run_file: the run-level file; need not exist.
        plan: of the run.
        options: what the user asked for.

    Attributes:
        agents: position to agent, from 1. Grows while results are read if no configuration names them.
        is_configured: whether a configuration names them.
        is_multi: whether the run's trials are merged from trials of their agents, or may be.
        trial_size: how many agents each trial has; None where no file says it.
    """

    def __init__(self, path: Path, run_file: Path, plan: RunPlan, options: ConvertOptions) -> None:
        self.is_multi, configured = configured_agents(path, plan)
        self.is_configured = bool(configured)
        self.agents: dict[int, ConfiguredAgent] = dict(enumerate(configured, 1))
        self.trial_size = len(configured) or None
        self._options = options
        if not configured:
            self._learn(run_file, {plan.run_id, *plan.aliases})

    def subject(self, position: int, agent: ConfiguredAgent) -> Subject:
        """The agent as the reader of its log needs it."""
        others = {other.key for place, other in self.agents.items() if place != position}
        return Subject(agent.key, position, others)

    def agent_of(self, where: TrialName, result: dict[str, Any]) -> ConfiguredAgent:
        """The agent of a result: the one configured at its place, else the one that the result names."""
        named = agent_of_key(_named(result))
        position = where.agent_index or 1
        agent = self.agents.get(position)
        if agent is None or (where.agent_index is not None and not named_so(agent, where.label)):
            agent = named or ConfiguredAgent(where.label or self._options.agent or UNKNOWN, None)
        if named and (not self.is_configured or (agent.model is None and named.label == agent.label)):
            agent = named
        self.agents.setdefault(position, agent)
        return agent

    def starts_of(self, trials: Iterable[Path], own_names: Collection[str]) -> Iterator[Found]:
        """The starts of trials without a result; nothing of agents that no file names.

        The agents of a trial run one after the other, each in its directory.

        Args:
            trials: their directories.
            own_names: names of the run; trials of another run are left out.
        """
        for trial in trials:
            task = clean_name(trial.parent)
            where = place(task, clean_name(trial), own_names)
            agent = self._agent_at(where)
            if agent is not None and (where.run is None or where.run in own_names):
                slot = {"task_id": task, "attempt": where.attempt, "agent": agent.label}
                model = agent.model or self._options.model or UNKNOWN
                yield start_of(trial, slot | {"model": model}, *made_first(trial))

    def _agent_at(self, where: TrialName) -> ConfiguredAgent | None:
        """The agent of a trial without a result; None where no file names it, or several share the trial."""
        if where.agent_index is None:
            return None if self.is_multi else self.agents.get(1)
        agent = self.agents.get(where.agent_index)
        return agent if agent is not None and named_so(agent, where.label) else None

    def _learn(self, run_file: Path, own_names: Collection[str]) -> None:
        """Learn the agents from the run-level file. A merged trial lists all agents, the last one's last."""
        try:
            results = run_file_results(run_file)
        except FileError:
            return
        for result in results:
            if not isinstance(result, dict) or not text(result.get("task_id")):
                continue
            last = last_position(result, own_names)
            keys = part(result, "costs_by_agent_model") if last else [_named(result)]
            agents = dict(enumerate(filter(None, map(agent_of_key, keys)), 1))
            self.is_multi = self.is_multi or last is not None
            if agents and last in (None, len(agents)):
                self.agents = agents | self.agents
                self.trial_size = max(len(self.agents), self.trial_size or 0)


def last_position(result: dict[str, Any], own_names: Collection[str]) -> int | None:
    """Position of the agent that ran last, by the trial's name (D2); None if the name says none."""
    return place(result["task_id"], text(result.get("trial_name")) or "", own_names).agent_index


def _named(result: dict[str, Any]) -> Any:
    """The key of the agent that a result names."""
    return part(result, METRICS).get("agent_model_key")
