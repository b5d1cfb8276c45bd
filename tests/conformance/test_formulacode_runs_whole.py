"""Complete fc-eval run directories through `convert` and `fold`: order, missing files, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamer.folding.fold import Folding, fold_records
from streamer.schemas.wire import records_of_lines
from tests.conformance.fc_run_differences import LEFT_OUT
from tests.conformance.fc_runs import crashed_as_a_whole
from tests.conformance.folds import digests, summaries
from tests.conformance.formulacode_run_directories import Run, expected
from tests.support.cli import streamer
from tests.support.formulacode_cases import close


def test_crashed_trials_of_one_agent_count_and_of_several_are_left_out_and_reported(
    directories: Path, run: Run
) -> None:
    """R21, R28; fc-eval's summaries leave out what has no payload (F1)."""
    out = LEFT_OUT.get(run.name, 0)
    assert len(crashed_as_a_whole(directories / run.name, run.expected["agents"])) == out
    assert len(run.trials) == run.expected["n_trials_in_run_results"] - out
    for summary in run.agents.values():
        assert summary["trials"] == len(run.trials)
        assert summary["coverage"]["trajectory_length"] <= len(run.trials)
    said = streamer("convert", directories / run.name).stderr.decode()
    assert ("unknown_agent_error" in said) is bool(out)


def test_any_order_of_the_events_folds_to_the_same_digests(events: list[bytes], folding: Folding) -> None:
    backwards = fold_records(records_of_lines(reversed(events)))
    assert digests(backwards) == digests(folding)


def test_trial_files_alone_leave_the_crashed_trials_out(directories: Path) -> None:
    name = "fc-no-oracle-same-framework"
    done = streamer("convert", "--trial-files-only", directories / name)
    summary = summaries(fold_records(records_of_lines(done.stdout.splitlines())), "run")[0]
    theirs = expected()[name]["expected_from_trial_files"]
    assert summary["trials"] == expected()[name]["n_trial_files"]
    assert (summary["resolved"], summary["unresolved"]) == (theirs["n_resolved"], theirs["n_unresolved"])
    assert summary["accuracy"] == close(theirs["accuracy"])


def test_fold_prints_the_same_summaries(events: list[bytes], folding: Folding) -> None:
    done = streamer("fold", "--json", "-", stdin=b"\n".join(events))
    assert done.returncode == 0, done.stderr.decode()
    printed: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    ours = {change.digest for change in folding.summaries()}
    assert {line["digest"] for line in printed} == ours
