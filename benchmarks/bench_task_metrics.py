"""How long FormulaCode's task metrics take, beside the validation of the same event.

    python -m benchmarks.bench_task_metrics [--rounds 7] [--fallback]

For trials of 10, 100 and 1,000 benchmarks: microseconds a trial for validating the event alone, for the
task metrics, for the payload of the scored trial; then metrics / validation. Every figure is the best of
so many rounds, all taken in turn in one run, so that the ratio holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import orjson

from streamer.folding.prices import PriceTable
from streamer.folding.score import ScoringRules, score_trial
from streamer.folding.score.formulacode import task_metrics, task_payload
from streamer.schemas.events import TrialResult
from streamer.schemas.wire import decode

SIZES = (10, 100, 1_000)
ROUND_SECONDS = 0.05
BENCHMARKS_OF_A_FUNCTION = 4
FUNCTIONS_OF_A_CLASS = 5
CLASSES_OF_A_MODULE = 3


def an_event(size: int) -> bytes:
    """A trial with so many benchmarks, parameterised and grouped as in suites of real projects."""
    rng = random.Random(size)
    benchmarks = {}
    for number in range(size):
        function, parameter = divmod(number, BENCHMARKS_OF_A_FUNCTION)
        class_ = function // FUNCTIONS_OF_A_CLASS
        name = (
            f"package.module{class_ // CLASSES_OF_A_MODULE}.Class{class_}.time_f{function}({parameter}, 'a')"
        )
        benchmarks[name] = {
            "agent/nop": rng.lognormvariate(0.1, 0.3),
            "oracle/nop": rng.lognormvariate(0.2, 0.3),
        }
    event: dict[str, Any] = {"type": "trial_result", "run_id": "r", "task_id": "t", "benchmarks": benchmarks}
    return orjson.dumps(event | {"tests": {"status": "ok"}, "snapshot": {"status": "passed"}})


def steps(value: bytes, fallback: bool) -> dict[str, Callable[[], object]]:
    """The timed steps, by name."""
    event = decode(value)
    assert isinstance(event, TrialResult)
    benchmarks = event.benchmarks or {}
    scored = score_trial(event, ScoringRules(PriceTable.default()))
    score = scored.formulacode
    assert score is not None
    return {
        "validate": lambda: decode(value),
        "metrics": lambda: task_metrics(benchmarks, fallback=fallback),
        "payload": lambda: task_payload(
            event, [event], score, success=True, cost_usd=None, trajectory_length=None
        ),
    }


def best_microseconds(timed: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Best microseconds a call of each step, the steps taken in turn."""
    calls = {name: _calls_of_a_round(step) for name, step in timed.items()}
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, step in timed.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                step()
            best[name] = min(best[name], (time.perf_counter() - start) / calls[name] * 1e6)
    return best


def _calls_of_a_round(step: Callable[[], object]) -> int:
    step()
    start = time.perf_counter()
    step()
    return max(1, int(ROUND_SECONDS / max(time.perf_counter() - start, 1e-7)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds that the best is taken of")
    parser.add_argument("--fallback", action="store_true", help="time a failed agent's fallback")
    options = parser.parse_args()
    columns = ("validate us", "metrics us", "payload us", "metrics/validate")
    print(f"{'benchmarks':>10}" + "".join(f"{column:>18}" for column in columns))
    for size in SIZES:
        best = best_microseconds(steps(an_event(size), options.fallback), options.rounds)
        ratio = best["metrics"] / best["validate"]
        times = "".join(f"{best[name]:>18.1f}" for name in ("validate", "metrics", "payload"))
        print(f"{size:>10,}{times}{ratio:>18.2f}")


if __name__ == "__main__":
    main()
