"""What `streamer.client` offers, what it does not load, and what moved a number, event by event."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import streamer.client
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.folding.slots import SlotKey
from streamer.schemas.base import canonical_json
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.wire import Position
from streamer.views import why
from streamer.views.why import Move, Total, metric_of
from tests.folding.test_fold import events, trials
from tests.support.builders import by_head, present
from tests.support.events import Event, a_deletion, a_plan, a_retraction, a_trial, folded, records
from tests.support.examples import examples
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess


def test_importing_the_client_imports_neither_broker_nor_store() -> None:
    code = (
        "import sys, streamer.client as c; c.Counts; sys.exit(bool({'aiokafka', 'redis'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_every_public_name_is_there() -> None:
    assert [name for name in streamer.client.__all__ if not hasattr(streamer.client, name)] == []


RUN, LABEL = "run-1", "terminus:gpt-5"
METRICS = [*BOARD_METRICS, "metrics/reward", "metrics/style/a"]
PRICES = PriceTable.default()
Summary = dict[str, Any]

sections = st.sampled_from(
    [
        {},
        {"benchmarks": {"m.f": {"agent/nop": 0.5, "oracle/nop": 0.25}}},
        {"benchmarks": {"m.f": {"agent/nop": 2.0, "oracle/nop": 0.5}, "m.g": {"agent/nop": 1.0}}},
    ]
)
measured = st.lists(
    st.builds(lambda trial, section: trial | section, trials, sections), min_size=1, max_size=6
)
"""Results with FormulaCode's sections, whose means also rest on what planned agents lack."""


def published(arrived: list[Event]) -> list[list[Summary]]:
    """After each event: the summaries of the agent:models, folded from the beginning each time."""
    result: list[list[Summary]] = []
    for count in range(1, len(arrived) + 1):
        pipeline, _ = folded(arrived[:count])
        changes = pipeline.run(RUN).summaries() if RUN in pipeline.runs() else []
        found = (change.summary for change in changes if change.kind == "agent_model")
        result.append([summary for summary in found if summary])
    return result


def numbers(summaries: list[Summary], metric: str) -> dict[str, float | None]:
    """agent:model to what its summary says of the METRIC."""
    return {summary["agent_model"]: metric_of(metric).value(summary) for summary in summaries}


def asked(arrived: list[Event], metric: str = "pass_rate", **question: Any) -> why.Why:
    return why.why_in(records(arrived), RUN, PRICES, why.Question(metric_of(metric), **question))[0]


@examples(100)
@given(st.one_of(events, st.tuples(events, measured).map(lambda parts: [*parts[0], *parts[1]])))
def test_each_move_is_the_difference_of_two_published_numbers(arrived: list[Event]) -> None:
    said = [[], *published(arrived)]
    for metric in METRICS:
        moves = why.Moves(why.Question(metric_of(metric), most=1000))
        folding = fold_records(records(arrived), step=1, after=moves.after)
        assume(RUN in folding.pipeline.runs())
        state = folding.pipeline.run(RUN).state
        result = moves.answer(state, 0)
        expected = {
            (offset, label, before.get(label), after.get(label))
            for offset, (before, after) in enumerate(pairwise(numbers(then, metric) for then in said))
            for label in before.keys() | after.keys()
            if before.get(label) != after.get(label) and not state.scores.is_baseline(label.partition(":")[0])
        }
        told = {(move.offset, move.agent_model, move.before, move.after) for move in result.moves}
        assert told == expected, metric
        check_chains(result, numbers(said[-1], metric))


def check_chains(result: why.Why, at_last: dict[str, float | None]) -> None:
    """The number after one move is the one before the next, and after the last the published one."""
    for total in result.totals:
        assert total.after == at_last.get(total.agent_model)
        chain = [move for move in reversed(result.moves) if move.agent_model == total.agent_model]
        ends = [total.before, *(move.after for move in chain)]
        assert [move.before for move in chain] + [total.after] == ends
        assert total.moves == len(chain)
        assert total.up + total.down <= total.moves


@examples(60)
@given(events, st.data())
def test_since_and_as_of_cut_a_part_out_of_the_chain(arrived: list[Event], data: st.DataObject) -> None:
    assume(arrived)
    start = data.draw(st.integers(0, len(arrived) - 1))
    end = data.draw(st.integers(start, len(arrived) - 1))
    question = why.Question(metric_of("pass_rate"), since=Position(offset=start), most=1000)
    whole, part = why.Moves(question._replace(since=None)), why.Moves(question)
    fold_records(records(arrived), step=1, after=whole.after)
    folding = fold_records(records(arrived), step=1, after=part.after, as_of=Position(offset=end))
    assume(RUN in folding.pipeline.runs())
    state = folding.pipeline.run(RUN).state
    expected = [move for move in whole.answer(state, 0).moves if start < move.offset <= end]
    result = part.answer(state, 0)
    assert result.moves == expected
    then = numbers(published(arrived)[start], "pass_rate")
    assert {total.agent_model: total.before for total in result.totals} == {
        total.agent_model: then.get(total.agent_model) for total in result.totals
    }


def test_the_latest_moves_are_listed_newest_first_and_all_are_counted() -> None:
    result = asked([a_trial(task_id=f"t{n}", resolved=n % 2 == 0) for n in range(6)], most=2)
    assert [move.offset for move in result.moves] == [5, 4]
    [total] = result.totals
    assert (total.before, total.after, total.moves, total.up, total.down) == (None, 0.5, 6, 2, 3)
    assert result.state_version == 5


FAILING = {"status": "failed", "failed": 2, "error": 0}
LATE_ORACLE = [
    a_trial(agent_index=1, tests=FAILING),
    a_trial(agent_index=2, agent="oracle", model="oracle", tests=FAILING),
]
"""Tests that fail with the oracle's solution, too, are no fault of the agent's (R9)."""


@pytest.mark.parametrize(
    ("arrived", "metric", "causes"),
    [
        ([a_trial()], "pass_rate", ["result"]),
        ([a_trial(), a_trial(task_id="t2"), a_trial(), a_plan(tasks=9)], "pass_rate", ["result"]),
        ([a_trial(), a_trial(resolved=False, revision=1)], "pass_rate", ["correction", "result"]),
        ([a_trial(resolved=None), a_trial(revision=1)], "pass_rate", ["verdict", "result"]),
        ([a_trial(), a_trial(score=0.5, revision=1)], "impl_rate", ["verdict"]),
        ([a_trial(), a_retraction()], "pass_rate", ["retraction", "result"]),
        ([a_trial(), a_retraction(), a_trial(revision=1)], "pass_rate", ["result", "retraction", "result"]),
        ([a_trial(), a_deletion(), a_plan(revision=1, tasks=2)], "pass_rate", ["deletion", "result"]),
        (
            [a_trial(score=0.5), a_plan(grading_profile="specified@0.7:0.3")],
            "composite_score",
            ["plan", "result"],
        ),
        (LATE_ORACLE, "pass_rate", ["rescoring", "result"]),
        (
            [
                a_plan(agent_models=[LABEL, "late:gpt-5"]),
                a_trial(agent_index=1, benchmarks={"m.f": {"agent/nop": 0.5, "oracle/nop": 0.25}}),
                {"type": "run_finished", "run_id": RUN},
            ],
            "mean_speedup",
            ["end", "result"],
        ),
    ],
)
def test_a_move_says_what_happened_and_events_that_move_nothing_are_no_moves(
    arrived: list[Event], metric: str, causes: list[str]
) -> None:
    assert [move.cause for move in asked(arrived, metric).moves] == causes


def test_a_rescoring_names_the_trial_that_caused_it() -> None:
    move, _ = asked(LATE_ORACLE).moves
    assert (move.agent_model, move.offset, move.before, move.after) == (LABEL, 1, 0.0, 1.0)
    assert present(move.trial).agent == "oracle"


@pytest.mark.parametrize(
    ("agent", "labels"),
    [
        (None, ["terminus:gpt-5", "terminus:other"]),
        ("nop", ["nop:nop"]),
        ("terminus:other", ["terminus:other"]),
    ],
)
def test_an_agent_is_chosen_by_name_or_label_and_baselines_by_name_alone(
    agent: str | None, labels: list[str]
) -> None:
    arrived = [a_trial(), a_trial(model="other"), a_trial(agent="nop", model="nop")]
    assert [total.agent_model for total in asked(arrived, agent=agent).totals] == labels
    with pytest.raises(why.UnknownAgent, match="it has nop:nop, terminus:gpt-5, terminus:other"):
        asked(arrived, agent="who")


HOSTILE = "\x1b[31m\u202e|<b>"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_move(**fields: Any) -> Move:
    given: dict[str, Any] = {"offset": 7, "at": AT, "agent_model": "a:m", "cause": "result"}
    trial = SlotKey("", "t", 1, "a", "m", None, None)
    return Move(**given | {"trial": trial, "before": 0.5, "after": 0.5001} | fields)


def moves_of(*moves: Move, metric: str = "pass_rate", totals: tuple[Total, ...] = ()) -> why.MetricMoves:
    return why.MetricMoves.of(why.Why("r", metric_of(metric), 9, 0, list(totals), list(moves)))


def row_of(move: Move, metric: str = "pass_rate") -> dict[str, str]:
    [row] = by_head(why.moves_table(moves_of(move, metric=metric)))
    return row


@pytest.mark.parametrize(
    ("metric", "before", "after", "change"),
    [
        ("pass_rate", "50.00 %", "50.01 %", "+0.01 points"),
        ("mean_cost", "$0.5000", "$0.5001", "+0.0001 USD"),
        ("mean_duration", "0.5 s", "0.5 s", "+0.0001 s"),
        ("composite_score", "0.5", "0.5001", "+0.0001"),
        ("metrics/reward", "0.5", "0.5001", "+0.0001"),
    ],
)
def test_changes_have_their_unit_and_three_digits(metric: str, before: str, after: str, change: str) -> None:
    row = row_of(a_move(), metric)
    assert (row["before"], row["after"], row["change"]) == (before, after, change)


def test_r30_a_named_metric_has_the_unit_of_the_plan() -> None:
    """It was "1", a plain ratio."""
    plan = a_plan(metrics={"wait": {"unit": "seconds", "direction": "lower"}})
    results = [a_trial(task_id=f"t{n}", metrics={"wait": 2.5 + n}) for n in range(2)]
    moves = why.MetricMoves.of(asked([plan, *results], "metrics/wait"))
    [last, _] = by_head(why.moves_table(moves))
    assert (moves.unit, last["before"], last["after"], last["change"]) == (
        "seconds",
        "2.5 s",
        "3 s",
        "+0.5 s",
    )


def test_a_move_says_its_cause_its_time_and_its_trial_as_far_as_there_are_any() -> None:
    whole = row_of(a_move(trial=SlotKey("s", "t", 2, "a", "m", "T1", "03"), cause="rescoring"))
    assert (whole["trial"], whole["time, UTC"]) == ("s: t, attempt 2, T1/03", "2026-01-02 03:04:05")
    bare = row_of(a_move(trial=None, at=None, cause="plan"))
    assert (bare["trial"], "time, UTC" in bare) == ("–", False)
    assert (whole["what"], bare["what"]) == ("rescored by a:m", why.CAUSES["plan"])


def test_names_are_safe_to_print() -> None:
    trial = SlotKey(HOSTILE, HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    move = a_move(agent_model=HOSTILE, trial=trial, cause="rescoring")
    shown = [*row_of(move).values(), *why.totals_lines(moves_of(totals=(Total(HOSTILE, 0.1, 0.2, 1, 1, 0),)))]
    assert "\x1b" not in "".join(shown)
    assert "\u202e" not in "".join(shown)


def test_the_sums_say_where_a_number_came_from_and_where_it_stayed() -> None:
    totals = (Total("a:m", None, 0.5, 3, 1, 1), Total("b:m", 0.25, 0.5, 1, 1, 0), Total("c:m", 0.5, 0.5))
    assert why.totals_lines(moves_of(totals=(*totals, Total("d:m", None, None)))) == [
        "pass_rate of a:m moved from unknown to 50.00 % by 3 events: 1 up, 1 down",
        "pass_rate of b:m moved from 25.00 % to 50.00 % (+25.00 points) by 1 event: 1 up, 0 down",
        "pass_rate of c:m stayed at 50.00 %",
        "pass_rate of d:m is unknown; --metric names another number",
    ]


def test_json_writes_infinite_numbers_as_text_and_has_no_difference_of_them() -> None:
    inf = float("inf")
    moves = moves_of(a_move(before=inf, after=2.0), a_move(before=2.0, after=inf), a_move(before=None))
    again = orjson.loads(canonical_json(moves.model_dump(mode="json")))
    assert [(move["before"], move["after"], move["delta"]) for move in again["moves"]] == [
        ("Infinity", 2.0, None),
        (2.0, "Infinity", None),
        (None, 0.5001, None),
    ]
    assert why.MetricMoves.model_validate(again) == moves


PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-client.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL
)
PROGRAM_SECONDS = 90


@pytest.fixture
def environment(
    tmp_path: Path, embedded_broker: str, session_redis: RedisServer, namespace: str
) -> Iterator[dict[str, str]]:
    """The variables under which commands and programs find a running deployment."""
    settings: dict[str, object] = {
        "bootstrap": embedded_broker,
        "redis": session_redis.url,
        "namespace": namespace,
        "embedded": True,
        "partitions": 4,
        "session_timeout_seconds": 3.0,
        "data_dir": tmp_path / "data",
    }
    with WorkerProcess(tmp_path, settings) as worker:
        worker.start()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        yield clean | {f"STREAMER_{name.upper()}": str(value) for name, value in settings.items()}


def test_every_example_shows_what_it_prints() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 7


def test_every_example_prints_what_the_page_says(environment: dict[str, str], tmp_path: Path) -> None:
    """In the order of the page: later ones read what earlier ones publish."""
    limits: dict[str, Any] = {
        "cwd": tmp_path,
        "timeout": PROGRAM_SECONDS,
        "capture_output": True,
        "text": True,
    }
    for code, output in EXAMPLES:
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, **limits)
        assert (done.returncode, done.stdout) == (0, output), f"{code}\n{done.stderr}"


def test_every_public_error_and_class_is_on_the_page() -> None:
    unexplained = {"Counts", "HistoryEntry", "LeaderboardRow", "StateUpdate", "Update", "finished"}
    missing = [name for name in streamer.client.__all__ if name not in unexplained and name not in TEXT]
    assert missing == []
