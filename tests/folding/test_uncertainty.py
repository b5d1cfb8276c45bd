"""The rows of a run: one for each slot, whatever comes and goes in it."""

from __future__ import annotations

from streamer.folding.uncertainty import PASSED, STORED, Roster
from streamer.schemas.wire import RUN, GroupId
from tests.support.events import Event, a_start, a_trial, folded

AGENT = GroupId(None, "terminus", "gpt-5")


def roster(*events: Event) -> Roster:
    run = folded(events)[0].run("run-1").state
    run.count()
    return run.scores.roster


def test_each_slot_has_one_row_however_often_its_result_is_corrected() -> None:
    events = [a_trial(revision=n, resolved=n % 2 == 0, cost_usd=n / 4) for n in (1, 2, 3)]
    lineup = roster(*events, a_trial(task_id="other")).lineup(AGENT)
    assert (len(lineup.keys()), lineup.stored.tolist()) == (2, [True, True])
    assert lineup.values("cost_usd")[0] == 0.75
    assert (lineup.count(STORED | PASSED, STORED | PASSED), lineup.count(STORED, STORED | PASSED)) == (1, 1)


def test_the_run_has_all_rows_and_a_group_knows_the_positions_of_the_others() -> None:
    rows = roster(a_start(position=0), a_start(agent="other", position=1))
    assert len(rows.lineup(RUN).keys()) == 2
    assert rows.lineup(AGENT).others() == {1}
    assert rows.lineup(RUN).others() == set()
    assert rows.lineup(GroupId(None, "nobody", "m")).keys() == []
