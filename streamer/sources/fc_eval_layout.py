"""Where fc-eval keeps its files, and whose a result is by its name (semantics G1, G2, D4, E11).

<run>/                                   the run's name is that of its directory (G5)
  fc.lock (old runs: tb.lock)  run_metadata.json  results.json
  <task>/<task>.<attempt>-of-<n>.<run>/results.json, panes/post-test.txt, ...   a trial
  <task>/<task>.<attempt>-of-<n>.<run>.agent-<K>-<label>/...                    one agent of it, K from 1
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from streamer.schemas.identity import UNKNOWN
from streamer.sources.agent_keys import ConfiguredAgent, model_of, spelled_for_files
from streamer.sources.base import RunPlan
from streamer.sources.files import (
    is_directory,
    is_file,
    objects,
    part,
    peek,
    text,
)
from streamer.sources.terminal_bench_layout import (
    FC_EVAL_LOCK,
    LOCK,
    METADATA,
    RESULTS,
    attempt_and_run,
    is_run_file,
    is_run_place,
    result_files,
)

POST_TEST_PANE = Path("panes", "post-test.txt")
PACKAGE = "fc-eval"
MULTI_AGENT = "multi-agent"
METRICS = "parser_extra_metrics"
"""The one field that a trial has of fc-eval and not of Terminal-Bench (H1)."""

_SUB_TRIAL = re.compile(r"\.agent-([0-9]{1,9})-(.*)\Z", re.DOTALL)


class TrialName(NamedTuple):
    """The parts of a trial's name.

    Attributes:
        trial: name of the trial as a whole: for a sub-trial without the agent's part.
        attempt: from 1.
        run: the run that it belongs to; None if the name has none.
        agent_index: position of the agent in a multi-agent trial, from 1; None for the trial as a whole.
        label: the agent in the spelling of file names (E11); "" for the trial as a whole.
    """

    trial: str
    attempt: int
    run: str | None
    agent_index: int | None = None
    label: str = ""


def place(task_id: str, name: str, own_names: Collection[str]) -> TrialName:
    """Read a trial's name. A run's own name may look like an agent's part, so it is passed in.

    >>> place("a.b", "a.b.2-of-5.run1.agent-3-terminus-2", {"run1"})
    TrialName(trial='a.b.2-of-5.run1', attempt=2, run='run1', agent_index=3, label='terminus-2')
    >>> place("t", "t.1-of-1.my.agent-1-run", {"my.agent-1-run"})
    TrialName(trial='t.1-of-1.my.agent-1-run', attempt=1, run='my.agent-1-run', agent_index=None, label='')
    """
    attempt, rest = attempt_and_run(task_id, name)
    for own in sorted(own_names, key=len, reverse=True):
        if rest == own:
            return TrialName(name, attempt, rest)
        match = _SUB_TRIAL.match(rest, len(own)) if rest and rest.startswith(own) else None
        if match:
            break
    else:
        match = _SUB_TRIAL.search(rest or "")
    if rest is None or match is None:
        return TrialName(name, attempt, rest)
    return TrialName(name[: -len(match[0])], attempt, rest[: match.start()] or None, int(match[1]), match[2])


def is_fc_eval(path: Path) -> bool:
    """Whether a directory or a run-level file is a run of fc-eval rather than of Terminal-Bench."""
    if is_file(path):
        return is_run_file(path) and _entries_are_fc_evals(path)
    if is_file(path / FC_EVAL_LOCK):
        return True
    if not is_run_place(path):
        return False
    if part(peek(path / LOCK), "harness").get("package") == PACKAGE:
        return True
    results = filter(None, map(peek, result_files(path, None, sub_trials=True)))
    return METRICS in next(results, {}) or _entries_are_fc_evals(path / RESULTS)


def _entries_are_fc_evals(run_file: Path) -> bool:
    return any(METRICS in entry for entry in objects(peek(run_file), "results"))


def named_so(agent: ConfiguredAgent, label: str) -> bool:
    """Whether a label out of a file name is the agent's."""
    return label in (agent.label, spelled_for_files(agent.label))


def configured_agents(run: Path, plan: RunPlan) -> tuple[bool, list[ConfiguredAgent]]:
    """Whether several agents share a trial, and the agents in their order (D4); [] if nothing says so."""
    home = run if is_directory(run) else run.parent
    has_lock = is_directory(run) or run.name == RESULTS
    lock = (peek(home / FC_EVAL_LOCK) or peek(home / LOCK)) if has_lock else {}
    names = (part(lock, "agent").get("name"), peek(home / METADATA).get("agent_name") if has_lock else None)
    multi = part(lock, "run_spec").get("agent_mode") == "multi" or MULTI_AGENT in names
    if not multi:
        return False, [ConfiguredAgent(plan.agent, plan.model)] if plan.agent else []
    configurations = (
        part(lock, "run_spec").get("agents")
        or part(part(lock, "agent"), "extra_kwargs").get("multi_agent_agents")
        or []
    )
    return True, [_agent(one) for one in configurations] if isinstance(configurations, list) else []


def _agent(configuration: Any) -> ConfiguredAgent:
    known = configuration if isinstance(configuration, dict) else {}
    path = text(known.get("agent_import_path"))
    label = text(known.get("agent_name")) or (path.replace(":", ".") if path else None)
    return ConfiguredAgent(label or UNKNOWN, model_of(label or UNKNOWN, text(known.get("model_name"))))
