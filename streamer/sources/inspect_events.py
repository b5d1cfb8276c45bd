"""Events of inspect_ai's evals, from its own records: the log's reader and the hook both make them here.

- A run is a task with its `task_id`, which stays the same when an eval is retried: `TASK_TASKID`.
- A sample is a task, an epoch is an attempt. A sample that runs again fills the same slot, and the later
  `completed_at` wins (R17).
- The agent is the solver that was named for the eval; else the solvers of the plan, joined by `+`.
- Tokens are counted for the model under test. Other models, which grade or have other roles, are not in them.
  What the model under test itself grades is: inspect_ai counts by model.
- A sample that a limit ended has the failure mode that the limit's option is called: `token_limit`.
- `duration_seconds` is inspect_ai's `total_time`, which includes waiting for the model's rate limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from streamer.model_names import label_for_reporting
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import MAX_MESSAGE_CHARACTERS, MAX_METRICS, MAX_NAME_CHARACTERS
from streamer.sources.costs import known_cost
from streamer.sources.files import known, listed, objects, part, text, time_of
from streamer.sources.inspect_scores import read_scores
from streamer.sources.names import metric_name

HARNESS = "inspect"
NO_FAILURE = "unset"
"""Failure mode of a sample that ended by itself (G6)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXCEPTION = re.compile(r"([A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Timeout))\(")
"""The class that begins an exception's `repr`, which inspect_ai mostly writes as the message."""
_PATTERN = re.compile(r"[*?[]")
"""What makes a key of a scorer's statistics a pattern of keys."""

Record = Mapping[str, Any]
NOTHING: Record = {}


def run_id_of(spec: Record) -> str | None:
    """The run of an eval; None where the record does not name its task.

    >>> run_id_of({"task": "gsm8k", "task_id": "YP98aj3W"})
    'gsm8k_YP98aj3W'
    """
    task = text(spec.get("task"))
    return "_".join(filter(None, (task, text(spec.get("task_id"))))) if task else None


def agent_of(spec: Record, plan: Record) -> str | None:
    """The solver named for the eval, else the solvers of its plan; None without any.

    >>> agent_of({}, {"steps": [{"solver": "system_message"}, {"solver": "generate"}]})
    'system_message+generate'
    """
    names = [text(step.get("solver")) for step in objects(plan, "steps")]
    return text(spec.get("solver")) or "+".join(filter(None, names)) or None


def started_event(spec: Record, plan: Record, agent: str | None = None) -> dict[str, Any]:
    """The `run_started` of an eval, without its run.

    Args:
        spec: the eval's specification (`EvalSpec`).
        plan: its solvers (`EvalPlan`).
        agent: its name where the two say none.
    """
    dataset, config = part(spec, "dataset"), part(spec, "config")
    ids = [str(found) for found in listed(dataset, "sample_ids") if isinstance(found, str | int)]
    tasks = list(dict.fromkeys(ids)) or None
    epochs = config.get("epochs") or 1
    repeats = epochs if isinstance(epochs, int) and 0 < epochs <= MAX_QUEUE // max(1, len(ids)) else 0
    model = text(spec.get("model"))
    agent = agent_of(spec, plan) or agent
    return known(
        {
            "type": "run_started",
            "harness": HARNESS,
            "revision": nanoseconds(spec.get("created")) or 0,
            "started_at": spec.get("created"),
            "tasks": tasks,
            "attempts": epochs,
            "order": tasks * repeats if tasks and repeats else None,
            "order_kind": "shuffled" if dataset.get("shuffled") is True else None,
            "concurrency": config.get("max_samples"),
            "agent_models": [label_for_reporting(agent, model)] if agent and model else None,
            "benchmark": text(spec.get("task")),
            "benchmark_version": str(spec["task_version"]) if spec.get("task_version") else None,
            "metrics": {name: {} for name in planned_metrics(spec)} or None,
        }
    )


MAX_QUEUE = 100_000
"""A longer queue is not told: the event would be too large."""


def planned_metrics(spec: Record) -> list[str]:
    """The metrics that the eval's scorers will give, as far as the specification says it.

    A scorer that gives a dictionary names its keys where it says which statistics they get: in a dictionary,
    or in one among the statistics of the whole. A pattern names no key. inspect_ai numbers scorers of one
    name: match, match1.

    >>> planned_metrics({"scorers": [{"name": "pkg/match"}, {"name": "judge", "metrics": {"style": []}}]})
    ['match', 'judge/style']
    >>> whole = [{"name": "mean"}, {"style": [], "t_?": []}]
    >>> planned_metrics({"scorers": [{"name": "judge", "metrics": whole}]})
    ['judge/style']
    """
    found: list[str] = []
    used: list[str] = []
    for scorer in objects(spec, "scorers"):
        base = (text(scorer.get("name")) or "").rpartition("/")[2]
        if not base:
            continue
        numbered = (base, *(f"{base}{count}" for count in range(1, len(used) + 2)))
        name = next(candidate for candidate in numbered if candidate not in used)
        used.append(name)
        keyed = _keyed_statistics(scorer)
        keys = [key for statistics in keyed for key in statistics if not _PATTERN.search(key)]
        found += [f"{name}/{key}" for key in keys] if keyed else [name]
    return list(dict.fromkeys(map(metric_name, found)))[:MAX_METRICS]


def _keyed_statistics(scorer: Record) -> list[dict[str, Any]]:
    """The dictionaries of key to statistics; none for a scorer that gives single values.

    A single statistic is an object too, whose `name` is a text.
    """
    metrics = scorer.get("metrics")
    if isinstance(metrics, dict):
        return [metrics]
    return [item for item in objects(scorer, "metrics") if not isinstance(item.get("name"), str)]


def finished_event(status: Any, stats: Record) -> dict[str, Any] | None:
    """The `run_finished` of an eval, without its run; None while it runs (status `started`)."""
    completed_at = text(stats.get("completed_at"))
    if not text(status) or status == "started":
        return None
    return known(
        {
            "type": "run_finished",
            "revision": nanoseconds(completed_at) or 0,
            "finished_at": completed_at,
            "status": status,
        }
    )


def slot_of_sample(spec: Record, plan: Record, sample: Record, defaults: Record = NOTHING) -> dict[str, Any]:
    """The fields that say which slot a sample fills.

    Args:
        spec, plan: the eval's.
        sample: a sample, or its summary.
        defaults: `agent` and `model` where the records name none.
    """
    return {
        "task_id": str(sample.get("id", "")),
        "attempt": sample.get("epoch", 1),
        "agent": agent_of(spec, plan) or defaults.get("agent") or UNKNOWN,
        "model": text(spec.get("model")) or defaults.get("model") or UNKNOWN,
    }


def trial_event(
    spec: Record, plan: Record, sample: Record, written_ns: int, defaults: Record = NOTHING
) -> tuple[dict[str, Any], list[str]]:
    """The `trial_result` of a sample, without its run; and which of its scores are left out, and why.

    Args:
        spec, plan: the eval's.
        sample: `EvalSample` as JSON has it, or `EvalSampleSummary`: what both hold is enough.
        written_ns: the revision of a sample that does not say when it was completed; Unix nanoseconds.
        defaults: `agent` and `model` where the records name none.
    """
    slot = slot_of_sample(spec, plan, sample, defaults)
    scores = read_scores(part(sample, "scores"))
    usage = part(part(sample, "model_usage"), slot["model"])
    error = _error_of(sample)
    event = {
        "type": "trial_result",
        **slot,
        "harness": HARNESS,
        "revision": nanoseconds(sample.get("completed_at")) or written_ns,
        "trial_id": text(sample.get("uuid")),
        "resolved": scores.resolved,
        "failure_mode": _failure_mode(error, sample.get("limit")),
        "message": error[:MAX_MESSAGE_CHARACTERS] if error else None,
        "metrics": scores.metrics or None,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read_tokens": usage.get("input_tokens_cache_read"),
        "cache_write_tokens": usage.get("input_tokens_cache_write"),
        "cost_usd": known_cost(usage.get("total_cost"), usage.get("total_tokens")),
        "duration_seconds": sample.get("total_time"),
        "started_at": sample.get("started_at"),
        "finished_at": sample.get("completed_at"),
    }
    return known(event), scores.left_out


def start_event(spec: Record, plan: Record, sample: Record, now_ns: int) -> dict[str, Any]:
    """The `trial_started` of a sample, without its run.

    Args:
        spec, plan: the eval's.
        sample: its summary as it begins.
        now_ns: the present, Unix nanoseconds: when it began, if the sample does not say so.
    """
    began = nanoseconds(sample.get("started_at")) or now_ns
    started_at = (_EPOCH + timedelta(microseconds=began // 1000)).isoformat()
    slot = slot_of_sample(spec, plan, sample)
    return {"type": "trial_started", **slot, "revision": began, "started_at": started_at}


def nanoseconds(value: Any) -> int | None:
    """A time as Unix nanoseconds, exact to the microsecond; None for what is no time with a zone.

    >>> nanoseconds("2026-01-02T03:04:05.000006+00:00")
    1767323045000006000
    """
    time = time_of(value)
    return None if time is None else (time - _EPOCH) // timedelta(microseconds=1) * 1000


def _error_of(sample: Record) -> str | None:
    """The message of the error that ended a sample; a summary has it as text."""
    error = sample.get("error")
    return text(error.get("message")) or "error" if isinstance(error, dict) else text(error)


def _failure_mode(error: str | None, limit: Any) -> str:
    """The class of the error where its message begins with it, else `error`. Without one, the limit.

    >>> _failure_mode("TimeoutError('no answer')", None), _failure_mode("no answer", None)
    ('TimeoutError', 'error')
    >>> _failure_mode(None, {"type": "token", "limit": 100}), _failure_mode(None, "time")
    ('token_limit', 'time_limit')
    """
    if error:
        named = _EXCEPTION.match(error)
        return named[1][:MAX_NAME_CHARACTERS] if named else "error"
    kind = text(limit.get("type")) if isinstance(limit, dict) else text(limit)
    return f"{kind}_limit" if kind else NO_FAILURE
