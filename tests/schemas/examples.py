"""Examples of every message, good and bad, for the models and for the exported schemas alike."""

from __future__ import annotations

import json
from typing import Any

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record

SLOT = {"type": "trial_result", "run_id": "r", "task_id": "t"}

WHERE = {"shard": "s", "attempt": 2, "agent": "terminus", "model": "gpt-5", "tier": "T0", "subtest": "01"}
BEGUN, ENDED = "2026-01-31T09:30:00Z", "2026-01-31T11:30:00.125+02:00"

FULL_TRIAL: dict[str, Any] = (
    SLOT
    | {"schema_version": 1, "shard": "s", "attempt": 2, "agent": "terminus", "model": "gpt-5"}
    | {"agent_index": 1, "tier": "T0", "subtest": "01", "revision": -(2**63), "trial_id": "x"}
    | {"trial_name": "y", "harness": "scylla", "resolved": None, "failure_mode": "unset", "score": 0.75}
    | {"input_tokens": 0, "output_tokens": 2**53, "cache_read_tokens": 1, "cache_write_tokens": 1}
    | {"cost_usd": 0, "duration_seconds": 1.5, "started_at": BEGUN, "finished_at": ENDED}
    | {"trajectory_length": 3, "tests": {"status": "ok", "passed": 3, "failed": -1, "new": [1]}}
    | {"snapshot": {"status": "missing", "pass_to_fail": 0.5}}
    | {"claimed": {"agent_advantage": 0.25, "levels": [1, None]}, "speedup_percentage": 12.5}
    | {"benchmarks": {"a": {"agent/nop": 1.25, "oracle/nop": "NaN"}, "b": None}}
    | {"metrics": {"reward": 0.7, "judge/style": -1, "latency_p50": 1.5}}
    | {"labels": {"language": "python", "size": ""}}
    | {"message": "AssertionError: expected 3\ngot 4 \u001b[31m"}
    | {
        "artifacts": [
            {"name": "agent log", "path": "t.1/agent-logs/agent.log", "media_type": "text/plain"},
            {"name": "recording", "url": "https://example.org/t.cast"},
        ]
    }
    | {"provenance": {"timeout": "600", "task_digest": "sha256:0"}, "a field of tomorrow": {"any": "thing"}}
)

LEDGER_LINES = {"a:m": [31.5, None, 20, 9, 1, 0], "b:m": [None, "late", 0, 0, 0, 0]}
FULL_PLAN: dict[str, Any] = (
    {"type": "run_started", "run_id": "r", "revision": 3, "harness": "terminal-bench", "started_at": BEGUN}
    | {"tasks": ["t", "u"], "attempts": 2, "order": ["t", ["u", 2]], "order_kind": "shuffled"}
    | {"concurrency": 4, "task_difficulty": {"t": 0.5}, "plan_complete": True, "agent_models": ["a:m"]}
    | {"tiers": ["T0", "T1"], "subtests": {"T0": 1, "T1": 2}, "baseline_tier": "T0"}
    | {"baselines": ["nop", "oracle"], "judged": True}
    | {"infrastructure_failures": ["agent_installation_failed"], "grading_profile": "specified"}
    | {"project": "p", "benchmark": "b", "benchmark_version": "1", "display_name": "Name"}
    | {"labels": {"k": "v"}}
    | {"metrics": {"reward": {"direction": "higher", "unit": "1", "label": "Reward"}, "latency_p50": {}}}
    | {"primary_metric": "metrics/reward", "planned_at": "2026-01-31T09:29:00Z", "order_reason": "history"}
    | {"order_history": ["earlier"], "verdicts": True}
    | {"ledger": {"name": "candidates", "baseline": "r0/a:m", "metric": "pass_rate", "lines": LEDGER_LINES}}
    | {"part": "1", "parts": 2, "provenance": {"harness_version": "0.26.0", "seed": "7"}, "varies": ["seed"]}
)

FULL_SCORE: dict[str, Any] = (
    SLOT
    | {"type": "trial_scored", "schema_version": 2, **WHERE, "revision": 1, "score": 0.5}
    | {"metrics": {"judge/style": -1}, "resolved": True, "of_revision": 0}
)

FULL_END: dict[str, Any] = {
    "type": "run_finished",
    "run_id": "r",
    "finished_at": BEGUN,
    "revision": 1,
    "status": "ok",
} | {"scores_pending": True, "part": "1", "try": 2}

FULL_START: dict[str, Any] = SLOT | {"type": "trial_started", "schema_version": 1, **WHERE}
FULL_START |= {"revision": 1, "started_at": BEGUN, "position": 0}

GOOD_EVENTS: dict[str, dict[str, Any]] = {
    "a slot alone": SLOT,
    "every field": FULL_TRIAL,
    "an unnamed agent": SLOT | {"agent": None, "model": None},
    "an id of 512 characters": SLOT | {"task_id": "é" * 512},
    "no benchmarks": SLOT | {"benchmarks": {}},
    "a plan": FULL_PLAN,
    "a plan that counts its tasks": FULL_PLAN | {"tasks": 2},
    "an empty plan": {"type": "run_started", "run_id": "r"},
    "an end": {"type": "run_finished", "run_id": "r", "finished_at": BEGUN, "status": "ok"},
    "an end with every field": FULL_END,
    "times without a zone": SLOT | {"started_at": BEGUN[:-1], "finished_at": "2026-01-31 09:31:00.5"},
    "a late score": FULL_SCORE,
    "a late score that says nothing": {"type": "trial_scored", "run_id": "r", "task_id": "t"},
    "schema version 2": SLOT | {"schema_version": 2},
    "a start": FULL_START,
    "a start of which nothing is known": {"type": "trial_started", "run_id": "r", "task_id": "t"},
    "a retraction": SLOT | {"type": "trial_retracted", "revision": 1, "reason": "why"},
    "a deletion": {"type": "run_deleted", "run_id": "r", "revision": 1},
}

BAD_EVENTS: dict[str, dict[str, Any]] = {  # test_base.py has what is beyond a limit
    "text for a cost": SLOT | {"cost_usd": "1.5"},
    "text for a count": SLOT | {"input_tokens": "3"},
    "text for a verdict": SLOT | {"resolved": "true"},
    "a number for a verdict": SLOT | {"resolved": 1},
    "a number for an id": SLOT | {"task_id": 7},
    "a verdict for a number": SLOT | {"cost_usd": True},
    "a fraction of a token": SLOT | {"output_tokens": 0.5},
    "an unknown test status": SLOT | {"tests": {"status": "fine"}},
    "tests without a status": SLOT | {"tests": {"passed": 1}},
    "an empty id": SLOT | {"task_id": ""},
    "a control character in an id": SLOT | {"agent": "a\x1b[31m"},
    "a line feed at the end of an id": SLOT | {"run_id": "r\n"},
    "a C1 control character in an id": SLOT | {"tier": "T0\x85"},
    "a control character in a shard": SLOT | {"shard": "\x00"},
    "no task": {"type": "trial_result", "run_id": "r"},
    "no run": {"type": "trial_result", "task_id": "t"},
    "no type": {"run_id": "r", "task_id": "t"},
    "an unknown type": SLOT | {"type": "trial_paused"},
    "schema version 3": SLOT | {"schema_version": 3},
    "a plan with a ledger without a baseline": FULL_PLAN | {"ledger": {"name": "candidates"}},
    "a plan with a number for its provenance": FULL_PLAN | {"provenance": {"seed": 7}},
    "a late score as text": FULL_SCORE | {"score": "0.5"},
    "schema version as text": SLOT | {"schema_version": "1"},
    "a time of another form": SLOT | {"finished_at": "31.01.2026 09:30"},
    "a date for a time": SLOT | {"finished_at": "2026-01-31"},
    "a number for a time": SLOT | {"finished_at": 1_700_000_000},
    "a number as text for a time": SLOT | {"finished_at": "1700000000"},
    "benchmarks in a list": SLOT | {"benchmarks": [1.5]},
    "a retraction without a floor": {"type": "trial_retracted", "run_id": "r", "task_id": "t"},
    "a deletion without a revision": {"type": "run_deleted", "run_id": "r"},
    "a plan with a nameless task": FULL_PLAN | {"tasks": [""]},
    "a plan with a number for a label": FULL_PLAN | {"labels": {"k": 1}},
    "a metric with a space in its name": SLOT | {"metrics": {"a b": 1}},
    "a metric with a line feed in its name": SLOT | {"metrics": {"a\n": 1}},
    "a metric without a name": SLOT | {"metrics": {"": 1}},
    "a metric without a value": SLOT | {"metrics": {"a": None}},
    "a truth value for a metric": SLOT | {"metrics": {"a": True}},
    "a number for a label of a trial": SLOT | {"labels": {"k": 1}},
    "a label of a trial with a control character": SLOT | {"labels": {"k\x1b": "v"}},
    "an artifact that lies nowhere": SLOT | {"artifacts": [{"name": "log"}]},
    "an artifact in two places": SLOT | {"artifacts": [{"name": "log", "path": "a", "url": "https://b.org"}]},
    "an artifact above the run": SLOT | {"artifacts": [{"name": "log", "path": "a/../../b"}]},
    "an artifact at an absolute path": SLOT | {"artifacts": [{"name": "log", "path": "/etc/passwd"}]},
    "an artifact behind a backslash": SLOT | {"artifacts": [{"name": "log", "path": "..\\b"}]},
    "an artifact that is a script": SLOT | {"artifacts": [{"name": "log", "url": "javascript:alert(1)"}]},
    "a plan with a direction of its own": FULL_PLAN | {"metrics": {"a": {"direction": "up"}}},
    "a plan with a nameless primary metric": FULL_PLAN | {"primary_metric": ""},
}


def published() -> list[dict[str, Any]]:
    """What the pipeline publishes for a small tiered run with a late oracle and a bad record: every kind."""
    trials = [
        SLOT
        | {"task_id": f"t{task}", "tier": tier, "agent": "a", "model": "m", "resolved": task == 0}
        | {"cost_usd": 0.5, "score": 0.75, "duration_seconds": 3.5, "finished_at": "2026-01-31T09:30:00Z"}
        for task in range(2)
        for tier in ("T0", "T1")
    ]
    trials.append(trials[0] | {"agent": "b", "resolved": False})
    tests = {"status": "ok", "passed": 9, "failed": 1}
    sub_trials = [
        SLOT | {"task_id": "shared", "agent": "a", "model": "m", "agent_index": 2, "tests": tests},
        SLOT | {"task_id": "shared", "agent": "oracle", "agent_index": 1, "tests": tests},
    ]
    pipeline = Pipeline()
    messages: list[bytes] = []
    for offset, event in enumerate([FULL_PLAN, *trials, *sub_trials, {"type": "nonsense"}]):
        folded = pipeline.fold([Record(json.dumps(event).encode(), offset)])
        messages.extend(rejection.value for rejection in folded.rejections)
        for run_id in folded.touched:
            cut = pipeline.run(run_id).take_changes()
            messages.extend(change.value for change in cut.summaries if change.value is not None)
            messages.extend(change.value for change in cut.scored if change.value is not None)
            messages.extend(item.value for item in cut.notifications)
    return [json.loads(message) for message in messages]
