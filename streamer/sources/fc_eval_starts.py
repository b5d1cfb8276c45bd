"""Trials of fc-eval that have begun: the agents of a trial run one after the other, each in its directory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from streamer.schemas.identity import UNKNOWN
from streamer.sources.base import ConvertOptions, Found
from streamer.sources.fc_eval_layout import place
from streamer.sources.fc_eval_roster import Roster
from streamer.sources.files import clean_name
from streamer.sources.starts import start_of
from streamer.sources.terminal_bench_layout import made_first


def starts_of(
    trials: Iterable[Path], own_names: Collection[str], roster: Roster, options: ConvertOptions
) -> Iterator[Found]:
    """The starts of trials without a result; nothing of agents that no file names.

    Args:
        trials: their directories.
        own_names: names of the run; trials of another run are left out.
        roster: the agents.
        options: what the user asked for.
    """
    for trial in trials:
        task = clean_name(trial.parent)
        where = place(task, clean_name(trial), own_names)
        agent = roster.agent_at(where)
        if agent is not None and (where.run is None or where.run in own_names):
            slot = {"task_id": task, "attempt": where.attempt, "agent": agent.label}
            model = agent.model or options.model or UNKNOWN
            yield start_of(trial, slot | {"model": model}, *made_first(trial))
