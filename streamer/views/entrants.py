"""Which agent of which run a text names: RUN, RUN/AGENT:MODEL, or in a file with one run AGENT:MODEL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from streamer.aggregate.comparisons import compared_agents
from streamer.aggregate.contestant import Contestant
from streamer.aggregate.keys import GroupId
from streamer.aggregate.run_state import RunState
from streamer.text import visible
from streamer.views.gate import Entrant

SHOWN = 5


class NoSuchSide(Exception):
    """There is no such run or agent, or a text names several."""


def possible_runs(text: str) -> list[str]:
    """Every run that a text may name, the longest id first: ids and models may hold slashes.

    >>> possible_runs("nightly/terminus:openai/gpt-5")
    ['nightly/terminus:openai/gpt-5', 'nightly']
    """
    return [run_id for run_id, _ in _readings(text)]


def entrant(source: str, text: str, runs: Mapping[str, RunState], *, fixed: bool) -> Entrant:
    """The side that a text names.

    Args:
        source: what the side is called.
        text: what names it; in a file "" is its only run.
        runs: those that are known.
        fixed: nothing more comes: what is missing now is an error.

    Raises:
        NoSuchSide: it names none, though nothing more comes; or several agents.
    """
    found = next(((runs[name], label) for name, label in _readings(text) if name in runs), None)
    if found is None and fixed and len(runs) == 1 and (":" in text or not text):
        found = next(iter(runs.values())), text
    if found is None:
        if fixed:
            raise NoSuchSide(_no_run(source, text, runs))
        return Entrant(source, None)
    run, label = found
    group = _agent(source, run, label, fixed=fixed)
    trials = None if group is None else Contestant(run, group, fixed=fixed)
    return Entrant(source, trials, run.run_id)


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Run and label, the longest run first; a label has a colon."""
    yield text, ""
    for at in range(len(text) - 1, 0, -1):
        if text[at] == "/" and ":" in text[at + 1 :]:
            yield text[:at], text[at + 1 :]


def _agent(source: str, run: RunState, label: str, *, fixed: bool) -> GroupId | None:
    """The agent of that label, or the only one that is no baseline; None: it may still come."""
    run.count()
    over = fixed or run.plan.finished is not None
    if label:
        named = {group.agent_model: group for group in _every_agent(run)}
        if label not in named and over:
            raise NoSuchSide(_no_agent(source, run, label, [name for name in named if name]))
        return named.get(label)
    agents = compared_agents(run)
    if len(agents) > 1 or (over and not agents):
        names = [group.agent_model or "" for group in agents]
        raise NoSuchSide(
            f"{visible(source)} has {len(agents)} agents that are no baselines"
            + (f"; name one: {source}/AGENT:MODEL, of {_listed_names(names)}" if names else "")
        )
    return agents[0] if agents else None


def _every_agent(run: RunState) -> set[GroupId]:
    """Every agent:model of a run, baselines and planned ones too."""
    seen = {group for group in run.scores.roster.groups() if group.agent and group.tier is None}
    return seen | {GroupId(None, agent, model) for agent, model in run.plan.agent_models()}


def _no_agent(source: str, run: RunState, label: str, known: Collection[str]) -> str:
    close = get_close_matches(label, known, n=SHOWN, cutoff=0.4)
    known_names = _listed_names(sorted(known)) or "none"
    hint = f"Did you mean {_listed_names(close)}?" if close else f"It has {known_names}."
    return f"run {run.run_id!r} of {source} has no agent {label!r}. {hint}"


def _no_run(source: str, text: str, runs: Mapping[str, RunState]) -> str:
    known = sorted(runs)
    if text:
        return f"{source} holds no run or agent {text!r}. Its runs: {_listed_names(known) or 'none'}"
    if not known:
        return f"{source} holds no run. `streamer fold {source}` says what is wrong with its lines"
    return f"{source} holds {len(known)} runs; name one: {source}/RUN, of {_listed_names(known)}"


def _listed_names(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ..."
