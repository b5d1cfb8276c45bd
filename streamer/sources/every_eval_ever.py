"""Instance-level results in the format of Every Eval Ever (schema 0.3.0 of its package every-eval-ever).

<uuid>.json                the evaluation as a whole; may be missing
<uuid>_samples.jsonl       a row for each sample and for each result that it counts in

- A run is one file of rows; its id is the rows' `evaluation_id`. The model is the rows' `model_id`. No field
  names an agent.
- A trial is a sample of an evaluation: its task is `evaluation_name/sample_id`. Several results of a sample
  (`evaluation_result_id`) are several rows of one trial.
- Repeats: the attempt is the `epoch` in the row's metadata, as the converter of inspect_ai logs writes it.
  Otherwise the sample is counted: the same result for the second time is attempt 2.
- Verdict: `is_correct`, if all rows of the trial agree; none otherwise.
- Metrics: each score, as `score`, or as `score/RESULT` where a row names its result; turns and tool calls.
- Latency is no duration: converters mean different times by `latency_ms`. It is a metric, as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamer.model_names import label_for_reporting
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import (
    MAX_ID_CHARACTERS,
    MAX_TRIAL_LABEL_KEY_CHARACTERS,
    MAX_TRIAL_LABEL_VALUE_CHARACTERS,
    MAX_TRIAL_LABELS,
)
from streamer.sources.base import ConvertOptions, Found, RunPlan, Unreadable
from streamer.sources.every_eval_ever_rows import ENDING, Row, Sample, first_row, is_rows, read_samples
from streamer.sources.files import (
    FileError,
    clean_name,
    clean_text,
    is_file,
    known,
    mtime_ns,
    objects,
    part,
    read_optional,
    text,
)
from streamer.sources.names import metric_name

SCORE = "score"
RESULTS = "evaluation_results"
NUMBERS = {
    "num_turns": ("evaluation", "num_turns"),
    "tool_calls": ("evaluation", "tool_calls_count"),
    "latency_ms": ("performance", "latency_ms"),
    "generation_time_ms": ("performance", "generation_time_ms"),
}
"""Metric to the place of its number in a row."""


class EveryEvalEver:
    """Connector for Every Eval Ever."""

    name = "every-eval-ever"

    def detect(self, path: Path) -> bool:
        return is_rows(path)

    def skip(self, directory: Path) -> bool:
        return False

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        """What the first row says, and the file of the whole evaluation; if that is there, it is over."""
        plan = RunPlan(run_id=clean_name(path).removesuffix(ENDING))
        try:
            row = first_row(path) or {}
        except FileError as error:
            plan.problems.append(Unreadable(path, str(error)))
            return plan
        run_id = clean_text(str(row.get("evaluation_id", "")))
        plan.run_id = run_id if 0 < len(run_id) <= MAX_ID_CHARACTERS else plan.run_id
        plan.uuids = frozenset({run_id}) - {""}
        file = path.with_name(path.name.removesuffix(ENDING) + ".json")
        whole = read_optional(file, plan.problems)
        revision = max(mtime_ns(path), mtime_ns(file))
        label = label_for_reporting(options.agent or UNKNOWN, text(row.get("model_id")))
        plan.started = known(
            {
                "type": "run_started",
                "harness": self.name,
                "revision": revision,
                "started_at": _time(whole.get("evaluation_timestamp")),
                "agent_models": [label],
                "benchmark": _benchmark(whole),
                "metrics": _planned_metrics(whole) or None,
            }
        )
        if is_file(file) and not plan.problems:
            plan.finished = {"type": "run_finished", "revision": revision, "status": "completed"}
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Found | Unreadable]:
        try:
            samples, problems = read_samples(path)
        except FileError as error:
            yield Unreadable(path, str(error))
            return
        yield from (Unreadable(path, problem) for problem in problems)
        revision = mtime_ns(path)
        for sample in samples:
            run = clean_text(sample.rows[0]["evaluation_id"])
            other = None if run in (plan.run_id, *plan.uuids) else run
            event = _event(sample, revision, options)
            hints = () if "resolved" in event else ("no verdict: its rows do not agree",)
            yield Found(path, event, other_run=other, hints=hints)

    def part(self, run: Path, changed: Path) -> Path | None:
        """The run as a whole: it is one file."""
        return None


def _event(sample: Sample, revision: int, options: ConvertOptions) -> dict[str, Any]:
    first = sample.rows[0]
    usage = next(filter(None, (part(row, "token_usage") for row in sample.rows)), {})
    error = next(filter(None, (text(row.get("error")) for row in sample.rows)), None)
    return known(
        {
            "type": "trial_result",
            "harness": EveryEvalEver.name,
            "task_id": clean_text(f"{first['evaluation_name']}/{first['sample_id']}"),
            "attempt": sample.attempt,
            "agent": options.agent or UNKNOWN,
            "model": first["model_id"],
            "revision": revision,
            "resolved": _verdict(sample.rows),
            "failure_mode": "error" if error else "unset",
            "message": error,
            "metrics": _metrics(sample.rows),
            "labels": _labels(first),
            **_tokens(usage),
        }
    )


def _verdict(rows: list[Row]) -> bool | None:
    """Whether the answer is correct; None where the rows do not agree."""
    said = [part(row, "evaluation").get("is_correct") for row in rows]
    return said[0] if all(value is said[0] for value in said) and isinstance(said[0], bool) else None


def _metrics(rows: list[Row]) -> dict[str, Any] | None:
    """The score of each row, and the numbers that the rows have."""
    found = {_score_name(row.get("evaluation_result_id")): part(row, "evaluation").get(SCORE) for row in rows}
    for name, (place, key) in NUMBERS.items():
        found[name] = next((v for row in rows if (v := part(row, place).get(key)) is not None), None)
    return known(found) or None


def _score_name(result: Any) -> str:
    """The metric that a row's score is.

    >>> _score_name("match:accuracy"), _score_name(None)
    ('score/match_accuracy', 'score')
    """
    named = text(result)
    return metric_name(f"{SCORE}/{named}") if named else SCORE


def _tokens(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens; the input without the cache, if the total says that the cache is part of the input."""
    fresh, output, total = (usage.get(f"{name}_tokens") for name in ("input", "output", "total"))
    read, written = (usage.get(f"input_tokens_cache_{name}") for name in ("read", "write"))
    cached = sum(count for count in (read, written) if isinstance(count, int))
    if isinstance(fresh, int) and isinstance(output, int) and fresh + output == total:
        fresh = max(0, fresh - cached)
    return {
        "input_tokens": fresh,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }


def _labels(row: Row) -> dict[str, str] | None:
    """The metadata that fit, the first of them by name."""
    fitting = {
        key: value
        for key, value in part(row, "metadata").items()
        if isinstance(value, str)
        and value
        and 0 < len(key) <= MAX_TRIAL_LABEL_KEY_CHARACTERS
        and len(value) <= MAX_TRIAL_LABEL_VALUE_CHARACTERS
        and clean_text(key) == key
    }
    return {key: fitting[key] for key in sorted(fitting)[:MAX_TRIAL_LABELS]} or None


def _planned_metrics(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Which way each score is better, its unit and its heading."""
    scores = {}
    for result in objects(whole, RESULTS):
        config = part(result, "metric_config")
        scores[_score_name(result.get("evaluation_result_id"))] = known(
            {
                "direction": "lower" if config.get("lower_is_better") is True else "higher",
                "unit": text(config.get("metric_unit")),
                "label": text(result.get("evaluation_result_id")),
            }
        )
    return scores


def _benchmark(whole: Mapping[str, Any]) -> str | None:
    """The one dataset of all results."""
    names = {text(part(result, "source_data").get("dataset_name")) for result in objects(whole, RESULTS)}
    return names.pop() if len(names) == 1 else None


def _time(seconds: Any) -> str | None:
    """A time in Unix seconds, as text, with its zone."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
