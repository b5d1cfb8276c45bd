"""The newest finished run against the one before: real only if the test and the mean agree."""

from __future__ import annotations

import pytest

from streamer.views.leaderboard import Change, change_between
from tests.support.board_runs import a_night, board_runs
from tests.support.events import a_trial


def change(before: str, after: str) -> Change:
    newer, older = board_runs([*a_night("n1", 1, {"a": before}), *a_night("n2", 2, {"a": after})])
    return change_between(older, newer, "a:m")


@pytest.mark.parametrize(
    ("before", "after", "p", "certain"),
    [
        ("-" * 6, "+" * 6, 2 / 64, True),
        ("+" * 6, "-" * 6, 2 / 64, True),
        ("-" * 5, "+" * 5, 2 / 32, False),
        ("+-" * 5, "+-" * 5, 1.0, False),
    ],
)
def test_a_change_is_real_if_the_sign_test_shows_it_at_five_percent(
    before: str, after: str, p: float, certain: bool
) -> None:
    found = change(before, after)
    assert (found.p_value, found.certain) == (p, certain)
    assert found.said.endswith("real" if certain else "may be chance")


def test_only_common_tasks_count() -> None:
    found = change("++++++  ", "++++  --")
    assert (found.difference, found.p_value) == (0.0, 1.0)
    nothing = change("++++    ", "    ++++")
    assert (nothing.difference, nothing.said, nothing.certain) == (None, "–", False)


@pytest.mark.parametrize(
    ("attempts", "p", "said"),
    [(2, None, "+100.0 points [100.0, 100.0], attempts differ"), (1, 2 / 2**8, "real")],
)
def test_with_unequal_attempts_a_change_is_not_tested(attempts: int, p: float | None, said: str) -> None:
    events = [*a_night("n1", 1, {"a": "-" * 8}), *a_night("n2", 2, {"a": "+" * 8})]
    trial = next(event for event in events if event.get("run_id") == "n2" and "task_id" in event)
    for number in range(2, attempts + 1):
        events += [{**trial, "task_id": f"t{task:02}", "attempt": number} for task in range(8)]
    newer, older = board_runs(events)
    found = change_between(older, newer, "a:m")
    assert (found.p_value, found.certain, found.difference) == (p, p is not None, 1.0)
    assert found.said.endswith(said)
    uneven = "8 of 8 tasks have unequal attempts: no test uses them"
    assert (found.words[-1] == uneven) is (attempts == 2)
    assert any("sign test" in words for words in found.words) is (attempts == 1)


def test_with_an_unknown_trial_there_is_an_e_value_in_place_of_a_p_value() -> None:
    """Ten sure losses and one task that may yet be a win: e = 85.25, and 40 suffices. Of five, it is 3.5."""
    for differing, certain in ((10, True), (5, False)):
        night = [*a_night("n1", 1, {"a": "+" * (differing + 1)})]
        open_task = a_trial(run_id="n2", task_id=f"t{differing:02}", agent="a", model="m", resolved=None)
        after = [*a_night("n2", 2, {"a": "-" * differing}), open_task]
        newer, older = board_runs([*night, *after])
        found = change_between(older, newer, "a:m")
        assert (found.p_value, found.interval, found.certain) == (None, None, certain)
        assert any("e-value" in words for words in found.words) is certain
