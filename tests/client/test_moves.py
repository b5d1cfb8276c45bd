"""What `from streamer.client import` offers, and what it does not load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import streamer.client
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.wire import Position
from streamer.views.why import Moves, Question, UnknownAgent, Why, metric_of, why_in
from tests.folding.test_fold import events, trials
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
    missing = [name for name in streamer.client.__all__ if not hasattr(streamer.client, name)]
    assert missing == []
    assert callable(streamer.client.subscribe)


# -----------------------------------------------------------------------------
# What moved a number: read after each event, the same as the published number; the moves form a chain.


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
        result.append(
            [change.summary for change in changes if change.kind == "agent_model" and change.summary]
        )
    return result


def numbers(summaries: list[Summary], metric: str) -> dict[str, float | None]:
    """agent:model to what its summary says of the METRIC."""
    return {summary["agent_model"]: metric_of(metric).value(summary) for summary in summaries}


def asked(arrived: list[Event], metric: str = "pass_rate", **question: Any) -> Why:
    return why_in(records(arrived), RUN, PRICES, Question(metric_of(metric), **question))[0]


@examples(100)
@given(st.one_of(events, st.tuples(events, measured).map(lambda parts: [*parts[0], *parts[1]])))
def test_each_move_is_the_difference_of_two_published_numbers(arrived: list[Event]) -> None:
    said = [[], *published(arrived)]
    for metric in METRICS:
        moves = Moves(Question(metric_of(metric), most=1000))
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


def check_chains(result: Why, at_last: dict[str, float | None]) -> None:
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
    question = Question(metric_of("pass_rate"), since=Position(offset=start), most=1000)
    whole, part = Moves(question._replace(since=None)), Moves(question)
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
    arrived = [a_trial(task_id=f"t{n}", resolved=n % 2 == 0) for n in range(6)]
    result = asked(arrived, most=2)
    assert [move.offset for move in result.moves] == [5, 4]
    [total] = result.totals
    assert (total.before, total.after, total.moves, total.up, total.down) == (None, 0.5, 6, 2, 3)
    assert result.state_version == 5


def test_events_that_move_nothing_are_no_moves() -> None:
    passed = [a_trial(task_id=f"t{n}") for n in range(3)]
    result = asked([*passed, passed[0], a_plan(tasks=9)])
    assert [(move.offset, move.before, move.after) for move in result.moves] == [(0, None, 1.0)]


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
def test_a_move_says_what_happened(arrived: list[Event], metric: str, causes: list[str]) -> None:
    assert [move.cause for move in asked(arrived, metric).moves] == causes


def test_a_rescoring_names_the_trial_that_caused_it() -> None:
    move, _ = asked(LATE_ORACLE).moves
    assert (move.agent_model, move.offset, move.before, move.after) == (LABEL, 1, 0.0, 1.0)
    assert move.trial is not None
    assert move.trial.agent == "oracle"


def test_an_agent_is_chosen_by_name_or_label_and_baselines_by_name_alone() -> None:
    arrived = [a_trial(), a_trial(model="other"), a_trial(agent="nop", model="nop")]
    assert [total.agent_model for total in asked(arrived).totals] == ["terminus:gpt-5", "terminus:other"]
    assert [total.agent_model for total in asked(arrived, agent="nop").totals] == ["nop:nop"]
    assert [total.agent_model for total in asked(arrived, agent="terminus:other").totals] == [
        "terminus:other"
    ]
    with pytest.raises(UnknownAgent, match="it has nop:nop, terminus:gpt-5, terminus:other"):
        asked(arrived, agent="who")


# -----------------------------------------------------------------------------
# docs/python-client.md says what is the case: its examples are executed in order, as programs.


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
    for code, output in EXAMPLES:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        assert done.stdout == output, f"{code}\n{done.stderr}"


def test_every_public_error_and_class_is_on_the_page() -> None:
    unexplained = {"Counts", "HistoryEntry", "LeaderboardRow", "StateUpdate", "Update", "finished"}
    missing = [name for name in streamer.client.__all__ if name not in unexplained and name not in TEXT]
    assert missing == []
