"""What a gate says in words: which of the two questions, and what it rests on."""

from __future__ import annotations

from fractions import Fraction

from streamer.views.gate import Entrant, Terms, counts, judge, not_common, saved_line, verdict_line
from tests.aggregate.matched import TASKS, side, the_plan
from tests.views.test_gate import BASELINE, PLANS, judged, ours


def test_an_interval_says_that_it_holds_however_often_you_look() -> None:
    found = judged([*PLANS, *BASELINE, *ours(6, 6)])
    assert found.words == [
        "final: undecided, candidate minus baseline -55.0 to +0.0 points in the end, 95 %, however often "
        "you look",
        "ability: undecided, on tasks like these: e-value that the candidate is worse 1.0, 20 needed",
    ]
    assert counts(found) == "6 of 20 pairs: only the candidate passed 0, only the baseline 0, the same 6"
    assert saved_line(found) is None


def test_bounds_say_why_there_is_no_interval() -> None:
    plans = [the_plan("r", order_kind="chosen"), PLANS[1]]
    said = judged([*plans, *BASELINE, *ours(6, 6)]).words[0]
    assert said == (
        "final: undecided, candidate minus baseline -70.0 to +0.0 points still possible, unless results "
        "are corrected (the order was chosen)"
    )


def test_a_verdict_says_what_was_asked_and_of_which_question() -> None:
    found = judged([*PLANS, *BASELINE, *ours(20, 20)], target=Fraction("0.6"), question="ability")
    assert verdict_line(found) == (
        "PASS: pass_rate at most 2 points worse than b:m of s, on tasks like these and final pass rate of "
        "60.0 % or more"
    )
    assert found.words == [
        "final: candidate minus baseline +0.0 points in this run: pass",
        "ability: pass, on tasks like these: candidate minus baseline +0.0 to +0.0 points, 95 %; "
        "e-value that the candidate is worse 1.0, 20 needed",
        "target: pass, pass rate 100.0 %, 60.0 % wanted",
    ]


def test_what_is_saved_is_an_estimate() -> None:
    found = judged([*PLANS, *BASELINE, *ours(0, 9, cost_usd=0.5)])
    assert saved_line(found) == (
        "estimate: stopping now saves up to 11 trials, and 5.50 USD if each costs the mean so far"
    )
    assert saved_line(judged([*PLANS, *BASELINE, *ours(0, 9)])) == (
        "estimate: stopping now saves up to 11 trials"
    )


def test_without_pairs_the_trials_of_each_side_are_counted() -> None:
    alone = judge(Entrant("mine", side([*PLANS, *ours(1, 2)], "r", "a")), None, Terms(target=Fraction(1)))
    assert counts(alone) == "a:m of r: 2 of 20 trials"
    assert alone.words == ["target: fail, pass rates of 5.0 % to 95.0 % still possible, 100.0 % wanted"]


def test_of_many_tasks_of_one_side_ten_are_named() -> None:
    plans = [the_plan("r", tasks=[*TASKS, *(f"z{n:02}" for n in range(12))], order=None), PLANS[1]]
    [line] = not_common(judged([*plans, *BASELINE, *ours(20, 20)], fixed=True))
    assert line.startswith("only in the candidate: z00, z01, ")
    assert line.endswith("z09 and 2 more")
