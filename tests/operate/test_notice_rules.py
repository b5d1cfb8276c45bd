"""What a watch tells of runs, ledgers, rejections and forecasts, each once: by rules alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamer.operate.notice_delivery import QUIET, RejectionRate
from streamer.operate.notice_rules import (
    MAX_NAME,
    Decider,
    Leader,
    Notification,
    Race,
    Rules,
    Settled,
    budget_ahead,
    named,
)
from streamer.views.decide.history import Decision
from streamer.views.decide.ledger import LedgerCandidate, LedgerResult
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_trial, an_end, summarised
from tests.web.report.reporting import HOSTILE

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULES = Rules(budget_usd=10.0, stalled_after=10 * MINUTE, rejections_per_minute=3)


def run(version: int = 0, **fields: Any) -> dict[str, Any]:
    return a_run_change("r", version=version, **fields).summary or {}


def agent(grade: str | None, version: int = 0, name: str = "a", **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"means": {"composite_score": 0.5}, "grade": grade} | fields
    return an_agent_model_change("r", name, "m", version=version, **given).summary or {}


class Watching:
    """A decider of one run, and its memory as it would be written down."""

    def __init__(self, *, new: bool = True, remembered: dict[str, str] | None = None) -> None:
        self.decider = Decider(RULES)
        self.written: dict[str, str] = dict(remembered or {})
        self.decider.begin("r", self.written, new=new)

    def take(self, *summaries: dict[str, Any], at: datetime = NOW) -> list[str]:
        """Keys of the notices that these give reason to, each delivered at once."""
        notices = [notice for summary in summaries for notice in self.decider.take(summary, at)]
        return [notice.key for notice in self.deliver(notices)]

    def tick(self, at: datetime) -> list[str]:
        return [notice.key for notice in self.deliver(self.decider.tick(at))]

    def again(self) -> Watching:
        return Watching(new=False, remembered=self.written)

    def deliver(self, notices: list[Notification]) -> list[Notification]:
        self.written |= self.decider.changed("r")
        for notice in notices:
            self.written[notice.key] = "told"
            self.decider.delivered(notice)
        return notices


HALF_DONE = {"progress": {"done": 50, "planned": 200}}


@pytest.mark.parametrize(
    ("usd", "fields", "told"),
    [
        (10.0, HALF_DONE, True),
        (35.0, HALF_DONE, False),  # the middle of the forecast is 36
        (10.0, {"progress": {"done": 200, "planned": 200}}, False),  # nothing is awaited
        (8.0, HALF_DONE, False),  # passed already: that has a notice of its own
        (10.0, {}, False),  # without a plan
    ],
)
def test_only_a_forecast_that_is_sure_is_told(usd: float, fields: dict[str, Any], told: bool) -> None:
    said = budget_ahead(run(total_cost=9.0, **fields), usd)
    assert (said is not None) == told
    assert said is None or said.startswith("forecast: about $36.00 in all, $")


# -----------------------------------------------------------------------------
# What is told, and that it is told once: the pure core.


def a_decider(run_id: str = "r", rules: Rules = RULES, *, new: bool = True) -> Decider:
    decider = Decider(rules)
    decider.begin(run_id, {}, new=new)
    return decider


def tier(grade: str, version: int, *agent: str) -> dict[str, Any]:
    return a_tier_change("r", "T0", *agent, version=version, grade=grade).summary or {}


Step = tuple[list[dict[str, Any]], list[str]]
ANOTHER_PROCESS: Step = ([], [])
COMPLETED = {"status": "completed"}
STORIES: dict[str, list[Step]] = {
    "start and end are one notice each however often they come": [
        ([run(1), run(2), run(3)], ["started"]),
        ([run(4, **COMPLETED), run(4, **COMPLETED)], ["finished:completed"]),
        ([run(5, **COMPLETED)], []),
        ANOTHER_PROCESS,
        ([run(6, **COMPLETED)], []),
    ],
    "a run that ends otherwise after all has another notice": [
        ([run(1, status="failed")], ["started", "finished:failed"]),
        ([run(2, **COMPLETED)], ["finished:completed"]),
    ],
    "a change of grade is a notice and the first grade is none": [
        ([agent(None, 1), agent("C", 2), agent("C", 3)], []),
        ([agent("B", 4), agent("B", 5)], ["grade:agent_model=a:m:B"]),
    ],
    "a grade that swings is one notice per grade": [
        (list(map(agent, "CBCBCBCB", range(8))), [f"grade:agent_model=a:m:{grade}" for grade in "BC"])
    ],
    "grades of tiers are notices, not of agents within them and of baselines": [
        ([tier("C", 0), tier("B", 1)], ["grade:tier=T0:B"]),
        ([tier("C", 0, "a", "m"), tier("B", 1, "a", "m")], []),
        ([agent("F", 0, "nop", baseline=True), agent("S", 1, "nop", baseline=True)], []),
    ],
    "a grade that moved between two watches is a notice": [
        ([run(1), agent("C", 2)], ["started"]),
        ANOTHER_PROCESS,
        ([agent("A", 9)], ["grade:agent_model=a:m:A"]),
    ],
    "a budget is one notice": [
        ([run(1, total_cost=9.0)], ["started"]),
        ([run(n, total_cost=usd) for n, usd in ((2, 10.0), (3, 10.5), (4, 99.0))], ["budget:10.0"]),
        ([run(5, total_cost="Infinity")], []),
    ],
    "a budget that will be passed is one notice before it is": [
        ([run(1, total_cost=1.0, **HALF_DONE)], ["started"]),
        ([run(2, total_cost=9.0, **HALF_DONE)], ["budget-ahead:10.0"]),
        ([run(3, total_cost=9.5, **HALF_DONE)], []),
        ([run(4, total_cost=10.5, **HALF_DONE)], ["budget:10.0"]),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_each_change_is_one_notice(story: str) -> None:
    watching = Watching()
    for summaries, keys in STORIES[story]:
        watching = watching.again() if not summaries else watching
        assert watching.take(*summaries) == keys


def test_named_metrics_change_no_notice() -> None:
    def told(**fields: Any) -> list[str]:
        plan = a_plan(run_id="r", tasks=1, metrics={"reward": {}}, primary_metric="metrics/reward")
        return Watching().take(*summarised([plan, a_trial(run_id="r", **fields)]).values())

    assert told(metrics={"reward": 0.5, "style": 2.0}) == told()
    assert "started" in told()


def test_r31_the_end_without_verdicts_brings_the_primary_metric_and_the_trials_beyond_the_plan() -> None:
    """It said "a:m: grade –, accuracy –, cost –", without any number, and "3 of 2 planned trials"."""
    says = {"metrics": {"lat": {"direction": "lower", "label": "Latency"}}, "primary_metric": "metrics/lat"}
    plan = a_plan(run_id="r", tasks=2, attempts=1, **says)
    slot = {"run_id": "r", "resolved": None, "agent": "a", "model": "m"}
    trials = [a_trial(**slot, task_id=f"t{n}", metrics={"lat": n}) for n in range(3)]
    *agents, last = summaries(plan, *trials, an_end(run_id="r"))
    [_, finished] = a_decider().take(last, NOW, agents)
    assert finished.body.splitlines() == [
        "3 trials, more than the 2 planned, 3 trials, no verdicts, accuracy –, cost –",
        "a:m: Latency 1.00, grade –, accuracy –, cost –",
    ]


def test_a_notice_says_that_the_plan_is_incomplete() -> None:
    reading = {"done": 1, "planned": None, "plan_complete": False}
    [started] = a_decider().take(run(progress=reading), NOW)
    assert "1 trial (plan not complete yet), 1 of 1 trial resolved" in started.body


def test_a_grade_is_told_with_its_basis_and_the_board_begins_with_the_best_and_has_no_baselines() -> None:
    decider = a_decider()
    judged = {"grade_basis": "composite_median", "grade_score": 0.8475, "grade_provisional": True}
    decider.take(agent("B", 1), NOW)
    [notice] = decider.take(agent("C", 2, **judged), NOW)
    assert notice.title == "r a:m: grade B → C (judge awaited)"
    assert notice.body.startswith("Grade C (judge awaited) by composite 0.8475, 1 trial")
    agents = [agent("B", name=name, means={"pass_rate": at}) for name, at in (("low", 0.25), ("high", 0.5))]
    agents.append(agent("S", name="nop", baseline=True))
    ended = run(3, status="completed", progress={"done": 4, "planned": 4}, agent_models=2)
    [_, complete] = decider.take(ended, NOW, agents)
    assert complete.title == "r complete"
    assert "all agents 100.0 %" in complete.body
    assert complete.body.index("high:m: grade B") < complete.body.index("low:m: grade B")
    assert "nop" not in complete.body


def test_what_was_done_before_anybody_watched_is_not_told_but_a_budget_that_is_passed_is() -> None:
    finished = Watching(new=False)
    assert finished.take(agent("B"), run(5, status="completed", total_cost=99.0)) == []
    running = Watching(new=False)
    assert running.take(agent("B"), run(5, total_cost=99.0)) == ["budget:10.0"]
    assert running.take(run(6, status="completed", total_cost=99.0)) == ["finished:completed"]


def test_what_a_process_left_on_the_way_the_next_one_sends() -> None:
    decider = Decider(RULES)
    left = {"started": "pending", "grade:agent_model=a:m": "B", "grade:agent_model=a:m:B": "pending"}
    decider.begin("r", left, new=False)
    notices = decider.take(run(3), NOW) + decider.take(agent("B", 3), NOW)
    sent = [(notice.key, notice.again) for notice in notices]
    assert sent == [("started", True), ("grade:agent_model=a:m:B", True)]


def test_silence_is_told_once_and_each_further_stall_must_last_twice_as_long() -> None:
    watching = Watching()
    watching.take(run(1, last_event_at="2020-01-01T00:00:00Z"))  # a replay: it moves now
    assert watching.tick(NOW + 9 * MINUTE) == []
    assert watching.tick(NOW + 10 * MINUTE) == ["stalled:1:1"]
    assert watching.tick(NOW + 500 * MINUTE) == []
    watching.take(run(2), at=NOW + 600 * MINUTE)
    assert watching.tick(NOW + 619 * MINUTE) == []
    assert watching.tick(NOW + 620 * MINUTE) == ["stalled:1:2"]
    later = watching.again()
    later.take(run(2, last_event_at="2026-01-02T13:04:05Z"), at=NOW + 700 * MINUTE)
    assert later.tick(NOW + 9000 * MINUTE) == []


@pytest.mark.parametrize(
    "fields",
    [COMPLETED, {"progress": {"done": 4, "planned": 4}}, {"last_event_at": "2025-12-30T00:00:00Z"}],
    ids=["finished", "everything planned is in", "silent for days before the watch"],
)
def test_a_run_that_nobody_waits_for_does_not_stall(fields: dict[str, Any]) -> None:
    watching = Watching(new=False)
    watching.take(run(1, **fields))
    assert watching.tick(NOW + timedelta(days=9)) == []


def test_a_stall_that_began_before_the_watch_counts_from_the_last_event() -> None:
    watching = Watching(new=False)
    watching.take(run(1, last_event_at=(NOW - 8 * MINUTE).isoformat()))
    assert watching.tick(NOW + MINUTE) == []
    assert watching.tick(NOW + 2 * MINUTE) == ["stalled:1:1"]


def test_a_deleted_run_that_comes_again_begins_again() -> None:
    watching = Watching()
    watching.take(run(1))
    watching.decider.forget("r")
    assert not watching.decider.knows("r")
    assert watching.tick(NOW + timedelta(days=9)) == []
    watching.decider.begin("r", {}, new=True)
    assert watching.take(run(2)) == ["started"]


@pytest.mark.parametrize("name", [*HOSTILE, "<!channel>", "<@U123>", "`*x*`"])
def test_names_mention_no_user_and_link_nowhere(name: str) -> None:
    decider = a_decider(f"{name} 1", rules=RULES)
    plan = a_plan(run_id=f"{name} 1", display_name=name)
    trial = a_trial(run_id=f"{name} 1", agent=name, cost_usd=99.0)
    end = an_end(run_id=f"{name} 1", status=name)
    *agents, run = summaries(plan, trial, end)
    notices = decider.take(run, NOW, agents)
    assert [notice.key for notice in notices] == ["started", f"finished:{name}", "budget:10.0"]
    for text in [named(name), *(notice.title + notice.body for notice in notices)]:
        assert not set(text) & set("<>@`*[]\u202e")
        assert "://" not in text


def test_names_are_cut_and_keep_their_marks_in_another_form() -> None:
    assert len(named("x" * 512)) == MAX_NAME
    assert "\n" not in named("a\nb")
    [notice] = a_decider("r").take(run(1, display_name="<b>@all</b>"), NOW)
    assert notice.title == "‹b›＠all‹/b› (r) started"


# -----------------------------------------------------------------------------
# Who can no longer be overtaken, and whether a target is met: by hard bounds alone.


TASKS = [f"t{n}" for n in range(10)]
PLAN = a_plan(tasks=TASKS, attempts=1)


def trials(agent: str, passed: int, failed: int) -> list[Event]:
    outcomes = zip(TASKS, [True] * passed + [False] * failed, strict=False)
    return [a_trial(agent=agent, task_id=task, resolved=ok) for task, ok in outcomes]


def summaries(*events: Event) -> list[dict[str, Any]]:
    kinds = ("agent_model_summary", "run_summary")
    return [summary for summary in summarised(events).values() if summary["type"] in kinds]


def race(*events: Event) -> tuple[Race, dict[str, Any]]:
    *agents, run = summaries(*events)
    result = Race()
    for one_agent in agents:
        result.hear(one_agent)
    return result, run


AHEAD, LOST, CLOSE = trials("a", 6, 0), trials("b", 0, 6), trials("b", 1, 5)
ORACLE = trials("oracle", 8, 0)
OF_THREE = a_plan(tasks=TASKS, attempts=1, agent_models=["a:gpt-5", "b:gpt-5", "c:gpt-5"])


@pytest.mark.parametrize(
    ("events", "leads"),
    [
        ([PLAN, *AHEAD, *CLOSE, *trials("c", 0, 6)], Leader("a:gpt-5", 0.6, 0.5)),
        ([PLAN, *trials("a", 5, 0), *CLOSE, *trials("c", 0, 6)], None),  # b can still end level
        ([PLAN, *AHEAD, *ORACLE], None),  # a baseline is no rival, and one agent alone leads none
        ([PLAN, *AHEAD, *ORACLE, *LOST], Leader("a:gpt-5", 0.6, 0.4)),
        ([OF_THREE, *AHEAD, *LOST], None),  # c has not begun
        ([OF_THREE, *AHEAD, *LOST, *trials("c", 0, 6)], Leader("a:gpt-5", 0.6, 0.4)),
        ([*AHEAD, *LOST], None),  # without a plan there are no bounds
        ([PLAN, *trials("a", 9, 1), *trials("b", 1, 9)], None),  # every result is in: the board says it
    ],
)
def test_an_agent_leads_for_good_if_its_lower_bound_is_above_every_other_upper_bound(
    events: list[Event], leads: Leader | None
) -> None:
    result, run = race(*events)
    assert result.leader(run) == leads


def test_without_bounds_of_every_agent_nothing_is_settled() -> None:
    result, run = race(PLAN, *AHEAD, *LOST)
    [_, b, _] = summaries(PLAN, *AHEAD, *LOST)
    for uncertainty in (b["uncertainty"] | {"reachable": None}, None):
        result.hear(b | {"uncertainty": uncertainty})
        assert result.leader(run) is None
    assert list(result.settled(0.5)) == [Settled("a:gpt-5", "reached", 0.6)]
    result.forget("b:gpt-5")
    assert result.leader(run) is None, "one agent alone"


def test_a_target_is_reached_by_the_lower_bound_and_lost_by_the_upper_one() -> None:
    result, _ = race(PLAN, *AHEAD, *trials("b", 2, 5), *trials("c", 5, 2), *trials("nop", 0, 9))
    reached = Settled("a:gpt-5", "reached", 0.6)
    assert list(result.settled(0.6)) == [reached, Settled("b:gpt-5", "out of reach", 0.5)]
    assert list(result.settled(0.5)) == [reached, Settled("c:gpt-5", "reached", 0.5)]


TARGET = Rules(target=0.6)


def decided(decider: Decider, *events: Event) -> list[Notification]:
    """The notices that follow when these summaries arrive, the run's first, each delivered at once."""
    *agents, run = summaries(*events)
    result: list[Notification] = []
    for summary in (run, *agents):
        result += decider.take(summary, NOW)
    for notice in result:
        decider.delivered(notice)
    return [notice for notice in result if notice.key.startswith(("ahead", "target"))]


def test_each_notice_comes_once_with_what_it_depends_on() -> None:
    decider = a_decider("run-1", TARGET)
    assert decided(decider, PLAN, *trials("a", 5, 0), *trials("b", 0, 3)) == []
    reached, ahead, lost = decided(decider, PLAN, *trials("a", 6, 0), *trials("b", 1, 5))
    assert (ahead.key, ahead.title) == ("ahead:a:gpt-5", "run-1 a:gpt-5: can no longer be overtaken")
    assert ahead.body == (
        "It ends at 60.00 % or more, and the run's other agents at 50.00 % or less, "
        "unless results are corrected or another agent joins"
    )
    assert reached.key == "target:0.6:reached:a:gpt-5"
    assert reached.title == "run-1 a:gpt-5: target of 60.00 % reached"
    assert reached.body == "Its final pass rate cannot end below 60.00 %, unless results are corrected"
    assert lost.title == "run-1 b:gpt-5: target of 60.00 % out of reach"
    assert lost.body == "Its final pass rate cannot end above 50.00 %, unless results are corrected"
    assert decided(decider, PLAN, *trials("a", 7, 0), *trials("b", 1, 6)) == []
    without_a_target = decided(a_decider("run-1", Rules()), PLAN, *trials("a", 6, 0), *trials("b", 1, 5))
    assert [notice.key for notice in without_a_target] == ["ahead:a:gpt-5"]


def test_a_run_that_was_over_before_the_watch_settles_nothing_new() -> None:
    end = an_end(revision=1)
    events = [PLAN, *trials("a", 6, 0), *trials("b", 1, 5)]
    assert decided(a_decider("run-1", TARGET, new=False), *events, end) == []
    assert len(decided(a_decider("run-1", TARGET, new=False), *events)) == 3, "a running one is news"
    missed = [notice.key for notice in decided(a_decider("run-1", TARGET), *events, end)]
    assert missed == ["target:0.6:reached:a:gpt-5", "target:0.6:out of reach:b:gpt-5"]


# -----------------------------------------------------------------------------
# What a ledger says of a run's candidates, and when its first two agents will be told apart.


def a_ledger(verdict: str, evidence: float | None = 93.3, agent: str = "@b:m") -> LedgerResult:
    tried = verdict != "not_judged"
    of = {"run_id": "r", "agent_model": agent, "baseline": "base", "verdict": verdict, "evidence": evidence}
    judged = {"place": 1, "level": 1 / 40.5, "needed": 40.5, "missing": None}
    late = {"place": None, "level": None, "needed": None, "missing": "late"}
    counts = {"pairs": 20, "wins": 10, "losses": 0, "unknown": 0, "over": True, "planned_at": None}
    fields: dict[str, Any] = counts | of | (judged if tried else late)
    candidate = LedgerCandidate(**fields)
    sums = {"metric": "pass_rate", "level": 0.95, "tried": int(tried), "better": int(verdict == "better")}
    return LedgerResult(name="nightly", **sums, candidates=[candidate], words=[])


def ledger_notices(watching: Watching, *ledgers: LedgerResult) -> list[Notification]:
    return watching.deliver([notice for ledger in ledgers for notice in watching.decider.judged(ledger)])


def test_a_candidate_of_a_ledger_is_told_when_it_becomes_better_and_when_it_no_longer_is() -> None:
    """Each once, also over a restart; names act on no chat."""
    watching = Watching()
    assert ledger_notices(watching, a_ledger("better")) == [], "the run is not known yet"
    watching.take(run(1))
    verdicts = ("undecided", "better", "better", "undecided", "better", "undecided")
    better, lost = ledger_notices(watching, *map(a_ledger, verdicts))
    assert better.key == "ledger:nightly:@b:m:better"
    assert better.title == "r ＠b:m: better than base, in ledger nightly"
    assert better.body == "1 candidate tried, 1 better; evidence 93.3, 40.5 needed at place 1"
    assert lost.title == "r ＠b:m: no longer better than base, in ledger nightly"
    why = "An older candidate came late, or results were corrected. 1 candidate tried, 0 "
    assert lost.body.startswith(why)
    later = watching.again()
    later.take(run(2))
    assert ledger_notices(later, a_ledger("better"), a_ledger("not_judged", None)) == []


def test_verdicts_from_before_the_watch_are_adopted_and_their_loss_is_told() -> None:
    watching = Watching(new=False)
    watching.take(run(1))
    assert ledger_notices(watching, a_ledger("better")) == []
    [lost] = ledger_notices(watching, a_ledger("not_judged", None))
    assert lost.key == "ledger:nightly:@b:m:lost"
    left = {"ledger:nightly:@b:m": "better", "ledger:nightly:@b:m:better": "pending"}
    unsent = Watching(new=False, remembered=left)
    unsent.take(run(1))
    [better] = ledger_notices(unsent, a_ledger("better"))
    assert (better.key, better.again) == ("ledger:nightly:@b:m:better", True)


def an_estimate(pairs: int | None, left: int = 400) -> Decision:
    sides = {"ahead": "<x>:m", "behind": "y:m", "difference": 0.15, "pairs": pairs, "pairs_left": left}
    cost = 14.5 if pairs else None
    return Decision(**sides, cost_usd=cost, seconds=522.0 if pairs else None, words="")


def test_an_estimate_is_told_once_for_each_outcome_while_the_run_goes_on() -> None:
    decider = a_decider()
    assert decider.estimated("r", an_estimate(58)) == [], "the run is not known yet"
    decider.take(run(1), NOW)
    [within] = decider.estimated("r", an_estimate(58))
    assert within.title == "r estimate: it will tell its top two agents apart"
    decided = "a difference of 15.0 points between ‹x›:m and y:m is decided after about 58 more pairs"
    assert within.body.splitlines()[0] == f"estimate: at this rate {decided}, $14.50, 8.7 min"
    assert decider.estimated("r", an_estimate(57)) == []
    [beyond] = decider.estimated("r", an_estimate(58, left=20))
    assert beyond.title == "r estimate: it will not tell its top two agents apart"
    assert beyond.body.splitlines()[0].endswith("this run has 20 left, so it will not decide")
    assert decider.estimated("r", an_estimate(None)) == []
    over = a_decider()
    over.take(run(3, status="completed"), NOW)
    assert over.estimated("r", an_estimate(58)) == []


def test_too_many_rejections_in_a_minute_are_told_and_then_not_for_an_hour() -> None:
    rate, second = RejectionRate(3), timedelta(seconds=1)
    spread = [rate.take("not_json", None, NOW + 20 * n * second) for n in range(1, 30)]
    assert spread == [None] * 29
    at = NOW + timedelta(hours=1)
    burst = [rate.take("missing_field", f"<r{n}>", at) for n in range(50)]
    [told] = [notice for notice in burst if notice]
    assert "more than 3 records rejected within a minute" in told.title
    assert "missing_field" in told.body
    assert "‹r0›" in told.body
    named = re.findall(r"'streamer (rejections \w+)'", told.body)
    assert named == ["rejections list", "rejections requeue"]
    assert all(streamer(*command.split(), "--help").returncode == 0 for command in named)
    again = [rate.take("x", None, at + QUIET + n * second) for n in range(4)]
    assert len([notice for notice in again if notice]) == 1
    assert RejectionRate(0, told_at=at).take("x", None, at + MINUTE) is None


def test_a_clock_that_was_set_back_neither_silences_nor_adds_up_rejections() -> None:
    assert RejectionRate(0, told_at=NOW + timedelta(days=1)).take("x", None, NOW)
    rate = RejectionRate(1)
    assert rate.take("x", None, NOW + timedelta(hours=1)) is None
    assert rate.take("x", None, NOW) is None, "one a minute"
    assert rate.take("x", None, NOW)
