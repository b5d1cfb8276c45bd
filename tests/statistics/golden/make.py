"""Write what inspect_ai's own scorers say of some made-up scores, for tests/statistics/test_ability.py.

inspect_ai is not a dependency. Make an environment of its own (Python 3.12) and run this file in it:

    python3.12 -m venv build/inspect && build/inspect/bin/python -m pip install inspect-ai==0.3.285
    build/inspect/bin/python tests/statistics/golden/make.py
"""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inspect_ai.scorer import SampleScore, Score, ci, ci_wilson, stderr

HERE = Path(__file__).parent
LEVELS = ("0.95", "0.8", "0.999")


def scores_of(tasks: list[list[float]]) -> list[SampleScore]:
    """One unreduced SampleScore for each trial, with its task as the cluster."""
    return [
        SampleScore(score=Score(value=value), sample_id=f"{task}-{number}", sample_metadata={"task": task})
        for task, values in enumerate(tasks)
        for number, value in enumerate(values)
    ]


def rate_cases() -> list[list[list[float]]]:
    """Outcomes 0 and 1 by task: equal and unequal attempts, single ones, tasks that agree or cancel out."""
    choice = random.Random(18)
    shapes = [[1] * 89, [5] * 89, [8] * 50, [4] * 115, [1, 2, 3, 4, 5], [2] * 2, [1] * 500, [3] * 7]
    cases = [[[float(choice.random() < 0.43) for _ in range(n)] for n in shape] for shape in shapes]
    easy_or_hard = [[float(task % 3 == 0)] * 5 for task in range(30)]
    return [*cases, easy_or_hard, [[1.0, 0.0]] * 10, [[1.0], [0.0]]]


def mean_cases() -> list[list[list[float]]]:
    """Costs in USD by task."""
    choice = random.Random(19)
    shapes = [[1] * 89, [5] * 20, [1, 2, 3, 4, 5], [2, 2]]
    return [[[choice.lognormvariate(-1, 1) for _ in range(n)] for n in shape] for shape in shapes]


def golden(tasks: list[list[float]], interval: Any) -> dict[str, Any]:
    """The case, and inspect_ai's answers."""
    scores = scores_of(tasks)
    ends = {level: interval(level=float(level), cluster="task")(scores) for level in LEVELS}
    return {
        "tasks": tasks,
        "standard_error": float(stderr(cluster="task")(scores)),
        "intervals": {
            level: [float(result["lower"]), float(result["upper"])] for level, result in ends.items()
        },
    }


if __name__ == "__main__":
    made = {
        "inspect_ai": version("inspect_ai"),
        "rates": [golden(tasks, ci_wilson) for tasks in rate_cases()],
        "means": [golden(tasks, ci) for tasks in mean_cases()],
    }
    text = json.dumps(made, separators=(",", ":")).replace('{"tasks"', '\n{"tasks"')
    (HERE / "inspect_ai.json").write_text(text + "\n", encoding="utf-8")
