"""A run as leaderboards that pool runs need it, from what Redis holds of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamer.client.comparison import tasks_in
from streamer.client.lifecycle import is_over
from streamer.client.results import BoardRun, UnknownBenchmark
from streamer.redis.entry import TASKS
from streamer.redis.keys import Keys
from streamer.schemas.summaries import AgentModelSummary, RunSummary

Parse = Callable[[type[Any], str, bytes], Any]

MOST_BOARD_RUNS = 400
"""So many runs, the latest ones, stand on leaderboards that pool runs."""


def is_chosen(run: RunSummary, benchmark: str | None, labels: Mapping[str, str]) -> bool:
    """Whether a board that is narrowed to a benchmark (None: to none) and to labels has this run."""
    return benchmark in (None, run.benchmark) and labels.items() <= run.labels.items()


def require_benchmark(benchmark: str, runs: Iterable[RunSummary]) -> None:
    """Raises UnknownBenchmark if no run names this benchmark."""
    known = {run.benchmark for run in runs if run.benchmark}
    if benchmark not in known:
        raise UnknownBenchmark(benchmark, known)


def kinds_of(run: RunSummary) -> tuple[str, ...]:
    """The kinds of keys that are read of a run; tasks are pooled once it is over."""
    return ("run", "agent_model", TASKS) if is_over(run) else ("run", "agent_model")


def board_run(keys: Keys, run_id: str, stored: Mapping[str, Any], parsed: Parse) -> BoardRun | None:
    """The run from the values by key suffix; None: it was deleted in the meantime.

    Args:
        parsed: reads a published value.

    Raises:
        UnreadableSummary: a value is not what this version understands.
    """
    value = stored.get("run")
    if value is None:
        return None
    run = parsed(RunSummary, keys.run(run_id), value)
    agents = [
        parsed(AgentModelSummary, keys.of_run(run_id, suffix), value)
        for suffix, value in stored.items()
        if suffix.startswith("agent_model:") and value is not None
    ]
    tasks = tasks_in(keys.tasks(run_id), stored.get(TASKS) or [])
    return BoardRun(run, sorted(agents, key=lambda agent: agent.agent_model), tasks)
