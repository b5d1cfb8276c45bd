"""The length of an agent's way in harbor's trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import Event, converted, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result


def a_step(source: str, **fields: Any) -> Event:
    return {"source": source, "message": "x", **fields}


@pytest.mark.parametrize(
    ("files", "length"),
    [
        ({"agent/trajectory.json": {"steps": [a_step("user"), a_step("agent")]}}, 1),
        ({"agent/trajectory.json": {"steps": []}}, 0),
        (
            {
                "agent/trajectory.json": {
                    "steps": [a_step("agent"), a_step("agent")],
                    "continued_trajectory_ref": "trajectory.cont-1.json",
                },
                "agent/trajectory.cont-1.json": {
                    "steps": [a_step("agent", is_copied_context=True), a_step("agent")],
                    "continued_trajectory_ref": "trajectory.json",
                },
            },
            3,
        ),
        ({"agent/trajectory.json": {"steps": [], "continued_trajectory_ref": "../../secret.json"}}, 0),
        ({"agent/trajectory.json": {"steps": "many"}}, None),
        ({"agent/trajectory.json": "{"}, None),
        ({"agent/other.json": {"steps": []}}, None),
    ],
)
def test_the_length_is_the_agents_own_steps_continuations_included(
    tmp_path: Path, files: dict[str, Any], length: int | None
) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    for name, content in files.items():
        write_json(job / "t0" / name, content)
    events, report = converted(job)
    assert trials_of(events)[0].get("trajectory_length") == length
    (explanation,) = report.explanations
    assert bool(explanation.hints) == (length is None and "agent/trajectory.json" in files)


def test_steps_that_share_a_conversation_or_lack_one_have_no_length(tmp_path: Path) -> None:
    steps = [{"step_name": "a"}, {"step_name": "b"}, {"step_name": "../c"}]
    job = a_job(tmp_path / "job", a_trial_result(step_results=steps))
    write_json(job / "t0" / "steps" / "a" / "agent" / "trajectory.json", {"steps": [a_step("agent")]})
    _, report = converted(job)
    assert report.explanations[0].hints == ("no length: only 1 of 3 steps have a trajectory.json",)
    resumed = {"agent": {"name": "codex", "resume_trajectory": True}}
    write_json(job / "t0" / "result.json", a_trial_result(step_results=steps, config=resumed))
    _, report = converted(job)
    assert "overlap" in report.explanations[0].hints[0]
