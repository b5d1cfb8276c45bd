"""How difficult tasks are, by the results of another run (inference 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from streamer.client.trials import scored_trials
from streamer.model_names import BASELINE_LABELS
from streamer.settings import Settings


def difficulties(settings: Settings, run_id: str) -> dict[str, float]:
    """Task to its difficulty in a run, as the log has its trials now.

    Raises:
        NotInLog, TopicMissing, TopicUnreadable, KafkaError: see `streamer.client.trials`.
    """
    return shares_of_failures(map(orjson.loads, scored_trials(settings, run_id)))


def shares_of_failures(trials: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Task to the share of its trials that failed, 0 to 1, over all agents but the baselines.

    >>> trials = [("a", True), ("a", False), ("b", False)]
    >>> shares_of_failures({"task_id": task, "agent": "x", "success": passed} for task, passed in trials)
    {'a': 0.5, 'b': 1.0}
    """
    tried, failed = Counter[str](), Counter[str]()
    for trial in trials:
        if trial["agent"] not in BASELINE_LABELS:
            tried[trial["task_id"]] += 1
            failed[trial["task_id"]] += not trial["success"]
    return {task: failed[task] / count for task, count in sorted(tried.items())}
