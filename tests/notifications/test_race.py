"""Who can no longer be overtaken, and whether a target is met: by hard bounds alone."""

from __future__ import annotations

from typing import Any

from streamer.folding.fold import fold_records
from streamer.operate.notices import Decider, Leader, Notification, Race, Rules, Settled
from streamer.schemas.wire import canonical_json, records_of_lines
from tests.notifications.watching import NOW
from tests.support.events import Event, a_plan, a_trial

TASKS = [f"t{n}" for n in range(10)]
PLAN = a_plan(tasks=TASKS, attempts=1)


def trials(agent: str, passed: int, failed: int) -> list[Event]:
    outcomes = [True] * passed + [False] * failed
    return [
        a_trial(agent=agent, task_id=task, resolved=ok) for task, ok in zip(TASKS, outcomes, strict=False)
    ]


def summaries(*events: Event) -> list[dict[str, Any]]:
    """Agents by name, the run last."""
    folding = fold_records(records_of_lines(map(canonical_json, events)))
    kinds = ("agent_model", "run")
    return [change.summary or {} for change in folding.summaries() if change.kind in kinds]


def race(*events: Event) -> tuple[Race, dict[str, Any]]:
    *agents, run = summaries(*events)
    found = Race()
    for agent in agents:
        found.hear(agent)
    return found, run


def leader(*events: Event) -> Leader | None:
    found, run = race(*events)
    return found.leader(run)


def test_an_agent_leads_for_good_if_its_lower_bound_is_above_every_other_upper_bound() -> None:
    others = trials("b", 1, 5), trials("c", 0, 6)
    assert leader(PLAN, *trials("a", 6, 0), *others[0], *others[1]) == Leader("a:gpt-5", 0.6, 0.5)
    assert leader(PLAN, *trials("a", 5, 0), *others[0], *others[1]) is None, "b can still end level"


def test_baselines_are_no_rivals_and_one_agent_alone_leads_nobody() -> None:
    ahead = trials("a", 6, 0)
    assert leader(PLAN, *ahead, *trials("oracle", 8, 0)) is None
    assert leader(PLAN, *ahead, *trials("oracle", 8, 0), *trials("b", 0, 6)) == Leader("a:gpt-5", 0.6, 0.4)


def test_an_agent_that_is_planned_and_has_not_begun_may_still_win() -> None:
    plan = a_plan(tasks=TASKS, attempts=1, agent_models=["a:gpt-5", "b:gpt-5", "c:gpt-5"])
    begun = [*trials("a", 6, 0), *trials("b", 0, 6)]
    assert leader(plan, *begun) is None
    assert leader(plan, *begun, *trials("c", 0, 6)) == Leader("a:gpt-5", 0.6, 0.4)


def test_without_bounds_of_every_agent_nothing_is_settled() -> None:
    assert leader(*trials("a", 6, 0), *trials("b", 0, 6)) is None
    found, run = race(PLAN, *trials("a", 6, 0), *trials("b", 0, 6))
    [_, b, _] = summaries(PLAN, *trials("a", 6, 0), *trials("b", 0, 6))
    found.hear(b | {"uncertainty": b["uncertainty"] | {"reachable": None}})
    assert found.leader(run) is None
    found.hear(b | {"uncertainty": None})
    assert found.leader(run) is None
    assert list(found.settled(0.5)) == [Settled("a:gpt-5", "reached", 0.6)]
    found.forget("b:gpt-5")
    assert found.leader(run) is None, "one agent alone"


def test_when_every_result_is_in_the_board_says_it() -> None:
    assert leader(PLAN, *trials("a", 9, 1), *trials("b", 1, 9)) is None


def test_a_target_is_reached_by_the_lower_bound_and_lost_by_the_upper_one() -> None:
    found, _ = race(PLAN, *trials("a", 6, 0), *trials("b", 2, 5), *trials("c", 5, 2), *trials("nop", 0, 9))
    assert list(found.settled(0.6)) == [
        Settled("a:gpt-5", "reached", 0.6),
        Settled("b:gpt-5", "out of reach", 0.5),
    ]
    assert list(found.settled(0.5)) == [
        Settled("a:gpt-5", "reached", 0.6),
        Settled("c:gpt-5", "reached", 0.5),
    ]


def decided(decider: Decider, *events: Event) -> list[Notification]:
    """The notices that follow when these summaries arrive, the run's first, each delivered at once."""
    *agents, run = summaries(*events)
    found: list[Notification] = []
    for summary in (run, *agents):
        found += decider.take(summary, NOW)
    for notice in found:
        decider.delivered(notice)
    return [notice for notice in found if notice.key.startswith(("ahead", "target"))]


def a_decider(*, new: bool = True, target: float | None = 0.6) -> Decider:
    decider = Decider(Rules(target=target))
    decider.begin("run-1", {}, new=new)
    return decider


def test_each_notice_comes_once_with_what_it_depends_on() -> None:
    decider = a_decider()
    assert decided(decider, PLAN, *trials("a", 5, 0), *trials("b", 0, 3)) == []
    reached, ahead, lost = decided(decider, PLAN, *trials("a", 6, 0), *trials("b", 1, 5))
    assert (ahead.key, ahead.title) == ("ahead:a:gpt-5", "run-1 a:gpt-5: can no longer be overtaken")
    assert ahead.body == (
        "It ends at 60.00 % or more, and the other agents of the run at 50.00 % or less, "
        "unless results are corrected or another agent joins"
    )
    assert (reached.key, reached.title) == (
        "target:0.6:reached:a:gpt-5",
        "run-1 a:gpt-5: target of 60.00 % reached",
    )
    assert reached.body == "Its final pass rate cannot end below 60.00 %, unless results are corrected"
    assert lost.title == "run-1 b:gpt-5: target of 60.00 % out of reach"
    assert lost.body == "Its final pass rate cannot end above 50.00 %, unless results are corrected"
    assert decided(decider, PLAN, *trials("a", 7, 0), *trials("b", 1, 6)) == []


def test_without_a_target_only_the_leader_is_told() -> None:
    found = decided(a_decider(target=None), PLAN, *trials("a", 6, 0), *trials("b", 1, 5))
    assert [notice.key for notice in found] == ["ahead:a:gpt-5"]


def test_a_run_that_was_over_before_the_watch_settles_nothing_new() -> None:
    end: Event = {"type": "run_finished", "run_id": "run-1", "revision": 1}
    events = [PLAN, *trials("a", 6, 0), *trials("b", 1, 5)]
    assert decided(a_decider(new=False), *events, end) == []
    assert len(decided(a_decider(new=False), *events)) == 3, "a running one is news"
    missed = [notice.key for notice in decided(a_decider(), *events, end)]
    assert missed == ["target:0.6:reached:a:gpt-5", "target:0.6:out of reach:b:gpt-5"]
