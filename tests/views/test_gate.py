"""The verdict of a gate: what decides, when it is certain, and what it says of each question."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.state import RunState
from streamer.statistics.pairs import GateVerdict, e_value
from streamer.views.decide import gate
from streamer.views.decide.gate import Entrant, Terms, counts, in_order, judge, with_order
from streamer.views.models import Ends
from tests.folding.matched import ORDER, TASKS, side, the_plan, trial
from tests.support.events import Event, a_plan, a_trial, folded
from tests.support.examples import examples
from tests.views.test_compare import of_rows

PLANS = [the_plan("r"), the_plan("s")]
BASELINE = [trial("s", "b", task, True) for task in TASKS]


def judged(events: Iterable[Event], *, fixed: bool = False, **terms: Any) -> Any:
    """The result for agent a of run r against agent b of run s; a test that reads a missing part fails."""
    stored = list(events)
    ours = Entrant("mine", side(stored, "r", "a", fixed=fixed))
    result = judge(ours, Entrant("other", side(stored, "s", "b", fixed=fixed)), Terms(**terms))
    assert gate.GateResult.model_validate_json(result.model_dump_json()) == result
    return result


def ours(passed: int, of: int, **fields: Any) -> list[Event]:
    """So many of the first tasks of the queue are in, and the first so many passed."""
    return [trial("r", "a", task, n < passed, **fields) for n, task in enumerate(ORDER[:of])]


def test_a_verdict_comes_before_the_end_and_says_what_that_saves() -> None:
    for cost, said in (({"cost_usd": 0.5}, ", and 5.50 USD if each costs the mean so far"), ({}, "")):
        result = judged([*PLANS, *BASELINE, *ours(0, 9, **cost)])
        assert (result.verdict, result.over) == (GateVerdict.FAIL, False)
        assert (result.final.verdict, result.final.basis) == (GateVerdict.FAIL, "interval")
        assert gate.saved_line(result) == f"estimate: stopping now saves up to 11 trials{said}"
        assert result.words[1] == (
            "ability: fail, on tasks like these: evidence that the candidate is worse 102, 20 needed; "
            "it is worse, but not by how much"
        )


def test_common_tasks_that_results_may_have_chosen_are_judged_only_if_allowed() -> None:
    """Inference 7: common tasks are fair where one side planned just these, before the other began."""
    few = ORDER[:10]
    early, late = ({"started_at": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2))
    trials = [*BASELINE, *(trial("r", "a", task, passed=False) for task in few)]
    for ours_began, theirs_began, terms, verdict in (
        (early, late, {}, GateVerdict.FAIL),
        (late, early, {}, GateVerdict.UNDECIDED),
        ({}, {}, {}, GateVerdict.UNDECIDED),
        (late, early, {"allowed": ["tasks"]}, GateVerdict.FAIL),
    ):
        plans = [the_plan("r", tasks=few, order=few) | ours_began, the_plan("s") | theirs_began]
        result = judged([*plans, *trials], fixed=True, **terms)
        assert result.verdict == verdict, (ours_began, terms)
        assert len(result.pairs.only_baseline) == 10


@pytest.mark.parametrize(
    ("passed", "max_drop", "verdict"),
    [(20, "0", "pass"), (19, "0.05", "pass"), (19, "0.049", "fail"), (0, "1", "pass")],
)
def test_at_the_end_the_run_itself_decides_exactly(passed: int, max_drop: str, verdict: str) -> None:
    result = judged([*PLANS, *BASELINE, *ours(passed, 20)], max_drop=Fraction(max_drop))
    assert (result.verdict, result.final.basis, result.over) == (verdict, "exact", True)


def test_at_the_end_ability_passes_only_if_the_interval_allows_it() -> None:
    events = [*PLANS, *BASELINE, *ours(19, 20)]
    close = judged(events, question="ability", max_drop=Fraction("0.02"))
    wide = judged(events, question="ability", max_drop=Fraction("0.3"))
    assert (close.verdict, wide.verdict) == (GateVerdict.UNDECIDED, GateVerdict.PASS)
    assert close.final.verdict == GateVerdict.FAIL


def test_an_undeclared_order_decides_nothing_and_is_shown_with_its_condition() -> None:
    plans = [the_plan("r", order_kind=None), PLANS[1]]
    result = judged([*plans, *BASELINE, *ours(3, 9)], max_drop=Fraction("0.1"))
    assert (result.final.basis, result.final.missing) == ("bounds", "the order is not declared as shuffled")
    assert result.final.unrelated.high < result.final.ends.high


@pytest.mark.parametrize(("target", "verdict"), [("0.1", "pass"), ("0.95", "fail"), ("0.6", "undecided")])
def test_a_target_is_judged_by_what_is_still_possible(target: str, verdict: str) -> None:
    of_run = side([*PLANS, *ours(2, 4)], "r", "a")
    alone = judge(Entrant("mine", of_run), None, Terms(target=Fraction(target)))
    assert (alone.verdict, alone.baseline, alone.final) == (verdict, None, None)


def test_a_target_out_of_reach_fails_what_the_baseline_leaves_open() -> None:
    result = judged([*PLANS, *BASELINE, *ours(0, 1)], target=Fraction(1), max_drop=Fraction("0.3"))
    assert (result.verdict, result.final.verdict) == (GateVerdict.FAIL, GateVerdict.UNDECIDED)


@pytest.mark.parametrize("question", ["final", "ability"])
@pytest.mark.parametrize(("direction", "verdict"), [("higher", "pass"), ("lower", "fail")])
def test_a_named_metric_is_judged_at_the_end_in_its_direction(
    direction: str, verdict: str, question: str
) -> None:
    plan = the_plan("r", metrics={"reward": {"direction": direction}})
    base = [trial("s", "b", task, True, metrics={"reward": 0.1}) for task in TASKS]
    events = [plan, PLANS[1], *base, *ours(20, 20, metrics={"reward": 0.5})]
    terms: dict[str, Any] = {"metric": "metrics/reward", "question": question}
    assert judged(events, **terms).verdict == verdict
    running = judged(events[:-1], **terms)
    assert running.verdict == GateVerdict.UNDECIDED
    assert running.final.missing == "metrics/reward is compared only at the end"


def with_metrics(ours: dict[str, float], theirs: dict[str, float], passed: bool | None) -> list[Event]:
    """The ended trials of both sides, with these numbers each."""
    sides = (("r", "a", ours), ("s", "b", theirs))
    return [*(trial(run, by, task, passed, metrics=of) for run, by, of in sides for task in TASKS), *ENDS]


def test_r30_the_baselines_plan_says_which_metric_decides_and_which_way() -> None:
    """As in `compare`: a candidate must not choose how it is judged."""
    plans = [
        the_plan("r", primary_metric="metrics/size", metrics={"loss": {"direction": "higher"}}),
        the_plan("s", primary_metric="metrics/loss", metrics={"loss": {"direction": "lower"}}),
    ]
    result = judged([*plans, *with_metrics({"loss": 0.9, "size": 1.0}, {"loss": 0.1, "size": 1.0}, None)])
    assert (result.metric, result.verdict) == ("metrics/loss", GateVerdict.FAIL)
    assert result.words[-1] == (
        "metrics/loss: lower is better in the baseline's plan, higher in the candidate's; judged as in the "
        "baseline's"
    )


def test_r30_a_metric_in_two_units_has_no_verdict() -> None:
    """5 s against 5,000 ms was a FAIL."""
    plans = [the_plan(run, metrics={"time": {"unit": unit}}) for run, unit in (("r", "s"), ("s", "ms"))]
    result = judged([*plans, *with_metrics({"time": 5.0}, {"time": 5000.0}, True)], metric="metrics/time")
    assert (result.verdict, result.final.missing) == ("undecided", "metrics/time has two units: s against ms")


def costing(run: str, agent: str, of: int = 20, **fields: Any) -> list[Event]:
    """Passed trials of which these fields are known, by default a cost of one dollar."""
    fields = fields or {"cost_usd": 1.0}
    return [trial(run, agent, task, True, **(fields if at < of else {})) for at, task in enumerate(ORDER)]


@pytest.mark.parametrize(
    ("fields", "verdict", "missing"),
    [
        ({"cost_usd": 1.5}, "fail", None),
        ({"cost_usd": 0.5}, "pass", None),
        ({"score": 1.0}, "undecided", "no common task where both sides have cost_usd"),
    ],
)
def test_cost_is_better_when_it_is_lower_and_missing_values_decide_nothing(
    fields: Event, verdict: str, missing: str | None
) -> None:
    events = [*PLANS, *costing("s", "b"), *costing("r", "a", **fields)]
    result = judged(events, metric="cost_usd", max_drop=Fraction("0.1"))
    assert (result.verdict, result.final.missing) == (verdict, missing)


def test_of_unequal_attempts_all_trials_are_in_the_final_difference() -> None:
    named = {"tasks": ["x", "y"], "order": None}
    plans = [the_plan("r", **named), the_plan("s", attempts=2, **named)]
    base = [trial("s", "b", task, n == 1, attempt=n) for task in "xy" for n in (1, 2)]
    mine = [trial("r", "a", "x", True), trial("r", "a", "y", False)]
    running = judged([*plans, *base, mine[0]])
    assert (running.verdict, running.final.basis) == (GateVerdict.PASS, "bounds")
    assert running.final.ends == Ends(low=0.0, high=0.5)
    ended = judged([*plans, *base, *mine], max_drop=Fraction(0))
    assert (ended.verdict, ended.final.ends.low) == (GateVerdict.PASS, 0.0)
    assert counts(ended).endswith("; 2 trials on only one side, in no pair")


def test_trials_and_subtests_that_never_came_are_counted_both_ways_at_the_end() -> None:
    one = {"tasks": ["x"], "order": None}
    events = [the_plan("r", attempts=2, **one), the_plan("s", **one)]
    events += [trial("s", "b", "x", True), trial("r", "a", "x", True)]
    result = judged(events, fixed=True)
    assert (result.verdict, result.over, result.final.ends.low) == (GateVerdict.UNDECIDED, True, -0.5)
    tiered = [the_plan(run, **one, tiers=["T0"], subtests={"T0": 4}) for run in "rs"]
    done = [trial("s", "b", "x", True, tier="T0", subtest=str(n)) for n in range(4)]
    result = judged([*tiered, *done, trial("r", "a", "x", True, tier="T0", subtest="0")], fixed=True)
    assert (result.verdict, result.final.ends.low) == (GateVerdict.UNDECIDED, -0.75)


STOPPED = {"tasks": 20, "order": None}
ENDS = [{"type": "run_finished", "run_id": run} for run in "rs"]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("attempts", [1, None])
def test_a_run_that_stopped_early_is_not_judged_on_what_it_has(finished: bool, attempts: int | None) -> None:
    plan = the_plan("r", **STOPPED, attempts=attempts)
    events = [plan, PLANS[1], *BASELINE, *ours(5, 5), *(ENDS if finished else [])]
    result = judged(events, fixed=not finished, max_drop=Fraction("0.7"))
    assert (result.verdict, result.over, result.final.basis) == (GateVerdict.UNDECIDED, True, "bounds")
    assert result.final.ends == Ends(low=-0.75, high=0.75)
    assert (result.final.missing, result.ability.verdict) == ("trials have no final value", "undecided")
    ability = result.ability.interval
    assert ability.low < -0.75 < 0.75 < ability.high, "the missing trials count both ways"
    assert judged(events, fixed=not finished, max_drop=Fraction("0.75")).verdict == GateVerdict.PASS


def test_a_baseline_that_stopped_early_passes_nobody() -> None:
    events = [PLANS[0], the_plan("s", **STOPPED), *BASELINE[:5], ENDS[1], *ours(20, 20)]
    for known in (7, 20):
        result = judged(events[: 7 + known])
        assert (result.verdict, result.final.basis) == (GateVerdict.UNDECIDED, "bounds")
        assert result.pairs.planned == 20


@pytest.mark.parametrize("kind", ["chosen", None])
def test_an_order_by_results_of_the_baseline_is_no_evidence_of_ability(kind: str | None) -> None:
    """What the baseline passed comes first: an equally good candidate loses there, and only there."""
    base = [trial("s", "b", task, n < 10) for n, task in enumerate(ORDER)]
    mine = [trial("r", "a", task, n >= 10) for n, task in enumerate(ORDER)]
    events = [the_plan("r", order_kind=kind), PLANS[1], *base, *mine]
    assert judged(events, question="ability").verdict == GateVerdict.UNDECIDED


@pytest.mark.parametrize(("of_three", "verdict"), [(1, "undecided"), (3, "fail")])
def test_of_unequal_attempts_the_numbers_that_both_plan_are_evidence(of_three: int, verdict: str) -> None:
    """The baseline passes one of three attempts, or all; of the pairs that is the first attempt."""
    plans = [the_plan("r"), the_plan("s", attempts=3, order=None)]
    tries = [(at, n) for at in range(20) for n in (1, 2, 3)]
    base = [trial("s", "b", TASKS[at], n > 3 - of_three, attempt=n) for at, n in tries]
    mine = [trial("r", "a", task, False) for task in TASKS]
    result = judged([*plans, *base, *mine[:-1]], question="ability")
    assert result.verdict == verdict
    assert result.ability.interval is None
    ended = judged([*plans, *base, *mine], question="ability").ability
    assert ended.interval.high < 0


def test_evidence_against_the_mean_fails_nothing() -> None:
    """The candidate loses 15 of the first 30 pairs, and wins 45 of the other 90."""
    tasks = [f"t{n:03}" for n in range(120)]
    plans = [the_plan(run, tasks=tasks, order=tasks) for run in "rs"]
    base = [trial("s", "b", task, at < 30) for at, task in enumerate(tasks)]
    mine = [trial("r", "a", task, at % 2 == 0) for at, task in enumerate(tasks)]
    for known, verdict in ((30, "fail"), (119, "undecided"), (120, "pass")):
        result = judged([*plans, *base, *mine[:known]], question="ability").ability
        assert (result.verdict, result.worse) == (verdict, e_value(0, 15))


def test_a_mean_is_not_judged_while_trials_have_no_final_value() -> None:
    mine = ours(5, 5, cost_usd=0.5)
    for plan in (PLANS[0], the_plan("r", **STOPPED)):
        for question in ("final", "ability"):
            events = [plan, PLANS[1], *costing("s", "b"), *mine]
            result = judged(events, fixed=True, metric="cost_usd", question=question)
            assert (result.verdict, result.final.basis) == (GateVerdict.UNDECIDED, "nothing")
            assert result.final.missing == "trials have no final value"


@pytest.mark.parametrize(
    ("judge_comes", "verdict", "missing"),
    [
        (True, GateVerdict.UNDECIDED, "trials wait for a judge's score"),
        (False, GateVerdict.FAIL, "impl_rate is known for 3 of 20 candidate and 20 of 20 baseline trials"),
    ],
)
def test_the_scores_of_a_judge_are_not_judged_while_some_may_come(
    judge_comes: bool, verdict: str, missing: str
) -> None:
    """Trials that the plan says will be judged stay unknown after the end (R13)."""
    plans = [plan | {"judged": judge_comes} for plan in PLANS]
    trials = [*costing("s", "b", score=0.9), *costing("r", "a", of=3, score=0.1)]
    result = judged([*plans, *trials], fixed=True, metric="impl_rate")
    assert result.verdict == verdict
    assert result.final.missing.startswith(missing)


def test_a_mean_of_trials_of_which_some_lack_it_says_how_many_have_it() -> None:
    result = judged([*PLANS, *costing("s", "b"), *costing("r", "a", of=3, cost_usd=0.5)], metric="cost_usd")
    assert (result.verdict, result.final.basis) == (GateVerdict.PASS, "covered")
    assert result.words[0] == (
        "final: candidate minus baseline -0.5 where known: pass (cost_usd is known for 3 of 20 candidate and "
        "20 of 20 baseline trials; compared on 3 of 20 tasks)"
    )


def test_without_pairs_the_trials_of_each_side_are_counted() -> None:
    planned, planless = (
        judge(Entrant("mine", side(events, "r", "a")), None, Terms(target=Fraction(1)))
        for events in ([*PLANS, *ours(1, 2)], ours(1, 1))
    )
    assert (counts(planned), counts(planless)) == ("a:m of r: 2 of 20 trials", "a:m of r: 1 trial")
    assert planned.words == ["target: fail, pass rates of 5.0 % to 95.0 % still possible, 100.0 % wanted"]
    nothing = judge(Entrant("mine", None), Entrant("other", None), Terms())
    assert (nothing.verdict, nothing.final, nothing.over) == (GateVerdict.UNDECIDED, None, False)
    assert nothing.words == ["mine: no trials yet", "other: no trials yet"]


def test_tasks_that_only_one_side_has_are_listed_and_of_many_ten_are_named() -> None:
    more = ["a/b", *(f"z{n:02}" for n in range(12))]
    plans = [the_plan("r", tasks=[*TASKS, *more], order=None), PLANS[1]]
    result = judged([*plans, *BASELINE, *ours(20, 20)], fixed=True)
    assert (result.pairs.only_candidate, result.pairs.only_baseline) == (["a%2Fb", *more[1:]], [])
    [line] = gate.not_common(result)
    assert line.startswith("only in the candidate: a/b, z00, ")
    assert line.endswith("z08 and 3 more")


@examples(40)
@given(st.data())
def test_a_verdict_at_the_end_does_not_depend_on_the_order_of_events(data: st.DataObject) -> None:
    passed = data.draw(st.sets(st.sampled_from(TASKS)))
    events = [*PLANS, *BASELINE, *(trial("r", "a", task, task in passed) for task in TASKS)]
    shuffled = data.draw(st.permutations([*events, *events[2:4]]))
    assert judged(shuffled) == judged(events)


@examples(40)
@given(st.sets(st.sampled_from(TASKS)), st.integers(0, 20))
def test_hard_bounds_never_say_other_than_the_end(passed: set[str], known: int) -> None:
    plans = [the_plan(run, order=None) for run in "rs"]
    mine = [trial("r", "a", task, task in passed) for task in ORDER]
    early = judged([*plans, *BASELINE, *mine[:known]], max_drop=Fraction("0.3"))
    late = judged([*plans, *BASELINE, *mine], max_drop=Fraction("0.3"))
    assert early.verdict in (GateVerdict.UNDECIDED, late.verdict)
    assert late.verdict != GateVerdict.UNDECIDED


def test_an_interval_says_that_it_holds_however_often_you_look() -> None:
    result = judged([*PLANS, *BASELINE, *ours(6, 6)])
    assert result.words == [
        "final: undecided, candidate minus baseline -55.0 to +0.0 points in the end, 95 %, however often "
        "you look",
        "ability: undecided, on tasks like these: evidence that the candidate is worse 1.0, 20 needed",
    ]
    assert counts(result) == "6 of 20 pairs: only the candidate passed 0, only the baseline 0, the same 6"
    assert gate.saved_line(result) is None
    [said, _] = judged([the_plan("r", order_kind="chosen"), PLANS[1], *BASELINE, *ours(6, 6)]).words
    assert said == (
        "final: undecided, candidate minus baseline -70.0 to +0.0 points still possible, unless results "
        "are corrected (the order was chosen)"
    )


FEW = TASKS[:9]
NUMBERS = {"metrics": {"x": 1.0}}


MISSING = "an interval needs all trials of {} tasks where both sides have {}"
NO_EVIDENCE = "evidence that the candidate is worse 1.0, 20 needed; "


@pytest.mark.parametrize(
    ("plan", "tasks", "fields", "terms", "said"),
    [
        (True, (FEW, FEW), {"cost_usd": 1.0}, {"metric": "cost_usd"}, MISSING.format(10, "cost_usd")),
        (True, (FEW[:3], FEW[:3]), {}, {"tasks": FEW[:3]}, NO_EVIDENCE + MISSING.format(5, "pass_rate")),
        (True, (FEW, FEW[:3]), {"cost_usd": 1.0}, {"metric": "cost_usd"}, "trials have no final value"),
        (False, (["x"], ["y"]), {}, {}, "no task is planned on both sides"),
        (True, (FEW, FEW), NUMBERS, {"metric": "pass_rate"}, "no verdicts; --metric metrics/x"),
    ],
)
def test_at_the_end_no_question_is_called_open_until_all_trials_are_final(
    plan: bool, tasks: tuple[list[str], list[str]], fields: Event, terms: Any, said: str
) -> None:
    """It said only how much evidence there is, as if more trials could decide it."""
    terms = dict(terms)
    named = terms.pop("tasks", FEW)
    plans = [the_plan(run, tasks=named, order=named) for run in "rs"] if plan else []
    verdict = None if fields is NUMBERS else True
    trials = [
        trial(run, agent, task, verdict, **fields)
        for run, agent, these in zip("rs", "ab", tasks, strict=True)
        for task in these
    ]
    result = judged([*plans, *trials, *ENDS], question="ability", **terms)
    assert f"ability: undecided, on tasks like these: {said}" in result.words[1]
    assert (result.final.ends is None) == (result.final.basis == "nothing")
    assert (counts(result) == "a:m of r: no verdicts; b:m of s: no verdicts") is (fields is NUMBERS)


def known(side: Any) -> tuple[int, int, int | None]:
    return side.known, side.planned, side.passed


def test_r31_a_target_is_of_the_verdicts_whatever_metric_is_judged_beside_it() -> None:
    """Three passes beside six trials with numbers alone were a pass rate of 33.3 %, and failed."""
    plans = [the_plan(run, tasks=FEW, order=FEW) for run in "rs"]
    base = [trial("s", "b", task, None, **NUMBERS) for task in FEW]
    mine = [trial("r", "a", task, True if at < 3 else None, **NUMBERS) for at, task in enumerate(FEW)]
    result = judged([*plans, *mine, *base, *ENDS], metric="metrics/x", target=Fraction("0.5"))
    assert (result.verdict, result.target.low) == (GateVerdict.PASS, 1.0)
    assert result.words[-1] == "6 trials of a:m of r with numbers alone, no verdict"
    assert (known(result.candidate), known(result.baseline)) == ((9, 9, 3), (9, 9, None))


def test_r31_crashes_beside_numbers_are_no_verdicts() -> None:
    """It said "3 of 3 trials" of a side with nine, and none passed."""
    plans = [the_plan(run, tasks=FEW, order=FEW) for run in "rs"]
    base = [trial("s", "b", task, None, **NUMBERS) for task in FEW]
    kinds = [{"failure_mode": "agent_timeout"}] * 3 + [NUMBERS] * 6
    mine = [trial("r", "a", task, None, **fields) for task, fields in zip(FEW, kinds, strict=True)]
    result = judged([*plans, *mine, *base, *ENDS])
    assert counts(result) == "a:m of r: no verdicts; b:m of s: no verdicts"
    assert known(result.candidate) == (9, 9, None)


def test_a_file_without_a_plan_and_an_end_is_judged_as_it_stands_and_that_is_said() -> None:
    """Inference 7."""
    events = [trial(run, agent, "x", True) for run, agent in ("ra", "sb")]
    complete = [f"{run} has no plan and no end: it counts as complete" for run in "rs"]
    result = judged(events, fixed=True)
    assert (result.verdict, result.words[-2:]) == (GateVerdict.PASS, complete)
    for known in ([*events, *ENDS], [*PLANS, *events]):
        assert not set(complete) & set(judged(known, fixed=True).words)
    assert counts(judged(events)) == "a:m of r: 1 trial; b:m of s: 1 trial"


@pytest.mark.parametrize("side", ["r", "s"])
def test_an_order_made_of_a_side_is_named(side: str) -> None:
    """Code order_from_a_side of inference 5: history of others is evidence, history of a side is none."""
    base = [trial("s", "b", task, n < 10) for n, task in enumerate(ORDER)]
    losses = [trial("r", "a", task, False) for task in ORDER[:10]]
    chosen = {"order_kind": "chosen", "order_reason": "history"}
    of_others, of_a_side = (
        judged([the_plan("r", order_history=history, **chosen), PLANS[1], *base, *losses], question="ability")
        for history in (["other"], ["other", side])
    )
    assert (of_others.verdict, of_others.ability.missing) == (GateVerdict.FAIL, None)
    assert of_a_side.verdict == GateVerdict.UNDECIDED
    why = "only the whole plan counts, because the order was made from results of a compared run"
    assert of_a_side.words[1].endswith(f"20 needed; {why}")


def test_a_verdict_says_what_was_asked_and_of_which_question() -> None:
    asked: dict[str, Any] = {"target": Fraction("0.6"), "question": "ability", "max_drop": Fraction("0.2")}
    result = judged([*PLANS, *BASELINE, *ours(20, 20)], **asked)
    assert gate.verdict_line(result) == (
        "PASS: pass_rate at most 20 points worse than b:m of s, on tasks like these and final pass rate of "
        "60.0 % or more"
    )
    assert result.words == [
        "final: candidate minus baseline +0.0 points in this run: pass",
        "ability: pass, on tasks like these: candidate minus baseline -18.0 to +18.0 points, 95 %; "
        "evidence that the candidate is worse 1.0, 20 needed",
        "target: pass, pass rate 100.0 %, 60.0 % wanted",
    ]


def a_run(run_id: str, letters: str, **plan: Any) -> RunState:
    """A shuffled run of one agent: `+` passed, `-` did not; what has no letter is not in."""
    declared = {"order": TASKS, "started_at": f"2026-01-0{1 if run_id == 'base' else 2}T00:00:00Z"} | plan
    trials = [
        trial(run_id, run_id, task, letter == "+", started_at="2026-01-03T00:00:00Z")
        for task, letter in zip(TASKS, letters, strict=False)
    ]
    return folded([the_plan(run_id, **declared), *trials])[0].run(run_id).state


def test_a_planned_agent_without_results_is_an_undecided_side_of_a_file() -> None:
    """It was wrong usage, exit 2: "has 0 agents that are not baselines"."""
    pipeline, _ = folded([the_plan("r", agent_models=["a:m"]), *PLANS[1:], *BASELINE])
    runs = {run: pipeline.run(run).state for run in "rs"}
    mine, other = (gate.entrant("file", run, runs, fixed=True) for run in "rs")
    result = judge(mine, other, Terms())
    assert (result.verdict, result.candidate.agent_model, result.over) == ("undecided", "a:m", True)
    assert result.final
    assert result.final.ends == Ends(low=-1.0, high=0.0)


def words(letters: str, base: str = "+" * 20, **plan: Any) -> list[str]:
    return in_order(a_run("new", letters, **plan), a_run("base", base), None, None).words


def test_while_a_run_goes_on_its_order_gives_the_final_difference_an_interval_or_bounds() -> None:
    [said] = words("-" * 12)
    assert said.startswith("base:m of base ahead of new:m of new in the final pass rate: [")
    assert said.endswith("] points in the end; 95 %, however often you look")
    [said] = words("+-+-", base="+-" * 10)
    assert said.startswith("base:m of base minus new:m of new: [-")
    first, second = words("-" * 15, order_kind=None)
    assert first == "base:m of base can no longer be overtaken by new:m of new, unless results are corrected"
    assert second.endswith("if the order has nothing to do with difficulty")


def test_at_the_end_and_of_several_agents_there_is_nothing_to_add() -> None:
    assert words("+-" * 10) == []
    run = a_run("new", "-" * 12)
    assert in_order(run, run, None, None).words == []
    several = [a_plan(run_id="two"), *(a_trial(run_id="two", agent=agent) for agent in ("x", "y"))]
    assert in_order(folded(several)[0].run("two").state, a_run("base", "+"), None, None) == ([], None)


def test_a_comparison_of_two_runs_that_go_on_begins_with_what_their_order_says() -> None:
    stored = of_rows([], [], (("base", None), ("new", None)))
    going_on = stored.model_copy(update={"words": ["what stood before"], "ended": False})
    base, new = a_run("base", "+" * 20), a_run("new", "-" * 12)
    result, live = with_order(going_on, base, new), in_order(base, new, None, None)
    assert result.words == [live.words[0], "what stood before"]
    assert result.worse == live.worse == "b"
    for said in ({"ended": True}, {"not_comparable": "other tasks"}):
        changed = going_on.model_copy(update=said)
        assert with_order(changed, base, new) is changed
    assert with_order(going_on, base, None) is with_order(going_on, None, new) is going_on
