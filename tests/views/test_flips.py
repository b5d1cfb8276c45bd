"""Tasks that one side alone passes are grouped by that side, the tier, and how the other side failed."""

from __future__ import annotations

from streamer.views.compare import compare
from tests.support.builders import a_row

NAMES = (("r", None), ("s", None))


def test_groups_follow_the_side_the_tier_and_the_failure_mode() -> None:
    a = [a_row(task_id=f"t{n}", tier="T0" if n < 4 else "T1") for n in range(6)]
    a.append(a_row(task_id="b wins", success=False, failure_mode="agent_timeout"))
    b = [
        a_row(task_id=f"t{n}", tier="T0" if n < 4 else "T1", success=False, failure_mode=mode)
        for n, mode in enumerate(["timeout", "timeout", "none", None, "timeout", "timeout"])
    ]
    b.append(a_row(task_id="b wins"))
    groups = compare(a, b, NAMES, 0, 1).flips
    assert [(g.passed_by, g.tier, g.failure_mode, g.count, g.tasks) for g in groups] == [
        ("a", "T0", None, 2, ["T0/t2"]),
        ("a", "T0", "timeout", 2, ["T0/t0"]),
        ("a", "T1", "timeout", 2, ["T1/t4"]),
        ("b", None, "agent_timeout", 1, ["b wins"]),
    ]


def test_of_several_trials_the_most_frequent_failure_mode_counts_and_passed_ones_do_not() -> None:
    a = [a_row(task_id="t")]
    b = [
        a_row(task_id="t", attempt=1, success=False, failure_mode="z"),
        a_row(task_id="t", attempt=2, success=False, failure_mode="y"),
        a_row(task_id="t", attempt=3, success=False, failure_mode="z"),
        *(a_row(task_id="t", attempt=n, failure_mode="x") for n in (4, 5, 6)),
    ]
    [group] = compare(a, b, NAMES, 0, 10).flips
    assert group.failure_mode == "z"
    tied = compare(a, b[:2], NAMES, 0, 10).flips
    assert [one.failure_mode for one in tied] == ["y"]


def test_an_empty_failure_mode_is_none() -> None:
    failed = a_row(task_id="t", success=False, failure_mode="")
    [group] = compare([a_row(task_id="t")], [failed], NAMES, 0, 10).flips
    assert group.failure_mode is None


def test_tasks_that_both_or_neither_pass_are_in_no_group() -> None:
    same = [a_row(task_id="p"), a_row(task_id="f", success=False)]
    assert compare(same, same, NAMES, 0, 10).flips == []
