"""R7: an agent finds its numbers in a log that spells its key in the harness's other spelling (E11)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.folding.fold import fold_records
from streamer.schemas.wire import records_of_lines
from tests.conformance.fc_runs import block, trials, unpacked
from tests.conformance.folds import digests
from tests.conformance.formulacode_keys import file_spelling, own_key
from tests.conformance.formulacode_rules import Json, ruled
from tests.conformance.formulacode_run_directories import RUNS, expected
from tests.support.cli import streamer

Spelling = Callable[[int, str], str]
"""Position and key of an agent as configured -> its key in the log."""

GPT_5, SONNET = "terminus-2:openai/gpt-5", "terminus-2:anthropic/claude-sonnet-4-20250514"
CONFIGURED = [GPT_5, SONNET]


def bare(_index: int, key: str) -> str:
    """`terminus-2:openai-gpt-5`"""
    agent, _, model = key.partition(":")
    return f"{file_spelling(agent)}:{file_spelling(model)}"


def positioned(index: int, key: str) -> str:
    """`agent-3-terminus-2:openai-gpt-5`, what the harness hands to the container."""
    return f"agent-{index}-{bare(index, key)}"


SPELLINGS = [pytest.param(bare, id="without position"), pytest.param(positioned, id="with position")]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("slashes"))


def rekeyed(directory: Path, spelling: Spelling) -> Path:
    """The run directories in place, with other keys in every log that has results."""
    changed = 0
    for name in RUNS:
        agents = [f"{agent['agent_name']}:{agent['model_name']}" for agent in expected()[name]["agents"]]
        named = {key: spelling(index, key) for index, key in enumerate(agents, 1)}
        for log in (directory / name).rglob("post-test.txt"):
            changed += rewrite(log, partial(renamed, named=named))
    assert changed > 300
    return directory


def renamed(result: Json, named: dict[str, str]) -> Json:
    """A RESULT block with other keys of its agents."""
    by_agent = ("per_benchmark_speedups_by_agent", "agent_advantages_by_agent")
    found = dict(result)
    for name in by_agent:
        if isinstance(found.get(name), dict):
            found[name] = {named.get(key, key): value for key, value in found[name].items()}
    if "last_agent" in found:
        found["last_agent"] = named.get(found["last_agent"], found["last_agent"])
    return found


def rewrite(log: Path, change: Callable[[Json], Json]) -> bool:
    """Change the RESULT block of a log, if it has one; no other byte, and not its time."""
    text = log.read_bytes().decode("utf-8", "surrogateescape")
    result = block(text, "RESULT")
    if not isinstance(result, dict):
        return False
    before, start, rest = text.partition("FORMULACODE_RESULT_START")
    _, end, after = rest.partition("FORMULACODE_RESULT_END")
    changed = f"{before}{start}\n{json.dumps(change(result))}\n{end}{after}"
    log.write_bytes(changed.encode("utf-8", "surrogateescape"))
    return True


def converted(*arguments: object) -> tuple[list[bytes], str]:
    """What `streamer convert` prints, and says."""
    done = streamer("convert", "--harness", "fc-eval", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.splitlines(), done.stderr.decode()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_rulings_find_every_agent_in_both_spellings(
    tmp_path: Path, original: Path, spelling: Spelling
) -> None:
    """The reimplementation alone, run by run."""
    other = rekeyed(Path(shutil.copytree(original, tmp_path / "runs")), spelling)
    for name in RUNS:
        known = expected()[name]
        both = [trials(folder / name, known["agents"], known["multi_agent"]) for folder in (original, other)]
        numbers = [[repr(ruled(sub, trial.subs)) for trial in held for sub in trial.subs] for held in both]
        assert numbers[0] == numbers[1]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_run_rekeyed_from_one_spelling_to_the_other_folds_to_the_same_digests(
    tmp_path: Path, original: Path, spelling: Spelling
) -> None:
    other = rekeyed(Path(shutil.copytree(original, tmp_path / "runs")), spelling)
    folds = [fold_records(records_of_lines(converted(folder)[0])) for folder in (original, other)]
    assert digests(folds[0]) == digests(folds[1])


# The guard: the other model of the same framework is another agent


@pytest.mark.parametrize("key", [GPT_5, bare(1, GPT_5), positioned(1, GPT_5)])
def test_an_agent_never_takes_the_numbers_of_the_other_model_of_its_framework(
    tmp_path: Path, original: Path, key: str
) -> None:
    """The log of the second agent has the numbers of the first alone: the second wrote none."""
    name = "fc-no-oracle-same-framework"
    trial = "astropy_astropy_no-4"
    directory = Path(shutil.copytree(original / name, tmp_path / name))
    (log,) = (directory / trial).glob("*.agent-2-*/panes/post-test.txt")

    def left(result: Json) -> Json:
        numbers = result["per_benchmark_speedups_by_agent"][GPT_5]
        return {"per_benchmark_speedups_by_agent": {key: numbers}, "last_agent": key}

    assert rewrite(log, left)
    for file in (directory / "results.json", *(directory / trial).glob("*/results.json")):
        file.write_text(json.dumps(without(json.loads(file.read_text()), SONNET)))
    own = log.parents[1] / "results.json"
    own.write_text(own.read_text().replace(json.dumps(GPT_5), json.dumps(key)))
    assert own_key([key], key, SONNET, 2, CONFIGURED) is None
    lines, said = converted(directory)
    events = [event for event in map(json.loads, lines) if event.get("task_id") == trial]
    measured = {event["agent_index"]: event.get("benchmarks") for event in events}
    assert measured[1] is not None
    assert measured[2] is None
    assert key in said


def without(value: Any, key: str) -> Any:
    """JSON in which no object has the key: fc-eval, which found nothing, wrote nothing (D5)."""
    if isinstance(value, dict):
        return {name: without(held, key) for name, held in value.items() if name != key}
    return [without(held, key) for held in value] if isinstance(value, list) else value


# The order of the ways in which a key is found


@pytest.mark.parametrize(
    ("keys", "last_agent", "found"),
    [
        ([SONNET, bare(2, SONNET)], None, SONNET),
        (
            ["terminus-2:@anthropic/claude-sonnet-4-20250514"],
            None,
            "terminus-2:@anthropic/claude-sonnet-4-20250514",
        ),
        ([bare(2, SONNET)], None, bare(2, SONNET)),
        ([positioned(2, SONNET)], None, positioned(2, SONNET)),
        ([positioned(2, SONNET), bare(2, SONNET)], None, None),
        ([positioned(1, SONNET)], None, None),
        (["terminus-2:claude", "terminus-2:x"], "terminus-2:claude", "terminus-2:claude"),
        (["terminus-2:claude", "terminus-2:x"], "openhands:x", None),
        (["terminus-2:claude", "openhands:x"], "openhands:x", "terminus-2:claude"),
        (["agent-2-terminus-2:claude"], None, "agent-2-terminus-2:claude"),
        (["agent-1-terminus-2:claude"], "agent-1-terminus-2:claude", None),
        ([positioned(1, GPT_5)], positioned(1, GPT_5), None),
        ([bare(1, GPT_5)], bare(1, GPT_5), None),
        ([], SONNET, None),
    ],
)
def test_the_second_agent_finds_its_key(keys: list[str], last_agent: str | None, found: str | None) -> None:
    assert own_key(keys, last_agent, SONNET, 2, CONFIGURED) == found
