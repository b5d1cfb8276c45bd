"""A ledger: which candidates it judges, in which order, by which level, on which evidence (inference 8a)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.state import RunState
from streamer.schemas.base import canonical_json
from streamer.schemas.summaries import RunSummary
from streamer.statistics.ledger import evidence_better, judged
from streamer.statistics.pairs import Pair
from streamer.terminal import cli, compare
from streamer.views.decide.gate import NoSuchSide, entrant
from streamer.views.decide.ledger import (
    LedgerCandidate,
    LedgerResult,
    NoSuchLedger,
    Race,
    archived,
    entries_of,
    judged_before,
    ledger_of,
    names_of,
    runs_of,
)
from tests.folding.matched import ORDER, the_plan, trial
from tests.support.builders import present
from tests.support.cli import streamer
from tests.support.events import Event, a_deletion, a_plan, folded
from tests.terminal.calling import ndjson

NAME = "nightly"
LEDGER = {"name": NAME, "baseline": "base"}


def day(number: int, hour: int = 10) -> str:
    return f"2026-03-{number:02}T{hour:02}:00:00Z"


def entered(run: str, at: int, passed: Iterable[int] = (), agent: str = "b", **plan: Any) -> list[Event]:
    """A candidate that was declared some day; it passes these of the twenty tasks, in the queue's order."""
    plan = {"planned_at": day(at), "started_at": day(at), "ledger": LEDGER} | plan
    return [the_plan(run, **plan), *trials(run, agent, passed, at)]


def trials(run: str, agent: str, passed: Iterable[int], at: int, of: int = 20) -> list[Event]:
    best = set(passed)
    return [
        trial(run, agent, task, n in best, started_at=day(at, 11), finished_at=day(at, 12))
        for n, task in enumerate(ORDER[:of])
    ]


BASE = [
    the_plan("base", started_at=day(1), planned_at=day(1), concurrency=4),
    *trials("base", "a", range(4), 1),
]
"""The baseline passes the first four of twenty tasks."""

BEST, EQUAL = range(20), range(4)


def without_verdicts(events: Iterable[Event]) -> list[Event]:
    """The same trials with a number each, and no verdict (R31)."""
    scored = {"resolved": None, "metrics": {"match": 0.5}}
    return [event | (scored if "task_id" in event else {}) for event in events]


def states_of(events: Iterable[Event]) -> dict[str, RunState]:
    pipeline, _ = folded(events)
    return {run_id: pipeline.run(run_id).state for run_id in pipeline.runs()}


def ledger(events: Iterable[Event], name: str = NAME) -> LedgerResult:
    return ledger_of(name, states_of(events))


def lines(events: Iterable[Event]) -> list[tuple[int | None, str, str, str | None]]:
    return [(one.place, one.run_id, one.verdict, one.missing) for one in ledger(events).candidates]


def only(events: Iterable[Event]) -> LedgerCandidate:
    [one] = ledger(events).candidates
    return one


def test_candidates_are_judged_in_the_order_in_which_they_were_declared() -> None:
    events = [*BASE, *entered("c", 4, BEST), *entered("d", 2, BEST), *entered("b", 3, EQUAL)]
    order = [(1, "d", "better", None), (2, "b", "undecided", "not_ahead"), (3, "c", "better", None)]
    assert lines(events) == order
    result = ledger(events)
    first, _, last = result.candidates
    assert (result.tried, result.better, result.metric) == (3, 2, "pass_rate")
    expected = judged([present(first.evidence), 0.0, present(last.evidence)])
    levels = [(one.level, one.needed) for one in result.candidates]
    assert levels == [(one.level, one.needed) for one in expected]


def test_the_evidence_is_of_all_planned_pairs_and_unknown_ones_count_against_the_candidate() -> None:
    one = only([*BASE, *entered("c", 2, BEST)[:16]])
    pairs = [Pair(n < 4, True if n < 15 else None) for n in range(20)]
    assert one.evidence == evidence_better(pairs, pairs, 20)
    assert (one.pairs, one.wins, one.losses, one.unknown) == (20, 11, 0, 5)


def test_a_planned_candidate_has_its_place_before_its_first_trial() -> None:
    """Otherwise its first result would lower the level of others."""
    waiting = the_plan("c", planned_at=day(2), ledger=LEDGER, agent_models=["b:m", "nop:m"])
    events = [*BASE, waiting, *entered("d", 3, BEST)]
    assert lines(events) == [(1, "c", "undecided", "not_ahead"), (2, "d", "better", None)]
    unknown = evidence_better([], [Pair(n < 4, None) for n in range(20)], 20)
    assert ledger(events).candidates[0].evidence == unknown


def test_an_agent_of_its_own_run_is_the_baseline_and_no_candidate() -> None:
    """Candidates of one time come by run and by label."""
    ours = {"name": NAME, "baseline": "c/a:m"}
    one = only([*entered("c", 2, BEST, ledger=ours), *trials("c", "a", EQUAL, 2)])
    assert (one.agent_model, one.verdict) == ("b:m", "better")
    three = [*entered("c", 2), *trials("c", "x", BEST, 2), *trials("c", "y", BEST, 2)]
    result = ledger([*BASE, *entered("d", 2, BEST), *three])
    order = [(one.run_id, one.agent_model) for one in result.candidates]
    assert order == [("c", "b:m"), ("c", "x:m"), ("c", "y:m"), ("d", "b:m")]


def test_a_baseline_that_names_its_own_ledger_is_no_candidate() -> None:
    """A script may name the ledger in every plan, as RUN; then the baseline's run does, too."""
    events = [BASE[0] | {"ledger": LEDGER}, *BASE[1:], *entered("c", 2, BEST)]
    assert lines(events) == [(1, "c", "better", None)]
    entries = entries_of(states_of(events).values())
    assert (entries["base"].candidates, entries["c"].candidates) == (0, 1)
    two = [*events, *trials("base", "z", EQUAL, 1)]
    assert [one.missing for one in ledger(two).candidates] == ["baseline_missing"] * 3


def test_an_agent_that_no_plan_named_before_the_first_trial_takes_no_place() -> None:
    late = a_plan(run_id="c", revision=1, planned_at=day(9), agent_models=["b:m", "aaa:m", "zzz:m"])
    events = [*BASE, *entered("c", 2, BEST, agent_models=["b:m"]), *trials("c", "aaa", BEST, 3)]
    for more in (events, [*events, late], [late, *events]):
        first, *others = ledger(more).candidates
        assert (first.place, first.agent_model, first.verdict) == (1, "b:m", "better")
        others_said = {(one.place, one.verdict, one.missing) for one in others}
        assert others_said == {(None, "not_judged", "undeclared")}
        assert entries_of(states_of(more).values())["c"].candidates == 1
    assert ledger([*events, late | {"planned_at": day(2)}]).tried == 3


def test_a_verdict_needs_a_candidate_that_is_ahead() -> None:
    """Much evidence of an early prefix, and behind in the end (inference 7, ahead)."""
    tasks = [f"t{n:03}" for n in range(100)]
    outcomes = [(n >= 40, n % 2 == 0) for n in range(100)]
    plan = {"tasks": tasks, "order": tasks}
    events = [the_plan("base", planned_at=day(1), started_at=day(1), **plan), entered("c", 2, **plan)[0]]
    for task, passed in zip(tasks, outcomes, strict=True):
        sides = zip(("base", "c"), "ab", passed, (1, 2), strict=True)
        events += [trial(run, agent, task, one, started_at=day(at, 11)) for run, agent, one, at in sides]
    one = only(events)
    pairs = [Pair(*pair) for pair in outcomes]
    assert one.evidence == evidence_better(pairs, pairs, 100)
    assert (one.evidence or 0) > (one.needed or 0)
    assert (one.verdict, one.missing, one.wins, one.losses) == ("undecided", "not_ahead", 20, 30)


def test_an_older_candidate_that_arrives_late_takes_a_verdict_away() -> None:
    before = [*BASE, *entered("c", 4, range(14))]
    after = [*before, *entered("b", 3, EQUAL)]
    assert lines(before) == [(1, "c", "better", None)]
    assert lines(after) == [(1, "b", "undecided", "not_ahead"), (2, "c", "undecided", None)]
    result, later = ledger(before), ledger(after)
    assert result.candidates[0].evidence == later.candidates[1].evidence
    assert "an older candidate that arrives late may undo a verdict" in result.words
    assert [line for line in later.words if line.startswith("b:m of c: evidence of")] == [
        "b:m of c: evidence of 93.3 is enough for one candidate (20), not for number 2 (153)"
    ]


@pytest.mark.parametrize(
    ("plan", "trials", "missing"),
    [
        ({"planned_at": None, "started_at": None}, {}, "undated"),
        ({"planned_at": day(9)}, {}, "late"),
        ({}, {"started_at": None, "finished_at": None}, "late"),  # no time proves a declaration before
        ({"ledger": LEDGER | {"metric": "cost_usd"}}, {}, "other_metric"),
    ],
)
def test_a_candidate_that_is_not_judged_is_listed_and_takes_no_place(
    plan: Event, trials: Event, missing: str
) -> None:
    declared, *results = entered("b", 3, BEST, **plan)
    events = [*BASE, declared, *(event | trials for event in results), *entered("c", 2, BEST)]
    assert lines(events) == [(1, "c", "better", None), (None, "b", "not_judged", missing)]
    result = ledger(events)
    assert (result.tried, result.candidates[1].level, result.candidates[1].needed) == (1, None, None)


@pytest.mark.parametrize(
    ("events", "missing"),
    [
        (entered("c", 2, BEST), "baseline_missing"),
        ([*BASE, *trials("base", "x", EQUAL, 1), *entered("c", 2, BEST)], "baseline_missing"),
        ([*BASE, *entered("c", 2, BEST, tasks=20, order=None)[:16]], "no_plan"),
        ([*BASE, *entered("c", 2, BEST, attempts=None)], "no_plan"),
        ([*BASE, *entered("c", 2, BEST), the_plan("c", revision=1, tasks=ORDER[:12])], "plan_changed"),
        ([BASE[0] | {"provenance": {"timeout": "1"}}, *BASE[1:],
          *entered("c", 2, BEST, provenance={"timeout": "2"})], "not_comparable"),
        ([*BASE, *entered("c", 2, BEST, tasks=[*ORDER[:10], "new"], order=None)[:11]], "tasks_differ"),
        ([*BASE, *without_verdicts(entered("c", 2, BEST))], "no_verdicts"),
        ([*without_verdicts(BASE), *entered("c", 2, BEST)], "no_verdicts"),
        ([*BASE, *entered("c", 2, BEST, ledger={"name": NAME, "baseline": "base", "metric": "cost_usd"})],
         "metric_unknown"),
    ],
)  # fmt: skip
def test_a_candidate_without_evidence_keeps_its_place_and_says_why(events: list[Event], missing: str) -> None:
    one = only(events)
    assert (one.place, one.verdict, one.missing, one.evidence) == (1, "undecided", missing, None)


def test_the_plan_that_named_a_ledger_first_counts_and_a_later_one_moves_nothing() -> None:
    """Nobody leaves a ledger, or moves to its front, once results are known, with however many plans."""
    events = [*BASE, *entered("b", 2, EQUAL), *entered("c", 3, BEST, agent_models=["b:m"])]
    other = {"name": "other", "baseline": "base"}
    later = [
        a_plan(run_id="c", revision=2, planned_at=day(5), ledger=other),
        a_plan(run_id="c", revision=3, planned_at=day(6), ledger=LEDGER | {"baseline": "b"}),
        *(a_plan(run_id="c", revision=n, planned_at=day(7), ledger=LEDGER) for n in range(4, 84)),
    ]
    assert ledger([*events, *later]) == ledger([*later, *events]) == ledger(events)
    assert ledger([*events, *later], "other").candidates == []
    undated = [event | {"planned_at": None, "started_at": None} for event in later]
    assert ledger([*undated, *events]) == ledger(events)
    earlier = a_plan(run_id="c", revision=99, planned_at=day(1), ledger=LEDGER)
    assert [one.run_id for one in ledger([*events, earlier]).candidates] == ["c", "b"]


def test_a_ledger_of_parts_is_one_and_a_deleted_plan_counts_no_more() -> None:
    parts = [
        a_plan(run_id="c", part=str(n), parts=2, planned_at=day(at), tasks=tasks, attempts=1, ledger=LEDGER)
        for n, at, tasks in ((1, 3, ORDER[:10]), (2, 2, ORDER[10:]))
    ]
    deleted = a_deletion(run_id="c", revision=0)
    again = [deleted, *(event | {"revision": 1} for event in entered("c", 5, BEST))]
    for events, at in ((trials("c", "b", BEST, 4), 2), (again, 5)):
        one = only([*BASE, *parts, *events])
        assert (one.planned_at and one.planned_at.day, one.verdict) == (at, "better")


def test_a_baseline_that_had_begun_before_it_was_named_is_said() -> None:
    said = [line for line in ledger([*BASE, *entered("c", 2, BEST)]).words if "nothing shows" in line]
    assert ["baseline base was named before its first trial" in line for line in said] == [True]
    waiting = the_plan("c", planned_at=day(1, 1), started_at=day(2), ledger=LEDGER, agent_models=["b:m"])
    assert not any("nothing shows" in line for line in ledger([*BASE, waiting]).words)


EVENTS = [
    *BASE,
    *entered("b", 3, [*EQUAL, 9]),
    *entered("c", 2, BEST),
    *trials("c", "x", range(2, 14), 2),
    a_plan(run_id="c", revision=1, planned_at=day(5), ledger={"name": "other", "baseline": "b"}),
    *entered("d", 4, range(1, 15)),
    trial("d", "b", ORDER[3], False, revision=1, started_at=day(4, 11)),
    *entered("late", 4, BEST, planned_at=day(9)),
]


def written(result: LedgerResult) -> bytes:
    return canonical_json(result.model_dump(mode="json"))


RESULT = ledger(EVENTS)
EXPECTED, ABOVE = written(RESULT), 10**18


def archiving(run_id: str, events: Iterable[Event]) -> list[Event]:
    """The events that archive a run, as `streamer delete` publishes them."""
    pipeline, _ = folded(events)
    [summary] = [c.summary for c in pipeline.run(run_id).summaries() if c.kind == "run"]
    run = RunSummary.model_validate_json(canonical_json(summary))
    kept = archived(ledger(events), run, ABOVE + 1)
    return [a_deletion(run_id=run_id, revision=ABOVE), *kept]


def settled(result: LedgerResult) -> list[dict[str, Any]]:
    """Its lines; nothing more is awaited of an archived run."""
    return [one.model_dump(mode="json", exclude={"over"}) for one in result.candidates]


@given(
    st.randoms(use_true_random=False), st.sets(st.sampled_from(["b", "c", "d", "late"])), st.integers(0, 3)
)
def test_the_same_events_give_the_same_bytes_in_any_order_and_twice_and_archiving_keeps_the_lines(
    chance: Random, gone: set[str], twice: int
) -> None:
    """Places, levels, evidence and verdicts of all candidates stay; inference 8a."""
    archives = (event for run in sorted(gone) for event in archiving(run, EVENTS))
    events = [*EVENTS, *chance.choices(EVENTS, k=twice), *archives]
    chance.shuffle(events)
    result, states = ledger(events), states_of(events)
    assert gone or written(result) == EXPECTED
    assert (settled(result), result.better) == (settled(RESULT), RESULT.better)
    assert all(not states[run].slots for run in gone)
    entries, before = entries_of(states.values()), entries_of(states_of(EVENTS).values())
    judged_of = {run: one.candidates for run, one in entries.items() if one.in_time}
    assert judged_of == {run: one.candidates for run, one in before.items() if one.in_time}


def test_archived_candidates_keep_their_places_and_an_archived_run_may_be_deleted_again() -> None:
    events = [*EVENTS, *archiving("c", EVENTS)]
    later = ledger([*events, *entered("e", 6, BEST)])
    places = [(one.run_id, one.place) for one in later.candidates[:5]]
    assert places == [("c", 1), ("c", 2), ("b", 3), ("d", 4), ("e", 5)]
    again = archiving("c", events)
    assert settled(ledger([*events, *again])) == settled(RESULT), "archived twice"
    gone = ledger([*events, a_deletion(run_id="c", revision=ABOVE + 2)])
    assert [one.run_id for one in gone.candidates] == ["b", "d", "late"]


def test_an_archived_candidate_keeps_the_name_of_its_agent() -> None:
    """A colon in it is encoded in the label."""
    events = [*BASE, *entered("c", 2, BEST, agent="pkg:B")]
    assert only(events).agent_model == "pkg%3AB:m"
    assert settled(ledger([*events, *archiving("c", events)])) == settled(ledger(events))


def test_lines_of_a_run_that_was_never_deleted_do_not_count() -> None:
    """Or anybody could write a verdict into a plan."""
    forged = LEDGER | {"lines": {"b:m": [1e9, None, 20, 20, 0, 0]}}
    above = a_plan(run_id="c", planned_at=day(4), ledger=forged, revision=ABOVE + 1)
    for candidate in (entered("c", 4, EQUAL, ledger=forged), [*entered("c", 4, EQUAL), above]):
        assert ledger([*BASE, *candidate]).better == 0
    unknown = LEDGER | {"lines": {"b:m": [1e9, "of another version", 20, 20, 0, 0]}}
    deleted = a_deletion(run_id="c", revision=ABOVE)
    events = [*BASE, *entered("c", 4, EQUAL), deleted, above | {"ledger": unknown}]
    assert lines(events) == [(1, "c", "undecided", "not_ahead")]


def test_trials_under_the_id_of_an_archived_candidate_keep_its_place_and_lose_its_verdict() -> None:
    """The verdict was of other trials."""
    events = [*BASE, *entered("c", 2, BEST), *entered("d", 3, BEST)]
    gone = [*events, *archiving("c", events)]
    assert lines(gone) == [(1, "c", "better", None), (2, "d", "better", None)]
    again = [*gone, *(event | {"revision": ABOVE + 2} for event in trials("c", "b", EQUAL, 7))]
    assert lines(again) == [(1, "c", "undecided", "begun_again"), (2, "d", "better", None)]
    assert ledger(again).candidates[0].evidence is None


def test_ledgers_are_listed_with_the_runs_that_they_need() -> None:
    more = entered("e", 5, ledger={"name": "x", "baseline": "u/v:w/x"})
    entries = entries_of(states_of([*EVENTS, *more]).values())
    listed = [(one.name, one.runs, one.candidates, one.baselines) for one in names_of(entries)]
    assert listed == [(NAME, 4, 5, ["base"]), ("x", 1, 1, ["u/v:w/x"])]
    assert runs_of(NAME, entries) == {"base", "b", "c", "d", "late"}
    assert runs_of("x", entries) == {"e", "u/v:w/x", "u"}
    with pytest.raises(NoSuchLedger, match=f"no ledger 'y'. Ledgers: {NAME}, x|'y'. Ledgers: {NAME}, x"):
        runs_of("y", entries)


def test_the_summary_of_a_run_says_which_ledger_it_enters() -> None:
    pipeline, _ = folded(EVENTS)
    [summary] = [c.summary for c in pipeline.run("d").summaries() if c.kind == "run"]
    assert summary is not None
    of_run = {"metric": "pass_rate", "planned_at": day(4), "in_time": True, "candidates": 1}
    assert summary["ledger"] == LEDGER | of_run


def file_of(folder: Path, events: list[Event]) -> Path:
    file = folder / "events.ndjson"
    file.write_bytes(ndjson(events))
    return file


def called(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(one) for one in arguments])
    return done.exit_code, done.output


def run(*arguments: object) -> str:
    code, text = called(*arguments)
    assert code == 0, text
    return text


def test_the_command_prints_the_ledger_of_a_file(tmp_path: Path) -> None:
    of_file = ("--from", file_of(tmp_path, EVENTS))
    for form in (["--json"], ["--format", "json"]):
        assert run("ledger", NAME, *of_file, *form).encode() == EXPECTED + b"\n"
    text = run("ledger", NAME, *of_file, "--wide")
    assert "5 candidates" not in text
    assert "4 candidates tried, 1 better than the baseline." in text
    assert "not judged: nothing shows that it was declared before its first trial" in text
    assert json.loads(run("ledger", *of_file, "--json"))["name"] == NAME
    assert run("ledger", *of_file, "--format", "md").startswith("## Ledgers\n")
    for asked in (["nigthly"], [NAME, "--as-of", 0]):  # the plans of others come later
        code, text = called("ledger", *asked, *of_file)
        assert (code, "Ledgers: n" in text) == (2, True)
    hostile = file_of(tmp_path, [*BASE, *entered("c\u202e<i>", 2, BEST, agent="b\u202e<img>")])
    assert "\u202e" not in run("ledger", NAME, "--from", hostile, "--wide")
    html = run("ledger", NAME, "--from", hostile, "--format", "html")
    assert ("<img>" in html, "&lt;img&gt;" in html) == (False, True)


def test_a_log_that_has_lost_its_beginning_is_said() -> None:
    said = "the log of partition 3 begins at offset 1,007, so candidates and results may be missing"
    assert ledger_of(NAME, states_of(EVENTS), {"partition 3": 1_007}).words[-1] == said


def gated(*arguments: object) -> tuple[int, str]:
    return called("gate", *arguments)


def counted_before(file: Path, candidate: str) -> int:
    """How many other candidates a plain gate has beside this one."""
    return int(
        json.loads(gated(f"{file}/{candidate}", "--against", f"{file}/base", "--json")[1])["judged_before"]
    )


def test_a_gate_passes_by_the_level_of_the_ledger_and_is_else_undecided(tmp_path: Path) -> None:
    alone = file_of(tmp_path, [*BASE, *entered("c", 4, range(14))])
    assert gated(f"{alone}/c", "--ledger", NAME) == (
        0,
        "PASS: b:m of c better than base, in ledger nightly, number 1 of 1 candidate\n"
        "  evidence that it is better 93.3, 40.5 needed at this place\n"
        "  20 of 20 pairs: only the candidate passed 10, only the baseline 0\n",
    )
    second = file_of(tmp_path, [*BASE, *entered("c", 4, range(14)), *entered("b", 3, EQUAL)])
    code, text = gated(f"{second}/c/b:m", "--ledger", NAME)
    assert (code, text.splitlines()[1]) == (3, "  evidence that it is better 93.3, 153 needed at this place")


def test_a_candidate_that_is_not_judged_is_undecided_and_a_stranger_is_used_wrongly(tmp_path: Path) -> None:
    file = file_of(tmp_path, [*BASE, *entered("c", 2, BEST, planned_at=day(9))])
    code, text = gated(f"{file}/c", "--ledger", NAME)
    assert (code, text.splitlines()[1]) == (3, "  nothing shows that it was declared before its first trial")
    code, text = gated(f"{file}/base", "--ledger", NAME)
    assert (code, "a:m of run 'base' is not a candidate in ledger 'nightly'" in text) == (3, True)
    verdict = json.loads(gated(f"{file}/c", "--ledger", NAME, "--json")[1])
    said = (verdict["type"], verdict["verdict"], verdict["candidate"]["missing"])
    assert said == ("ledger_verdict", "undecided", "late")


@pytest.mark.parametrize("later", ["c", "c/b:m"])
def test_a_candidate_that_has_not_begun_is_waited_for_and_so_is_its_ledger(
    monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    """No run names the ledger at first. Then its baseline is read, and an older one that came meanwhile."""
    log, candidate = list(BASE), entered("c", 4, range(14))
    followed: list[set[str]] = []

    class Followed:
        def __init__(self, _: object, run_ids: Iterable[str], __: object) -> None:
            self._run_ids = set(run_ids)
            followed.append(self._run_ids)

        def states(self) -> dict[str, RunState]:
            return {id_: run for id_, run in states_of(log).items() if id_ in self._run_ids}

        async def looks(self, _: float) -> AsyncGenerator[None]:
            yield
            log.extend(candidate[:8] if len(followed) == 1 else [*candidate[8:], *entered("b", 3, EQUAL)])
            while True:
                yield

    stored = SimpleNamespace(runs=lambda: list(states_of(log).values()))
    monkeypatch.setattr(compare, "FollowedRuns", Followed)
    monkeypatch.setattr(compare, "StateReader", lambda _: nullcontext(stored))
    code, text = gated(later, "--ledger", NAME)
    assert (code, f"No run belongs to a ledger {NAME!r}" in text, followed) == (3, True, [])
    code, text = gated(later, "--ledger", NAME, "--timeout", 30)
    said = "UNDECIDED: b:m of c better than base, in ledger nightly, number 2 of 2 candidates"
    assert (code, text.splitlines()[0]) == (3, said)
    assert followed == [{"c", later}, {"c", later, "base"}, {"c", later, "base", "b"}]


IGNORED = [
    *(["--target", "0.5"], ["--level", "0.95"], ["--allow", "timeout"], ["--metric", "cost_usd"]),
    *(["--question", "final"], ["--max-drop", "0"], ["--junit", "x"], ["--markdown", "x"]),
]


@pytest.mark.parametrize("more", [["--against", "x"], ["--race"], *IGNORED])
def test_a_ledger_and_a_race_leave_no_room_for_other_questions(more: list[str], tmp_path: Path) -> None:
    """Also where an option says what holds anyway."""
    code, text = gated("c", "--ledger", NAME, *more)
    assert (code, "does not allow --" in text) == (2, True)
    if more in IGNORED:
        code, text = gated(file_of(tmp_path, race_of(FIELD)), "--race", *more)
        assert (code, f"--race does not allow {more[0]}. It only compares" in text) == (2, True)


def test_a_plain_gate_says_how_many_other_candidates_were_judged(tmp_path: Path) -> None:
    """A candidate by another metric than the ledger's was counted, too."""
    file = file_of(tmp_path, EVENTS)
    _, text = gated(f"{file}/d", "--against", f"{file}/base")
    line = "  ledgers judge 3 other candidates against this baseline, and the best of many equal ones looks"
    assert f"{line} better" in text.splitlines()
    assert counted_before(file, "d") == 3
    alone = file_of(tmp_path, [*BASE, *entered("c", 2, BEST)])
    assert "ledgers judge" not in gated(f"{alone}/c", "--against", f"{alone}/base")[1]
    by_cost = entered("d", 3, EQUAL, ledger=LEDGER | {"metric": "cost_usd"})
    file = file_of(tmp_path, [*BASE, *by_cost, *entered("c", 2, BEST), *entered("e", 4, BEST)])
    assert [counted_before(file, run) for run in "cde"] == [1, 2, 1]
    own = [BASE[0] | {"ledger": LEDGER}, *BASE[1:], *entered("c", 2, BEST)]
    assert counted_before(file_of(tmp_path, own), "c") == 0


def test_candidates_against_the_same_agent_are_counted_those_of_the_own_run_too() -> None:
    """Eight candidates, the own one included: by agent, however the baseline is named."""
    of_run, of_p, of_q = ({"name": NAME, "baseline": text} for text in ("base", "two/p:m", "two/q:m"))
    three = [*entered("c", 2, BEST, ledger=of_p), *trials("c", "x", EQUAL, 2), *trials("c", "y", EQUAL, 2)]
    two = [the_plan("two", started_at=day(1)), *trials("two", "p", EQUAL, 1), *trials("two", "q", EQUAL, 1)]
    events = [
        *(*BASE, *two, *three, *entered("d", 3, BEST, ledger=of_q)),
        *(*entered("e", 4, BEST, ledger=of_run), *entered("late", 4, BEST, planned_at=day(9))),
        *entered("f", 4, BEST, ledger={"name": "other", "baseline": "base/a:m"}),
        *entered("g", 4, BEST, ledger={"name": "other", "baseline": "two"}),
    ]
    states = states_of(events)

    def before(candidate: str, baseline: str) -> int:
        sides = (entrant(text, text, states, fixed=True).trials for text in (candidate, baseline))
        ours, theirs = (side for side in sides if side is not None)
        return judged_before(entries_of(states.values()), ours, theirs)

    assert [before(one, "two/p:m") for one in ("c/b:m", "d", "base")] == [2, 3, 3]
    assert [before(one, "two/q:m") for one in ("c/b:m", "d")] == [1, 0]
    assert [before(one, text) for one in ("e", "d") for text in ("base", "base/a:m")] == [1, 1, 2, 2]


TASKS = [f"t{n:02}" for n in range(60)]


def race_of(passed: dict[str, int], of: int = 60, **plan: Any) -> list[Event]:
    """A run of several agents at sixty tasks; each passes so many of twenty, evenly spread."""
    declared = {"planned_at": day(1), "started_at": day(1), "tasks": TASKS, "order": TASKS}
    declared |= {"agent_models": [f"{agent}:m" for agent in passed]}
    results = [
        trial("r", agent, task, n * 7 % 20 < best, started_at=day(1, 11))
        for n, task in enumerate(TASKS[:of])
        for agent, best in passed.items()
    ]
    return [the_plan("r", **declared | plan), *results]


def with_a_timeout_of_d(events: list[Event]) -> list[Event]:
    """The same events, but that agent `d` had less time than the others."""
    own = {agent: {"provenance": {"timeout": "60" if agent == "d" else "600"}} for agent in "abcde"}
    return [event | own.get(event.get("agent", ""), {}) for event in events]


FIELD = {"a": 18, "b": 17, "c": 2, "d": 3}


def looked(race: Race, events: list[Event]) -> list[tuple[str, str]]:
    run = states_of(events)["r"]
    return [(one.agent_model, one.worse_than) for one in race.look(run, None)]


def test_a_race_drops_those_that_are_worse_than_one_that_is_not_and_they_stay_dropped() -> None:
    race, whole = Race("r"), race_of(FIELD)
    assert looked(race, race_of(FIELD, of=6)) == []
    assert not race.is_over(states_of(race_of(FIELD, of=6))["r"], None)
    assert sorted(looked(race, race_of(FIELD, of=30))) == [("c:m", "a:m"), ("d:m", "a:m")]
    assert [one.known for one in race.dropped] == [30, 30]
    better = [event | {"resolved": True, "revision": 1} for event in whole if event.get("agent") == "c"]
    for events in (whole, [*whole, *better]):
        assert looked(race, events) == []
        assert race.racing == ["a:m", "b:m"]
    assert race.is_over(states_of(whole)["r"], None)
    assert looked(Race("r"), [*whole, *better]) != [("c:m", "a:m")]
    equal = Race("r")
    assert looked(equal, race_of(dict.fromkeys("abcd", 10))) == []
    assert len(equal.racing) == 4


def test_a_candidate_made_in_another_way_neither_drops_nor_is_dropped() -> None:
    """R36: `d` has a timeout of its own. It is worse than no other candidate, and none is worse than `d`."""
    race = Race("r")
    assert looked(race, with_a_timeout_of_d(race_of(FIELD, of=30))) == [("c:m", "a:m")]
    assert race.racing == ["a:m", "b:m", "d:m"]


def test_a_race_names_who_may_not_be_compared_and_is_not_decided(tmp_path: Path) -> None:
    """Inference 10: the others race on."""
    code, text = gated(file_of(tmp_path, with_a_timeout_of_d(race_of(FIELD | {"e": 2}))), "--race")
    assert code == 3
    assert re.findall("DROPPED (.:m)", text) == ["c:m", "e:m"]
    assert [line for line in text.splitlines() if "not comparable" in line] == [
        f"not comparable: {one}:m and d:m: only 0 of 60 common tasks agree in timeout" for one in "ab"
    ]
    base = [event | {"run_id": "base"} for event in race_of({"z": 10}, provenance={"timeout": "5"})]
    others = base[0] | {"tasks": [*TASKS[:50], "new"], "order": None}
    for events, why in (
        ([*race_of(FIELD, provenance={"timeout": "6"}), *base], "timeout 6 against 5"),
        ([*race_of(FIELD), others, *base[1:51]], ""),
    ):
        file = file_of(tmp_path, events)
        code, text = gated(f"{file}/r", "--race", "--against", f"{file}/base", "--json")
        assert (code, f"not comparable: a:m and base/z:m: {why}" in text) == (3, True)


def test_a_race_whose_pairs_cannot_be_matched_says_so_and_is_not_decided(tmp_path: Path) -> None:
    """More trials than planned; a baseline with no task of the run; numbers in place of verdicts (R31)."""
    two = {"a": 18, "b": 2}
    for events, why in (
        (race_of(two, tasks=TASKS[:50], order=TASKS[:50]), "a side has more trials than planned"),
        (without_verdicts(race_of(two)), "one side has no verdicts"),
    ):
        code, text = gated(file_of(tmp_path, events), "--race")
        assert (code, "DROPPED" in text) == (3, False)
        assert f"not comparable: a:m and b:m: {why}\n" in text
    base = [the_plan("base", tasks=["x"], order=["x"]), trial("base", "z", "x", True)]
    file = file_of(tmp_path, [*race_of(two), *base])
    code, text = gated(f"{file}/r", "--race", "--against", f"{file}/base")
    assert (code, text.count("and base/z:m: no task is planned on both sides\n")) == (3, 2)


def test_a_race_takes_one_run_of_a_file_and_the_whole_of_it(tmp_path: Path) -> None:
    other = [event | {"run_id": "q"} for event in race_of(dict.fromkeys("ab", 10))]
    file = file_of(tmp_path, [*other, *race_of(FIELD)])
    code, text = gated(file, "--race")
    assert (code, "holds 2 runs; name one" in text) == (2, True)
    code, text = gated(f"{file}/r", "--race")
    dropped = re.findall(r"DROPPED (.:m): worse than a:m, evidence .*, after 60 of 60 trials", text)
    assert (code, dropped, "left: a:m, b:m" in text) == (0, ["c:m", "d:m"], True)
    for wrong in ("ZZ", "a:m", "r/a:m"):
        code, text = gated(f"{file}/{wrong}", "--race")
        assert (code, "has no run or agent" in text, "timeout" in text) == (2, True, False)
    assert gated(f"{file}/r", "--race", "--against", f"{file}/r/z:m")[0] == 2
    assert "left: b:m" in gated(f"{file}/r", "--race", "--against", f"{file}/r/a:m")[1]
    code, text = gated(file_of(tmp_path, race_of(dict.fromkeys("ab", 10), of=20)), "--race")
    assert (code, text) == (3, "left: a:m, b:m\nundecided: later results may still drop a candidate\n")


def test_against_a_baseline_less_evidence_is_needed() -> None:
    """Holm over m hypotheses in place of m(m-1)."""
    fields = dict.fromkeys("abcdef", 12) | {"x": 4}
    events = race_of(fields, of=30)
    run = states_of(events)["r"]
    assert Race("r").look(run, None) == []
    one = Race("r")
    baseline = entrant("r", "r/a:m", {"r": run}, fixed=False).trials
    assert [(drop.agent_model, drop.worse_than) for drop in one.look(run, baseline)] == [("x:m", "r/a:m")]
    assert "a:m" not in one.racing


def test_a_race_needs_candidates_that_are_declared_and_stay_the_same() -> None:
    race = Race("r")
    with pytest.raises(NoSuchSide, match="declares 0 candidates"):
        looked(race, race_of(FIELD, agent_models=None))
    few = race_of(FIELD, of=2)
    assert looked(race, few) == []
    with pytest.raises(NoSuchSide, match="declares 5 candidates, and declared 4 at first"):
        looked(race, [*few, a_plan(run_id="r", revision=1, agent_models=[f"{a}:m" for a in "abcde"])])
    undated = [event | {"started_at": None} for event in race_of(FIELD)]
    with pytest.raises(NoSuchSide, match="before its first trial"):
        looked(Race("r"), undated)
    assert looked(Race("r"), undated[:1]) == []


TWO = {"agent_models": ["a:m", "b:m"]}


@pytest.mark.parametrize(
    ("plan", "more"),
    [
        ({"planned_at": day(9), "started_at": None}, []),
        ({"planned_at": None, "started_at": None}, []),
        ({"agent_models": None}, [a_plan(run_id="r", planned_at=day(9), **TWO)]),
        ({"agent_models": None}, [a_plan(run_id="r", **TWO)]),
        ({"agent_models": ["a:m"]}, [a_plan(run_id="r", revision=1, planned_at=day(9), **TWO)]),
    ],
)
def test_candidates_that_are_declared_after_the_first_trial_do_not_race(
    plan: Event, more: list[Event]
) -> None:
    events = [*race_of({"a": 18, "b": 2}, **plan), *more]
    with pytest.raises(NoSuchSide, match=r"named .*b:m before its first trial. Name"):
        looked(Race("r"), events)
    early = a_plan(run_id="r", revision=2, planned_at=day(1), **TWO)
    for known in ([*events, early], [early, *events]):
        assert looked(Race("r"), known) == [("b:m", "a:m")]


def test_a_program_learns_of_each_drop_from_its_environment_and_no_shell_reads_it(tmp_path: Path) -> None:
    evil = "c;touch $HOME/x`id`"
    file = file_of(tmp_path, race_of({"a": 18, "b": 18, evil: 1}))
    log = tmp_path / "log"
    program = tmp_path / "stop"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"names = ('RACE_RUN', 'RACE_AGENT_MODEL', 'RACE_WORSE_THAN')\n"
        f"open({str(log)!r}, 'a').write(repr([os.environ[name] for name in names]) + sys.stdin.read())\n"
    )
    program.chmod(0o700)
    done = streamer("gate", file, "--race", "--json", "--on-verdict", program)
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["agent_model"], verdict["racing"]) == (0, f"{evil}:m", ["a:m", "b:m"])
    assert log.read_text() == repr(["r", f"{evil}:m", verdict["worse_than"]]) + done.stdout.decode()
