"""fc-eval's run directories: reading them, and copies with other keys or with fewer files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamer.sources.files import ConfiguredAgent, container_key
from tests.sources.builders import Event, converted, copy_tree, once, trials_of

ONE_AGENT = ("fc-multi-of-one", "fc-single-nop", "fc-single-terminus")
SEVERAL_AGENTS = ("fc-no-oracle-same-framework", "fc-nop-oracle-gpt5", "fc-rough", "fc-two-attempts")
CONFIGURATION = ("fc.lock", "run_metadata.json")
ALWAYS = ("task_id", "attempt", "agent", "model", "resolved", "cost_usd", "trajectory_length")
"""Fields of an event that the run-level file has of every agent."""

SUB_TRIAL = re.compile(r"\.agent-(\d+)-")

_RESULT = re.compile("FORMULACODE_RESULT_START(.*?)FORMULACODE_RESULT_END", re.DOTALL)
_KEPT = {"agent_model_key", "agent_metrics_by_agent"}
"""What the harness writes under the agent's own key, whatever spelling the log has."""


def trial_directories(run: Path) -> list[Path]:
    """Directories with an agent's own result: the sub-trials, or the trials where there are none."""
    result = sorted(file.parent for file in run.glob("*/*/results.json"))
    return [path for path in result if SUB_TRIAL.search(path.name)] or result


def by_trial(events: list[Event]) -> dict[tuple[Any, ...], Event]:
    """Task, attempt and index of the agent to its trial."""
    result = {(e["task_id"], e["attempt"], e.get("agent_index")): e for e in trials_of(events)}
    assert len(result) == len(trials_of(events))
    return result


def label_of(event: Event) -> str:
    return f"{event['agent']}:{event['model']}"


def agents_of(run: Path) -> list[ConfiguredAgent]:
    """The agents of a run's lock, in their order."""
    agents = json.loads((run / "fc.lock").read_bytes())["run_spec"]["agents"]
    return [ConfiguredAgent(agent["agent_name"], agent["model_name"]) for agent in agents]


def container_keys(run: Path) -> dict[str, str]:
    """Key of each agent -> the key that its container has (E11)."""
    return {agent.key: container_key(position, agent) for position, agent in enumerate(agents_of(run), 1)}


def rekeyed(run: Path, folder: Path, keys: dict[str, str]) -> Path:
    """A copy of a run, its logs with other keys, in its panes and in what the harness keeps of them."""
    copy = copy_tree(run, folder / run.name)
    for file in copy.rglob("*"):
        if file.name == "results.json":
            content = json.loads(file.read_bytes())
            for result in content.get("results", [content]):
                metrics = result.get("parser_extra_metrics") or {}
                metrics |= {
                    name: _renamed(value, keys) for name, value in metrics.items() if name not in _KEPT
                }
            _rewrite(file, json.dumps(content).encode())
        elif file.name == "post-test.txt":
            text = file.read_bytes().decode("utf-8", "surrogateescape")
            renamed = _RESULT.sub(lambda match: _renamed_block(match[0], keys), text)
            _rewrite(file, renamed.encode("utf-8", "surrogateescape"))
    return copy


def run_level_only(run: Path, folder: Path, *others: str) -> Path:
    """A copy of a run without anything of its trials; `others`: files that stay beside the run-level one."""
    copy = folder / run.name
    copy.mkdir(parents=True)
    for name in ("results.json", *others):
        shutil.copy2(run / name, copy / name)
    return copy


def both(runs: Path, name: str, folder: Path, *others: str) -> tuple[list[Event], list[Event]]:
    """Events of a run with its trial files, and with the run-level one alone."""
    return once(runs / name)[0], converted(run_level_only(runs / name, folder, *others))[0]


def _renamed(value: Any, keys: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {keys.get(name, name): _renamed(item, keys) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, keys) for item in value]
    return keys.get(value, value) if isinstance(value, str) else value


def _renamed_block(block: str, keys: dict[str, str]) -> str:
    """The block on one line, since a terminal wraps lines inside of keys, too (B2)."""
    line = "".join(block.splitlines())
    for key, new in _longest_first(keys.items()):
        line = line.replace(f'"{key}"', f'"{new}"')
    return line


def _longest_first(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)


def _rewrite(file: Path, content: bytes) -> None:
    """Write a file, and leave its time of writing as it was: it is the revision (R17)."""
    times = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
