"""Fixtures that several modules of this folder share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.folding.fold import Folding, fold_records
from streamer.schemas.wire import records_of_lines
from tests.conformance.fc_runs import trials, unpacked
from tests.conformance.folds import summaries
from tests.conformance.formulacode_run_directories import RUNS, Run, expected
from tests.support.cli import streamer


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("fc-eval"))


@pytest.fixture(scope="session")
def events(directories: Path) -> list[bytes]:
    done = streamer("convert", "--harness", "fc-eval", directories)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def folding(events: list[bytes]) -> Folding:
    folded = fold_records(records_of_lines(events))
    assert folded.rejected == 0
    assert folded.runs() == sorted(RUNS)
    return folded


@pytest.fixture(scope="session")
def runs(directories: Path, folding: Folding) -> dict[str, Run]:
    result = {}
    for name in RUNS:
        known = expected()[name]
        scored = [json.loads(c.value) for c in folding.pipeline.run(name).take_changes().scored if c.value]
        result[name] = Run(
            name,
            known,
            trials(directories / name, known["agents"], known["multi_agent"]),
            {(s["task_id"], s["attempt"], s["agent_model"]): s for s in scored},
            {s["agent_model"]: s for s in summaries(folding, "agent_model") if s["run_id"] == name},
            next(s for s in summaries(folding, "run") if s["run_id"] == name),
        )
    return result


@pytest.fixture(params=RUNS)
def run(runs: dict[str, Run], request: pytest.FixtureRequest) -> Run:
    return runs[request.param]
