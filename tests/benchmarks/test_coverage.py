"""The coverage study at a small size: it prints a table, repeats itself, and separates the intervals."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.coverage import (
    CONCURRENCIES,
    PASSES,
    PLANNED,
    SCENARIOS,
    Scenario,
    coverage,
    events,
    main,
    outcomes_of,
)


def test_every_scenario_is_printed_with_its_misses(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--runs", "50", "--seed", "1"])
    printed = capsys.readouterr().out
    assert printed.startswith("50 runs for each row, seed 1\n")
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.endswith("% |")]
    assert [(row[0], int(row[1])) for row in rows] == [
        (scenario.name, concurrency) for scenario in SCENARIOS for concurrency in CONCURRENCIES
    ]
    shuffled = [[float(cell.rstrip("%")) for cell in row[2:]] for row in rows[: -len(CONCURRENCIES)]]
    final, finished, wilson = (sum(column) / len(shuffled) for column in zip(*shuffled, strict=True))
    assert final <= 5.0 < 20.0 < finished < wilson


def test_an_exit_code_says_that_a_row_missed_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Scenario("longest first, taken for a shuffle", longest_first=True)
    monkeypatch.setattr("benchmarks.coverage.SCENARIOS", [broken])
    assert main(["--runs", "2"]) == 0  # its row is shown, and not held to the limit
    monkeypatch.setattr("benchmarks.coverage.ALLOWED", -1.0)
    monkeypatch.setattr("benchmarks.coverage.SCENARIOS", SCENARIOS[:1])
    assert main(["--runs", "2"]) == 1


def test_a_picture_shows_one_run_from_its_tenth_result_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--picture", "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == [*range(10, 89, 10), 89]
    assert len({line.index("|") for line in lines[1:]}) == 1
    assert lines[-1].endswith("[0.427, 0.427]")


def test_a_seed_repeats_its_shares() -> None:
    assert coverage(SCENARIOS[0], 20, seed=3) == coverage(SCENARIOS[0], 20, seed=3)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_becomes_known_is_true_and_complete_where_nothing_is_held_back(scenario: Scenario) -> None:
    choice = Random(4)
    outcomes = outcomes_of(scenario, choice)
    known: dict[int, bool | None] = {}
    for trial, outcome in events(scenario, outcomes, choice):
        assert outcome in (None, outcomes[trial])
        known[trial] = outcome
    held_back = any((*scenario.cancel, *scenario.judge, scenario.budget < 1))
    assert None not in known.values()
    assert (len(known) < len(outcomes)) == held_back
    assert scenario.rounds > 1 or (len(outcomes), sum(outcomes)) == (PLANNED, PASSES)
