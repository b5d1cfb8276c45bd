"""The study of ledgers and races at a small size: its verdicts are those of the functions under test."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import ledger
from streamer.statistics.ledger import evidence_better
from streamer.statistics.pairs import Pair, evidence_worse, is_behind
from tests.benchmarks.generated import cells, percents, table


def test_the_truth_is_what_was_asked_for() -> None:
    random = np.random.default_rng(1)
    means = [(chances.mean(), ledger.moved(chances, 0.13).mean(), ledger.moved(chances, -0.2).mean())
             for chances in (ledger.chances_of(random) for _ in range(2_000))]  # fmt: skip
    assert np.mean(means, axis=0) == pytest.approx(
        [ledger.RATE, ledger.RATE + 0.13, ledger.RATE - 0.2], abs=0.01
    )


def test_the_fast_evidence_is_that_of_the_pure_functions() -> None:
    random = np.random.default_rng(2)
    chances = ledger.chances_of(random)
    ours = np.concatenate([ledger.passed(ledger.moved(chances, gain), 2, random) for gain in ledger.GAINS])
    won, lost = ledger.in_pairs(ours, ledger.passed(chances, 1, random), random)
    result = ledger.evidence_of(won, lost)
    for one in range(len(ours)):
        pairs = [Pair(bool(b), bool(a)) for a, b in zip(won[one], lost[one], strict=True)]
        ahead = is_behind(pairs, pairs, ledger.PAIRS)
        assert result.sound[one] == pytest.approx(
            evidence_better(pairs, pairs, ledger.PAIRS) if ahead else 0.0
        )
        assert result.largest[one] == (evidence_worse(pairs, ledger.PAIRS) if ahead else 0.0)
    assert (result.sound > 1e3).any()


def test_a_pair_keeps_its_task_and_attempt_in_every_queue() -> None:
    random = np.random.default_rng(3)
    theirs = ledger.passed(ledger.chances_of(random), 1, random)
    won, lost = ledger.in_pairs(np.repeat(theirs, 5, axis=0), theirs, random)
    assert (won.any(), lost.any()) == (False, False)
    won, _ = ledger.in_pairs(np.ones_like(theirs), theirs, random)
    assert won.sum() == ledger.PAIRS - theirs.sum()


def test_false_verdicts_are_counted_against_the_truth() -> None:
    called, is_better = np.array([True, True, False, True]), np.array([True, False, True, False])
    assert ledger.shares(called, is_better) == (3.0, 2 / 3, 0.5)
    assert ledger.shares(np.zeros(4, bool), is_better) == (0.0, 0.0, 0.0)


def test_a_small_ledger_finds_some_and_its_plain_gate_is_wrong_more_often() -> None:
    levels, plain = ledger.ledgers(6, 200, seed=1)
    assert levels.false <= plain.false
    assert 0 < levels.found < plain.found


def test_a_race_drops_the_worse_and_saves_trials() -> None:
    random = np.random.default_rng(4)
    worse = [ledger.one_race(ledger.RACING // 2, random) for _ in range(3)]
    assert all(one.dropped > 0.5 and one.saved > 0.1 for one in worse)
    equal = [ledger.one_race(0, random) for _ in range(10)]
    assert any(one.alone for one in equal), "each pair for itself is wrong nearly always"
    assert sum(one.false for one in equal) <= 2


def test_more_than_promised_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ledger, "CANDIDATES", 50)
    few = ["--repetitions", "1", "--races", "1", "--runs", "5"]
    assert ledger.main(few) == 0
    assert capsys.readouterr().out.count("\n|---|") == 3
    monkeypatch.setattr(ledger, "ALPHA", -1)
    assert ledger.main(few) == 1


def test_the_page_has_what_the_command_prints_and_no_more_is_false_than_promised() -> None:
    assert cells(ledger.power_row(0.13, 4_000, seed=8)) in table("ledger-power")
    first, tenth, hundredth, _ = ledger.powers(0.13, 4_000, seed=8)
    assert (first >= 0.9, tenth >= 0.6, hundredth >= 0.3) == (True, True, True)
    ledger_row, plain_row = table("ledger-false")
    assert (ledger_row[0], plain_row[0]) == ("the ledger", "a plain gate for each")
    assert percents(ledger_row[2:3]) <= [5.0] < percents(plain_row[2:3])
    assert all(percents(row[1:2]) <= [5.0] for row in table("race"))
