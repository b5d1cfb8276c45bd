"""swebench itself: its reports have the counts that the connector gives, and it selects what is left."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from streamer.operate.unfinished import COMMANDS, unfinished_in
from tests.sources.builders import converted, trials_of
from tests.sources.swe_bench import REPORT, unpack_runs
from tests.support.events import folded
from tests.support.peers import peer_environment, run_in_peer

pytestmark = pytest.mark.peer

RECORDER = Path(__file__).parent / "record.py"


def test_the_recording_is_what_swebench_writes(tmp_path: Path) -> None:
    swebench = peer_environment("swebench==5.0.2", with_base=False)
    now = tmp_path / "now"
    now.mkdir()
    run_in_peer(swebench, "python", RECORDER, cwd=now)
    recorded = unpack_runs(tmp_path / "recorded")
    report = json.loads((now / REPORT).read_text())
    assert report == json.loads((recorded / REPORT).read_text())
    events, said = converted(now / REPORT)
    resolved = [event["task_id"] for event in trials_of(events) if event.get("resolved")]
    assert sorted(resolved) == report["resolved_ids"]
    assert len(trials_of(events)) == report["submitted_instances"]
    assert not said.unreadable + said.left_out


SELECTION = """
import ast, inspect, swebench.harness.run_evaluation as run
run._docker_client = run.make_run_report = lambda *_: None
run.run_instances = lambda _, instances, *__, **___: print("RUNS", *(one["instance_id"] for one in instances))
[*_, program] = ast.parse(inspect.getsource(run)).body
exec(compile(ast.Module(program.body, []), "program", "exec"), vars(run))
"""
"""swebench's own program, without its last step: in place of containers it prints what it would run."""


def test_swebench_selects_what_is_left_and_nothing_else(tmp_path: Path) -> None:
    """R33. An instance without a prediction is left, but the harness has nothing to run of it."""
    swebench = peer_environment("swebench==5.0.2", with_base=False)
    home = unpack_runs(tmp_path)
    events = converted(home / REPORT)[0]
    ids = [{"instance_id": task} for task in events[0]["tasks"]]
    (home / "instances.json").write_text(json.dumps(ids))
    submitted = [one | {"model_name_or_path": "acme/solver-1.5", "model_patch": "x"} for one in ids]
    without = [one for one in submitted if not one["instance_id"].startswith("pylint")]
    (home / "preds.json").write_text(json.dumps(without))
    run = folded([events[0] | {"benchmark": "instances.json"}, *events[1:]])[0].run("nightly")
    left = unfinished_in(run.state)
    removal, command = COMMANDS["swe-bench"](left, "preds.json").lines
    subprocess.run(shlex.split(removal), cwd=home, check=True)
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "swebench.harness.run_evaluation"]
    said = run_in_peer(swebench, "python", "-c", SELECTION, *words[3:], cwd=home).stdout
    [runs] = [line.split()[1:] for line in said.splitlines() if line.startswith("RUNS")]
    assert set(runs) == {"flask__flask-1", "flask__flask-2", "sympy__sympy-1"}
    assert {trial.task_id for trial in left.trials} == {*runs, "pylint__pylint-1"}
