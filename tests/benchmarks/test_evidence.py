"""Simulated coverage of differences, and the trials that evidence needs, as docs/inference.md prints them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.difference import ALIKE, ATTEMPTS, LEAST, RATES, TASKS, UNEQUAL, UNEQUAL_TASKS, covers
from benchmarks.drawn import Setting, drawn, in_rounds
from benchmarks.evidence import DROPS, needed
from tests.benchmarks.generated import percents, table


def test_the_simulator_draws_agents_of_equal_rates_that_are_alike() -> None:
    n, a, k, b = drawn(Setting(20_000, 1, None, 0.8, 0.7), np.random.default_rng(1))
    assert set(n.tolist()) == {1}
    assert set(k.tolist()) == {1, 2, 3, 4, 5}
    assert a.sum() / n.sum() == pytest.approx(0.8, abs=0.02)
    assert (b / k).mean() == pytest.approx(0.8, abs=0.02)
    fives = drawn(Setting(20_000, 5, 5, 0.6, 0.95), np.random.default_rng(2))
    assert np.corrcoef(fives[1], fives[3])[0, 1] == pytest.approx(0.8, abs=0.02)


def test_rounds_have_every_task_once_and_the_drop_that_was_asked_for() -> None:
    order, ours, theirs = in_rounds(5_000, 2, 0.4, 0.1, np.random.default_rng(3))
    assert sorted(order[:5_000]) == sorted(order[5_000:]) == list(range(5_000))
    assert theirs.mean() - ours.mean() == pytest.approx(0.1, abs=0.02)


def test_the_interval_holds_the_difference_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(4)
    looks = [covers(Setting(20, 1, 5, 0.9, 0.7), random) for _ in range(400)]
    assert sum(ours for ours, _ in looks) / 400 >= 0.92


def test_evidence_pair_by_pair_decides_long_before_evidence_task_by_task() -> None:
    random = np.random.default_rng(5)
    for by_pair, by_task in (needed(0.2, random) for _ in range(5)):
        assert by_pair is not None
        assert by_task is not None
        assert by_pair < by_task


def test_the_page_has_the_coverage_of_every_setting_and_none_is_too_low() -> None:
    rows = table("difference")
    assert len(rows) == len(list(product(TASKS, ATTEMPTS))) + len(list(product(UNEQUAL_TASKS, UNEQUAL)))
    assert len(TASKS) * len(ATTEMPTS) * len(RATES) * len(ALIKE) == 120
    for row in rows:
        assert len(row) == 3 + len(RATES)
        assert min(percents(row[2:-1])) >= 100 * LEAST


def test_the_page_says_how_many_trials_evidence_needs() -> None:
    rows = table("evidence")
    assert len(rows) == len(DROPS)
    assert percents(rows[0][1:2]) <= [5.0], "false alarms"
    for row in rows[1:]:
        assert int(row[2]) < int(row[4])
