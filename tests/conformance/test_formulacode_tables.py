"""Every kind of case has its test, or the ruling under which it has no counterpart here."""

from __future__ import annotations

from streamer.sources.fc_eval_payload import place
from tests.support.formulacode_cases import kinds, the_case

TESTED = {
    "agent_keys": "test_formulacode_speedups.py",
    "benchmark_names": "test_formulacode_speedups.py",
    "costs": "tests/score/test_conformance.py",
    "gmeans": "test_formulacode_speedups.py",
    "merge": "test_formulacode_merge.py",
    "model_names": "tests/score/test_conformance.py",
    "parse": "test_formulacode_parse.py",
    "resolve_keys": "test_formulacode_speedups.py",
    "run": "test_formulacode_run.py",
    "speedups": "test_formulacode_speedups.py",
    "trial_names": "here",
}
WITHOUT_COUNTERPART = {"deep_merge": "R7: agents' results are never merged into one another"}


def test_no_kind_of_case_is_left_out() -> None:
    assert kinds() == TESTED.keys() | WITHOUT_COUNTERPART.keys()


def test_sub_trials_are_told_from_trials_by_name() -> None:
    """F11, G2: `.agent-<digits>-` behind the trial's own name."""
    for row in the_case("trial_names").expected:
        task = row["name"].partition(".")[0]
        assert (place(task, row["name"], ()).agent_index is not None) is row["is_sub_trial"], row["name"]
