"""Tokens and trajectory length from what an agent leaves beside its trial (E1-E3, E6-E8, R1, R2, R8).

<trial>/agent-logs/*.json    a list of steps; some state the tokens used so far
<trial>/sessions/*.cast      recordings of the terminal, where there is no such list

Costs are not computed here: events carry tokens and the cost that a harness reports; scoring prices the
rest (R2). Cached tokens are left alone: agents that state them count them in `prompt_tokens` as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streamer.sources.cast import cast_length
from streamer.sources.files import FileError, entries, mtime_ns, parse_json, read_bytes

AGENT_LOGS = "agent-logs"
SESSIONS = "sessions"
TOKENS = ("input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class AgentLogs:
    """The values from the logs of one trial. None means that the logs do not have it, never 0 (R1).

    Attributes:
        input_tokens: prompt tokens over the whole trial; as stated, nonsense (below 0) included.
        output_tokens: completion tokens, likewise.
        trajectory_length: steps of the list, else events of the recording (R8).
        sources: for each value that is known, the file it comes from, relative to the trial's directory.
        problems: what the newest files could not tell, and why.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    trajectory_length: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enriched:
    """An event with what the logs add.

    Attributes:
        event: a new event; the one given is untouched.
        sources: where its tokens, cost and trajectory length come from, for those that are known.
        own: what the event given has in the fields that changed, None for nothing.
        problems: as in :class:`AgentLogs`.
    """

    event: dict[str, Any]
    sources: Mapping[str, str]
    own: Mapping[str, Any]
    problems: tuple[str, ...] = ()


def read_agent_logs(
    trial: Path | None,
    *,
    recordings: bool = True,
    main_trial: str | None = None,
    agent_index: int | None = None,
) -> AgentLogs:
    """Read the newest log of a trial, and the newest recording if that gives no steps. Never raises.

    Older files are not tried, as in the harness (E2). Of files written at the same instant the last by
    name counts. Symbolic links are not followed.

    Args:
        trial: the directory of the trial, or of the sub-trial; None: it has none, and so no logs.
        recordings: whether recordings may stand in for a list of steps. The newest recording of a trial may
            belong to its tests, which fc-eval counts all the same (E3).
        main_trial: name of the trial that the sub-trial belongs to, its sibling (G2). Local runs leave the
            recordings of all sub-trials there, named `agent-<index>-<agent>.cast` (E8, G1); its
            agent-logs do not say whose they are, and are left alone.
        agent_index: position of the sub-trial, from 1; needed with `main_trial`.
    """
    if trial is None:
        return AgentLogs()
    logs = _with_list(trial)
    if not recordings:
        return logs
    if not logs.trajectory_length:
        logs = _with_recording(logs, trial, "")
    if not logs.trajectory_length and main_trial is not None and agent_index is not None:
        logs = _with_recording(logs, trial.parent / main_trial, f"agent-{agent_index}-", of=trial)
    return logs


def enriched(event: Mapping[str, Any], logs: AgentLogs, own: str = "results.json") -> Enriched:
    """A `trial_result` event with what the logs know better than the harness's result.

    - Tokens of the logs replace the agent's own if either is above 0 (E6). A reported cost of 0 beside
      them is the harness not knowing, and goes (R2).
    - The trajectory length is the harness's own if that is above 0, since it was read while the files still
      had the times of their writing. Otherwise it comes from the logs. It enters in any case (R8).

    Args:
        event: as the harness's result tells it; unknown fields are absent.
        logs: see :func:`read_agent_logs`.
        own: the file that the event was read from, for `sources`.
    """
    found = dict(event)
    taken: dict[str, int] = {}
    if any((getattr(logs, name) or 0) > 0 for name in TOKENS):
        taken = {name: count for name in TOKENS if (count := getattr(logs, name)) is not None}
        if found.get("cost_usd") == 0:
            del found["cost_usd"]
    if not found.get("trajectory_length") and logs.trajectory_length is not None:
        taken["trajectory_length"] = logs.trajectory_length
    found |= taken
    sources = {
        name: logs.sources[name] if name in taken else own
        for name in (*TOKENS, "cost_usd", "trajectory_length")
        if name in found
    }
    changed = {name: event.get(name) for name in (*taken, "cost_usd") if event.get(name) != found.get(name)}
    return Enriched(found, sources, changed, logs.problems)


class _Unusable(Exception):
    """An entry of a log does not say what it should; the text says why."""


def _with_list(trial: Path) -> AgentLogs:
    """The values from the newest list of steps."""
    file = _newest(trial / AGENT_LOGS, ".json")
    if file is None:
        return AgentLogs()
    name = f"{AGENT_LOGS}/{file.name}"
    try:
        steps = _read_list(file)
    except FileError as error:
        return AgentLogs(problems=(f"{name}: {error}",))
    prompt, completion, problem = _tokens(steps)
    known = {"input_tokens": prompt, "output_tokens": completion, "trajectory_length": len(steps)}
    return AgentLogs(
        prompt,
        completion,
        len(steps),
        {field: name for field, value in known.items() if value is not None},
        (f"{name}: {problem}",) if problem else (),
    )


def _with_recording(logs: AgentLogs, trial: Path, prefix: str, of: Path | None = None) -> AgentLogs:
    """The logs with the length of the newest recording of that prefix; `of`: whose sources they are."""
    file = _newest(trial / SESSIONS, ".cast", prefix)
    if file is None:
        return logs
    name = os.path.relpath(file, of or trial)
    try:
        length = cast_length(file)
    except FileError as error:
        return replace(logs, problems=(*logs.problems, f"{name}: {error}"))
    return replace(logs, trajectory_length=length, sources={**logs.sources, "trajectory_length": name})


def _newest(directory: Path, ending: str, prefix: str = "") -> Path | None:
    """The newest entry of a directory with such a name: a directory, too, as the harness has it (E1)."""
    if os.path.islink(directory):
        return None
    named = [
        Path(entry.path)
        for entry in entries(directory)
        if entry.name.startswith(prefix) and entry.name.endswith(ending) and not entry.is_symlink()
    ]
    return max(named, key=lambda path: (mtime_ns(path), path.name), default=None)


def _read_list(file: Path) -> list[Any]:
    """The list in a JSON file. Raises FileError, also for what the harness cannot read as UTF-8."""
    content = read_bytes(file)
    value, encoding = parse_json(content), json.detect_encoding(content)
    if encoding != "utf-8":
        raise FileError(f"encoded as {encoding}; the harness writes and reads UTF-8 without a mark")
    if not isinstance(value, list):
        raise FileError(f"holds a JSON {type(value).__name__} where a list of steps belongs")
    return value


def _tokens(steps: list[Any]) -> tuple[int | None, int | None, str | None]:
    """Prompt and completion tokens so far as the last step with any states them; and what stopped the scan.

    If all that are stated are 0 or less, the first step's remain (E1, E2).
    """
    prompt: int | None = None
    completion: int | None = None
    for place in reversed(range(len(steps))):
        try:
            if not (usage := _usage(steps[place])):
                continue
            prompt, completion = _count(usage, "prompt_tokens"), None
            completion = _count(usage, "completion_tokens")
        except _Unusable as error:
            return prompt, completion, f"step {place}: {error}"
        if max(prompt or 0, completion or 0) > 0:
            break
    return prompt, completion, None


def _usage(step: Any) -> dict[str, Any]:
    """The accumulated usage that a step states, empty if it states none. Raises _Unusable."""
    value = step
    for key in ("llm_metrics", "accumulated_token_usage"):
        value = _object(value).get(key, {})
    return _object(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unusable(f"found {value!r:.60} where an object belongs")
    return value


def _count(usage: dict[str, Any], name: str) -> int | None:
    """A count as the harness reads it: whole numbers, also in text; floats are cut. Raises _Unusable."""
    if name not in usage:
        return None
    try:
        return int(usage[name])
    except (TypeError, ValueError, OverflowError) as error:
        raise _Unusable(f"{name} is {usage[name]!r:.60}, no count") from error
