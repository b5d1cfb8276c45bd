"""The run directories of fc-eval that the tests of whole runs read."""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

from tests.conformance.fc_runs import Trial
from tests.conformance.folds import Summary
from tests.conformance.formulacode_rules import Json, SubTrial
from tests.support.data import shared_data
from tests.support.formulacode_cases import decoded

RUNS = (
    *("fc-nop-oracle-gpt5", "fc-single-terminus", "fc-no-oracle-same-framework", "fc-single-nop"),
    *("fc-multi-of-one", "fc-rough", "fc-two-attempts"),
)


class Run(NamedTuple):
    name: str
    expected: Json
    trials: list[Trial]
    scored: dict[tuple[str, int, str], Json]
    agents: dict[str, Summary]
    summary: Summary

    @property
    def one_agent(self) -> bool:
        return len(self.expected["agents"]) == 1

    def subs(self, key: str) -> list[tuple[Trial, SubTrial]]:
        return [(trial, sub) for trial in self.trials for sub in trial.subs if sub.key == key]


@cache
def expected() -> Json:
    result: Json = decoded(json.loads((shared_data() / "formulacode" / "runs_expected.json").read_text()))
    return result
