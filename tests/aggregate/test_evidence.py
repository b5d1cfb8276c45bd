"""What the rows of a group say: which outcomes are final, and the attempts at each task."""

from __future__ import annotations

from streamer.folding.slots import GroupId
from streamer.folding.uncertainty import Evidence
from tests.support.events import Event, a_start, a_trial, folded

AGENT = GroupId(None, "terminus", "gpt-5")
CRASH = {"resolved": False, "harness": "terminal-bench", "failure_mode": "unknown_agent_error"}


def evidence(*events: Event, finished: bool = False) -> Evidence:
    run = folded(events)[0].run("run-1").state
    run.count()
    return Evidence(run.groups[AGENT], run.scores.roster.lineup(AGENT), finished=finished)


def test_passes_and_failures_are_known_and_a_start_is_in_flight() -> None:
    found = evidence(a_trial(), a_trial(task_id="b", resolved=False), a_start(task_id="c"))
    assert (found.known, found.passed, found.in_flight) == (2, 1, 1)
    assert sorted(map(str, found.outcomes())) == ["False", "None", "True"]


def test_a_crash_of_the_infrastructure_is_final_only_when_the_run_has_finished() -> None:
    events = (a_trial(), a_trial(task_id="b", **CRASH), a_start(task_id="c"))
    assert (evidence(*events).known, evidence(*events, finished=True).known) == (1, 2)
    assert evidence(*events, finished=True).in_flight == 0


def test_tasks_are_counted_by_attempts_and_passes() -> None:
    events = [
        a_trial(task_id=task, attempt=attempt, resolved=attempt == 1) for task in "ab" for attempt in (1, 2)
    ]
    found = evidence(*events, a_trial(task_id="c"))
    assert sorted(found.successes) == [(1, 1, 1), (2, 1, 2)]
    left = found.attempted(3)
    assert left is not None
    assert sorted(task.missing for task in left) == [1, 2]
    assert found.attempted(1) is None, "a task has more attempts than planned"
