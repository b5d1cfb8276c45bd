"""Trials of fc-eval that have begun: those whose agent a file names, and of this run alone."""

from __future__ import annotations

from pathlib import Path

from streamer.sources.base import ConvertOptions, RunPlan
from streamer.sources.fc_eval import Roster
from streamer.sources.files import ConfiguredAgent

OPTIONS = ConvertOptions(model="asked-for")


def a_roster(run: Path, *agents: ConfiguredAgent, multi: bool = False) -> Roster:
    roster = Roster(run, run / "results.json", RunPlan("run1"), OPTIONS)
    roster.agents, roster.is_multi = dict(enumerate(agents, 1)), multi
    return roster


def starts(run: Path, names: list[str], roster: Roster) -> list[dict[str, object]]:
    trials = [run / "t" / name for name in names]
    for trial in trials:
        (trial / "sessions").mkdir(parents=True)
    return [found.event for found in roster.starts_of(trials, {"run1"})]


def test_a_trial_of_one_agent_starts_with_its_directories(tmp_path: Path) -> None:
    [start] = starts(tmp_path, ["t.2-of-5.run1"], a_roster(tmp_path, ConfiguredAgent("terminus", None)))
    assert {name: start[name] for name in ("type", "task_id", "attempt", "agent", "model")} == {
        "type": "trial_started",
        "task_id": "t",
        "attempt": 2,
        "agent": "terminus",
        "model": "asked-for",
    }
    assert str(start["started_at"]).startswith("20")


def test_of_several_agents_only_the_one_that_the_directory_names_has_started(tmp_path: Path) -> None:
    roster = a_roster(tmp_path, ConfiguredAgent("nop", "nop"), ConfiguredAgent("terminus", "m"), multi=True)
    names = ["t.1-of-1.run1", "t.1-of-1.run1.agent-2-terminus", "t.1-of-1.run1.agent-3-nobody"]
    assert [(start["agent"], start["model"]) for start in starts(tmp_path, names, roster)] == [
        ("terminus", "m")
    ]


def test_trials_of_another_run_are_left_out(tmp_path: Path) -> None:
    roster = a_roster(tmp_path, ConfiguredAgent("terminus", "m"))
    assert starts(tmp_path, ["t.1-of-1.another"], roster) == []
