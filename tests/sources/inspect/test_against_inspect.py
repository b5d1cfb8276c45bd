"""Our numbers of an eval against inspect_ai's own: its results in the log, and its functions on the log."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import converted
from tests.sources.harbor import summaries
from tests.sources.inspect import the_log
from tests.sources.inspect.running import Inspect, scores_of
from tests.support.tailing import followed
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.peer

OWN_STATISTICS = """
import json, math, sys
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import SampleScore, Score, accuracy, stderr

scores = {}
for sample in read_eval_log(sys.argv[1]).samples:
    for name, score in (sample.scores or {}).items():
        singles = score.value if isinstance(score.value, dict) else {"": score.value}
        for key, value in singles.items():
            if isinstance(value, float) and math.isnan(value):
                continue
            scores.setdefault(f"{name}/{key}".rstrip("/"), []).append(
                SampleScore(score=Score(value=value), sample_metadata={"task": str(sample.id)})
            )
own = {}
for name, found in scores.items():
    error = float(stderr(cluster="task")(found))
    own[name] = {"count": len(found), "mean": accuracy()(found), "standard_error": error}
print(json.dumps(own))
"""
"""Its accuracy and its clustered standard error, over every sample and epoch of a log."""


def named(logs: Path) -> dict[str, dict[str, Any]]:
    """Named metrics of the one agent in a folder of logs, as our fold has them."""
    [summary] = summaries(converted(logs)[0]).values()
    kept = ("count", "mean", "standard_error")
    return {name: {key: result[key] for key in kept} for name, result in summary["metrics"].items()}


def approximately(numbers: dict[str, Any]) -> Any:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


def test_standard_errors_are_those_of_inspects_stderr_clustered_by_sample(inspect_ai: Inspect) -> None:
    """Also where a sample misses an epoch, and where a scorer leaves samples out."""
    inspect_ai.eval("--no-fail-on-error", arithmetic_broken="4/2")
    own = json.loads(inspect_ai.python(OWN_STATISTICS, the_log(inspect_ai.logs)))
    ours = named(inspect_ai.logs)
    assert own.keys() == ours.keys() == {"graded", "quality/style", "quality/length"}
    assert own["graded"]["count"] == 17
    for name, numbers in own.items():
        assert ours[name] == approximately(numbers), name


def test_late_scores_of_a_log_come_as_late_scores_in_any_order(inspect_ai: Inspect) -> None:
    """Without scores at first, then `inspect score` with one scorer, then with another one (R32)."""
    inspect_ai.eval("--no-score", "--epochs", "1")
    log = the_log(inspect_ai.logs)
    logs = [converted(log)[0]]
    for scorer in ("match", "includes"):
        inspect_ai.run("score", str(log), "--scorer", scorer, "--action", "append", "--overwrite")
        logs.append(converted(log)[0])
    assert [sum(event["type"] == "trial_scored" for event in events) for events in logs] == [0, 6, 6]
    own = {name: of["accuracy"] for name, of in scores_of(log).items()}
    assert own.keys() == {"match", "includes"}
    for order in permutations(logs):
        [summary] = summaries(event for events in order for event in events).values()
        assert {name: summary["metrics"][name]["mean"] for name in own} == approximately(own)
        assert (summary["trials"], summary["verdict_trials"]) == (6, 6)


def test_tail_follows_a_log_that_grows(inspect_ai: Inspect) -> None:
    inspect_ai.logs.mkdir()
    options = ("--log-dir", "logs", "--max-samples", "3", "--log-buffer", "1", "--epochs", "2")
    with followed(inspect_ai.logs) as following:
        running = inspect_ai.start("eval", "arithmetic.py", *options, arithmetic_seconds=0.3)
        wait_for(lambda: bool(following.trials), "the first results", 60)
        assert running.poll() is None, "results came before the eval ended"
        running.communicate(timeout=120)
        following.wait_until_converted()
    assert len(following.trials) == 12
    assert [event["type"] for event in following.events if event["type"].startswith("run_")] == [
        "run_started",
        "run_finished",
    ]
