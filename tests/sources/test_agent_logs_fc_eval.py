"""Real fc-eval runs: logs say what the harness made of them, and stand in where it has not (E6-E8, G1)."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streamer.folding.score.prices import PriceTable
from streamer.sources.files import AgentLogs, read_agent_logs
from tests.sources.builders import Event, converted, trials_of
from tests.support.data import shared_data

RUNS = {"fc-rough": 32, "fc-single-terminus": 23, "fc-multi-of-one": 8}
"""Run to how many of its trials have a log or a recording."""

PRICED = {"fc-single-terminus": 15, "fc-nop-oracle-gpt5": 19, "fc-two-attempts": 16}
"""Run of models that fc-eval has a price for, to how many of its trials have a log with tokens."""

SUB_TRIAL = re.compile(r"\.agent-(\d+)-")
NUMBERS = ("input_tokens", "output_tokens", "trajectory_length")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real run directories."""
    folder = tmp_path_factory.mktemp("runs")
    with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (home,) = {path.parent.parent for path in folder.rglob("fc.lock")}
    return home


def trial_directories(run: Path) -> list[Path]:
    """Directories of the agents themselves: the sub-trials, or the trials where there are none."""
    found = sorted(file.parent for file in run.glob("*/*/results.json"))
    return [path for path in found if SUB_TRIAL.search(path.name)] or found


def by_id(events: Iterable[Event]) -> dict[str, Event]:
    return {event["trial_id"]: event for event in trials_of(events) if event.get("agent_index", 1)}


def without_artifacts(events: dict[str, Event]) -> dict[str, Event]:
    return {key: event | {"artifacts": None} for key, event in events.items()}


def result_of(directory: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((directory / "results.json").read_bytes())
    return result


def rewrite(directory: Path, **fields: Any) -> None:
    (directory / "results.json").write_text(json.dumps(result_of(directory) | fields))


def without_what_the_harness_read(run: Path, copy: Path) -> Path:
    """A copy in which no result has tokens, cost or length yet: as it is first written (G3)."""
    shutil.copytree(run, copy)
    for directory in trial_directories(copy):
        metrics = result_of(directory).get("parser_extra_metrics")
        if metrics is not None:
            metrics.pop("trajectory_length", None)
        unread = {"total_input_tokens": None, "total_output_tokens": None, "total_cost": None}
        rewrite(directory, **unread, parser_extra_metrics=metrics)
    return copy


@pytest.mark.parametrize("name", RUNS)
def test_reading_the_logs_changes_nothing_where_the_harness_has_read_them(runs: Path, name: str) -> None:
    events = by_id(converted(runs / name)[0])
    for directory in trial_directories(runs / name):
        result = result_of(directory)
        event = events[result["id"]]
        assert event.get("input_tokens") == result["total_input_tokens"]
        assert event.get("output_tokens") == result["total_output_tokens"]
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]


@pytest.mark.parametrize("name", RUNS)
def test_the_logs_give_what_the_harness_reads_from_them_before_it_does(
    runs: Path, name: str, tmp_path: Path
) -> None:
    events = by_id(converted(without_what_the_harness_read(runs / name, tmp_path / name))[0])
    with_logs = 0
    for directory in trial_directories(runs / name):
        logs = read_agent_logs(directory)
        result = result_of(directory)
        event = events[result["id"]]
        if logs == AgentLogs():
            assert not event.keys() & {*NUMBERS, "cost_usd"}
            continue
        with_logs += 1
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]
        if logs.input_tokens is not None:
            assert event["input_tokens"] == result["total_input_tokens"]
            assert event["output_tokens"] == result["total_output_tokens"]
        assert "cost_usd" not in event
    assert with_logs == RUNS[name]


@pytest.mark.parametrize("name", PRICED)
def test_the_price_of_logged_tokens_is_the_cost_that_the_harness_states(runs: Path, name: str) -> None:
    priced = 0
    for directory in trial_directories(runs / name):
        logs, result = read_agent_logs(directory), result_of(directory)
        if logs.input_tokens is not None:
            model = result["parser_extra_metrics"]["agent_model_key"].partition(":")[2]
            cost = PriceTable.default().cost(model, logs.input_tokens, logs.output_tokens)
            assert cost == pytest.approx(result["total_cost"], rel=1e-9)
            priced += 1
    assert priced == PRICED[name]


def test_a_recording_that_a_local_run_left_with_the_trial_as_a_whole_is_the_sub_trials(
    runs: Path, tmp_path: Path
) -> None:
    run = without_what_the_harness_read(runs / "fc-rough", tmp_path / "fc-rough")
    expected = by_id(converted(run)[0])
    moved = 0
    for cast in sorted(run.glob("*/*.agent-*/sessions/agent-*.cast")):
        sub_trial = cast.parents[1]
        main = sub_trial.with_name(SUB_TRIAL.split(sub_trial.name)[0]) / "sessions"
        main.mkdir(parents=True, exist_ok=True)
        shutil.move(cast, main / cast.name)
        moved += 1
    assert moved > 0
    events, report = converted(run)
    assert without_artifacts(by_id(events)) == without_artifacts(expected)
    sources = {file for found in report.explanations for _, file in found.values.values()}
    assert any(source.startswith("../") and "/sessions/agent-" in source for source in sources)


def test_each_number_of_a_real_trial_names_its_file(runs: Path) -> None:
    _, report = converted(runs / "fc-single-terminus")
    assert len(report.explanations) == report.trials
    sources = {file for found in report.explanations for _, file in found.values.values() if file}
    assert sources == {"results.json", "agent-logs/trajectory.json"}
    assert not [found.hints for found in report.explanations if found.hints]
