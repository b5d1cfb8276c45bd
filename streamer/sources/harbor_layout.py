"""Where harbor keeps its files, as its package 0.25.0 writes them.

<job>/                                   the run's name is that of its directory
  config.json                            what the user asked for; defaults are left out (`Job.run`)
  lock.json                              every planned trial, resolved; not in early versions (`JobLock`)
  result.json                            rewritten whenever a trial starts or ends (`JobResult`)
  job.log
  <task>__<seven random characters>/     one trial; a retry deletes it and writes it again (`TrialQueue`)
    config.json  lock.json  trial.log    when it starts
    agent/trajectory.json                what the agent did, in the format ATIF, if the agent can tell
    steps/<step>/agent/trajectory.json   the same where the task has steps
    verifier/ artifacts/
    result.json                          when it has ended, in place (`Trial._finalize`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from streamer.model_names import label_for_reporting
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import MAX_ARTIFACTS
from streamer.sources.artifacts import TRIAL
from streamer.sources.files import (
    is_directory,
    is_file,
    is_plain,
    objects,
    part,
    peek,
    subdirectories,
    text,
    time_of,
    walk,
)

CONFIG = "config.json"
LOCK = "lock.json"
RESULT = "result.json"
JOB_LOG = "job.log"
TRIAL_LOG = "trial.log"
OWN_FILES = (CONFIG, LOCK, RESULT)
"""Files of a trial that its event is made from."""

WRITTEN_TO = ("agent", "user-agent", "verifier")
"""Directories of a trial, and of each of its steps, that agents and the verifier write to."""

COLLECTED = "artifacts"
"""The directory of what harbor collects from the environment, at any depth."""

NO_RESULTS = frozenset({"agent", "user-agent", "verifier", "artifacts", "steps", ".sources"})
"""Directories inside a job that hold no results of it; `.sources` holds trials of other jobs."""

_JOB_KEYS = {
    CONFIG: {"job_name"},
    LOCK: {"trials", "n_concurrent_trials"},
    RESULT: {"n_total_trials", "stats"},
}
"""What a job's own files hold, and a trial's files of the same names do not."""

_CLOCK_STEP = timedelta(minutes=15)
"""Every time zone is a multiple of this from UTC."""

Planned = tuple[str | None, str | None, str]
"""Agent, model and task of a planned trial."""


def is_job(path: Path) -> bool:
    """Whether a directory is a job's: by its log, by a file of its own, or because trials lie in it."""
    if not is_directory(path) or is_trial(path):
        return False
    files = [path / name for name in (CONFIG, LOCK, RESULT) if is_file(path / name)]
    if files and is_file(path / JOB_LOG):
        return True
    return any(map(_is_of_a_job, files)) or any(map(is_trial, subdirectories(path)))


def is_trial(path: Path) -> bool:
    """Whether a directory is a trial's."""
    if is_file(path / TRIAL_LOG):
        return is_file(path / CONFIG) or is_file(path / RESULT)
    return any("trial_name" in peek(path / name) for name in (CONFIG, RESULT) if is_file(path / name))


def _is_of_a_job(file: Path) -> bool:
    return _JOB_KEYS[file.name] <= peek(file).keys()


def steps_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Results of the steps of a trial whose task has steps; empty otherwise."""
    return objects(result, "step_results")


def step_homes(trial: Path, result: Mapping[str, Any]) -> list[Path]:
    """The directories of these steps, in order."""
    names = (text(step.get("step_name")) for step in steps_of(result))
    return [trial / "steps" / name for name in names if name and is_plain(name)]


def folders_of(trial: Path, result: Mapping[str, Any]) -> Iterator[str]:
    """The directories of a trial whose files are its artifacts, relative to it."""
    homes = [trial, *step_homes(trial, result)]
    yield TRIAL
    yield from ((home / name).relative_to(trial).as_posix() for home in homes for name in WRITTEN_TO)
    for home in homes:
        for directory in islice(walk(home / COLLECTED, lambda _: False), MAX_ARTIFACTS):
            yield directory.relative_to(trial).as_posix()


def planned_trials(lock: Mapping[str, Any]) -> list[Planned]:
    """Every trial that the lock names, in its order."""
    return [
        (*agent_of(part(entry, "agent")), text(part(entry, "task").get("name")) or "")
        for entry in objects(lock, "trials")
    ]


def configured_agents(config: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """Agent and model of each agent that the job's config names."""
    return [agent_of(agent) for agent in objects(config, "agents")]


def agent_of(agent: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Name and model; no name if the agent is given as code, which alone knows its name (`AgentFactory`)."""
    name = text(agent.get("name"))
    return (None if name and ":" in name else name), text(agent.get("model_name"))


def labels(agents: list[tuple[str | None, str | None]]) -> list[str] | None:
    """Labels of the agents, each once; None unless all have a name before they run."""
    if not agents or not all(name for name, _ in agents):
        return None
    return list(dict.fromkeys(label_for_reporting(name or UNKNOWN, model) for name, model in agents))


def attempts(planned: list[Planned]) -> int | None:
    """How often each agent:model tries each task; None if that differs, as in a job that redoes trials."""
    counts = Counter(planned)
    tasks, agents = {task for *_, task in planned}, {(name, model) for name, model, _ in planned}
    even = len(counts) == len(tasks) * len(agents) and len(set(counts.values())) == 1
    return counts[planned[0]] if even else None


def queue_of_each(planned: list[Planned]) -> list[str] | None:
    """The tasks in the order in which each agent starts them; None if that differs, or a task has no name.

    A job runs rounds: each attempt takes all tasks in the same order. So a task stands here once for each
    attempt.

    >>> queue_of_each([("a", "m", "t2"), ("b", "m", "t2"), ("a", "m", "t1"), ("b", "m", "t1")])
    ['t2', 't1']
    """
    queues: dict[tuple[str | None, str | None], list[str]] = {}
    for name, model, task in planned:
        queues.setdefault((name, model), []).append(task)
    first = next(iter(queues.values()), [])
    return first if all(first) and all(queue == first for queue in queues.values()) and first else None


def with_zone(local: Any, same_moment_local: Any, same_moment: Any) -> str | None:
    """A time that harbor wrote in the machine's own time, with its zone.

    A job's own times have none. Its start does, nearly: the lock is made right after it, in UTC.

    >>> with_zone("2026-01-02T12:30:00", "2026-01-02T12:00:00", "2026-01-02T10:00:01Z")
    '2026-01-02T12:30:00+02:00'
    >>> with_zone("2026-01-02T12:30:00", None, None) is None
    True
    """
    utc, here, wanted = time_of(same_moment), _naive(same_moment_local), _naive(local)
    if utc is None or here is None or wanted is None:
        return None
    steps = round((here - utc.astimezone(UTC).replace(tzinfo=None)) / _CLOCK_STEP)
    offset = steps * _CLOCK_STEP
    return wanted.replace(tzinfo=timezone(offset)).isoformat() if abs(offset) < timedelta(days=1) else None


def _naive(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is None else None
