"""Long names are cut so that two never become one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.base import MAX_NAME_CHARACTERS
from streamer.sources.base import with_short_names
from tests.sources.builders import a_result, a_run, converted, trials_of

LONG = "the same beginning of a name " * 12


def test_long_names_are_cut_so_that_two_never_become_one(tmp_path: Path) -> None:
    results = [
        a_result(task_id=f"t{n}", trial_name=f"t{n}.1-of-1.run1", failure_mode=LONG + str(n)) for n in (1, 2)
    ]
    events, report = converted(a_run(tmp_path / "run1", results))
    first, second = (trial["failure_mode"] for trial in trials_of(events))
    assert len(first) == len(second) == MAX_NAME_CHARACTERS
    assert first != second
    assert first.startswith(LONG[:115] + "~")
    assert [(name, "longer than 128" in reason) for _, name, reason in report.cut] == [
        ("failure_mode", True)
    ] * 2
    assert (report.left_out, report.unreadable) == ([], [])


def test_a_long_name_is_cut_alike_in_trials_and_in_their_plan(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, _ = converted(run, agent=LONG, model=f"openai/{LONG}")
    [trial] = trials_of(events)
    [plan] = [event for event in events if event["type"] == "run_started"]
    assert plan["agent_models"] == [f"{trial['agent']}:{trial['model']}"]
    assert len(trial["agent"]) == len(trial["model"]) == MAX_NAME_CHARACTERS


def test_a_name_of_128_characters_is_sent_as_it_is(tmp_path: Path) -> None:
    events, report = converted(a_run(tmp_path / "run1", [a_result(failure_mode="é" * 128)]))
    assert [trial["failure_mode"] for trial in trials_of(events)] == ["é" * 128]
    assert report.cut == []


@given(st.text(min_size=129, max_size=300), st.text(min_size=129, max_size=300))
def test_different_long_names_stay_different(one: str, other: str) -> None:
    cut = [with_short_names({"agent": name})[0]["agent"] for name in (one, other)]
    assert (cut[0] == cut[1]) == (one == other)
    assert {len(name) for name in cut} == {MAX_NAME_CHARACTERS}
