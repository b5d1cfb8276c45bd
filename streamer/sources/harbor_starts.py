"""Trials of harbor that have begun: what their result will be called before it is there.

- A trial has begun as soon as its config.json and lock.json are there. harbor takes the time that it later
  calls `started_at` right after it wrote config.json.
- An agent that is given as code names itself in results only. So its starts are known once one of its trials
  has ended.
- A task may have another name in its task.toml than the lock has. It too is known from the first result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from streamer.schemas.identity import UNKNOWN
from streamer.sources.base import ConvertOptions, Found
from streamer.sources.files import clean_name, is_file, mtime_ns, part, peek, subdirectories, text
from streamer.sources.harbor_layout import CONFIG, LOCK, RESULT, agent_of
from streamer.sources.starts import start_of

_RANDOM_PART = "__"
"""What stands in a trial's name between the task and the random characters."""


def start_in(job: Path, trial: Path, options: ConvertOptions) -> Iterator[Found]:
    """The start of a trial without a result, if its files name the slot that the result will fill."""
    config, lock = peek(trial / CONFIG), peek(trial / LOCK)
    name, task = text(config.get("trial_name")), text(part(lock, "task").get("name"))
    if name is None or name != clean_name(trial) or task is None:
        return
    # config.json leaves out what is harbor's default: the agent oracle, say
    asked = part(lock, "agent") or part(config, "agent")
    agent, model = agent_of(asked)
    agent = agent or _name_of_code(asked, _results(subdirectories(job)))
    if agent is None:
        return
    slot = {
        "shard": name,
        "task_id": _name_of_task(config, _results(_same_task(job, trial))) or task,
        "attempt": 1,
        "agent": agent,
        "model": model or options.model or UNKNOWN,
    }
    yield start_of(trial, slot, trial / CONFIG)


def start_of_result(trial: Path, result: Mapping[str, Any], options: ConvertOptions) -> Found:
    """The start of a trial whose result harbor has just begun to fill; the result names the slot."""
    return start_of(trial, slot_of(trial, result, options), trial / CONFIG)


def slot_of(trial: Path, result: Mapping[str, Any], options: ConvertOptions) -> dict[str, Any]:
    """The slot of a trial by its result, finished or not; the result has a text under `task_name`."""
    return {
        "shard": text(result.get("trial_name")) or clean_name(trial),
        "task_id": result["task_name"],
        "attempt": 1,
        "agent": text(part(result, "agent_info").get("name")) or options.agent or UNKNOWN,
        "model": _model(result) or options.model or UNKNOWN,
    }


def _model(result: Mapping[str, Any]) -> str | None:
    asked = text(part(part(result, "config"), "agent").get("model_name"))
    info = part(part(result, "agent_info"), "model_info")
    told = [name for name in (text(info.get("provider")), text(info.get("name"))) if name]
    return asked or ("/".join(told) if text(info.get("name")) else None)


def _name_of_code(agent: Mapping[str, Any], results: Iterable[dict[str, Any]]) -> str | None:
    """How an agent that is given as code calls itself in the first result by it; None without any."""
    code = text(agent.get("import_path")) or text(agent.get("name"))
    for result in results:
        asked = part(part(result, "config"), "agent")
        if code is not None and code in (asked.get("import_path"), asked.get("name")):
            return text(part(result, "agent_info").get("name"))
    return None


def _name_of_task(config: Mapping[str, Any], results: Iterable[dict[str, Any]]) -> str | None:
    """What the first result of the same task calls it; None without any."""
    wanted = part(config, "task")
    for result in results:
        task = part(part(result, "config"), "task")
        if all(task.get(name) == value for name, value in wanted.items()):
            return text(result.get("task_name"))
    return None


def _same_task(job: Path, trial: Path) -> list[Path]:
    """Trials of the job whose names begin as that one's."""
    return _by_beginning(job, mtime_ns(job)).get(_beginning(trial), [])


@lru_cache(maxsize=8)
def _by_beginning(job: Path, _written: int) -> dict[str, list[Path]]:
    """Beginning of a trial's name to the trials; the job's directory is listed once for each change of it."""
    found: dict[str, list[Path]] = {}
    for trial in subdirectories(job):
        found.setdefault(_beginning(trial), []).append(trial)
    return found


def _beginning(trial: Path) -> str:
    return trial.name.rpartition(_RANDOM_PART)[0]


def _results(trials: Iterable[Path]) -> Iterator[dict[str, Any]]:
    return (peek(trial / RESULT) for trial in trials if is_file(trial / RESULT))
