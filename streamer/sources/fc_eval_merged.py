"""The part of each agent in a merged result of fc-eval (R28, D1 to D17).

fc-eval merges the results of a trial's agents into one. Where an agent's own result is missing, the merged
one still has a part of it. The merged result has, agent by agent under `agent_metrics_by_agent`, the counts
of tests and snapshot, the cost and the trajectory length. It has the benchmarks of all agents. It has the
verdict, the failure mode and the times of the last agent alone (D2).

Two things are lost in the merge, and stay unknown here:

- Where an agent's log has no benchmarks of its own, the harness files its entry under the first agent
  with the same label (D5). The entry that stood there is gone.
- A failed agent's ratios may be the harness's 1.0 (C1). A marked ratio of exactly 1.0 says nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from streamer.model_names import BASELINE_LABELS
from streamer.sources.agent_keys import ConfiguredAgent, key_for_reporting, own_key
from streamer.sources.costs import reported_cost
from streamer.sources.fc_eval_layout import METRICS
from streamer.sources.fc_eval_payload import (
    RATIOS,
    BenchmarkFields,
    Payload,
    read_kept_snapshot,
    slim,
    trajectory_length,
)
from streamer.sources.fc_eval_roster import Roster
from streamer.sources.files import known, part
from streamer.sources.formulacode_blocks import (
    FALLBACK_MARK,
    TEST_COUNTS,
    ResultBlock,
    Section,
    read_result,
    read_tests,
)

ENTRIES = "agent_metrics_by_agent"
_BY_AGENT = "per_benchmark_speedups_by_agent"
_TOKENS = ("input_tokens", "output_tokens")
_SNAPSHOT_COUNTS = ("passed", "skipped", "total")
"""Without `failed`: the harness writes over that count (B7)."""

_SAME = 1e-9
"""Relative difference up to which two means are one, computed in two ways (A7)."""


@dataclass(slots=True)
class Share:
    """The part of one agent in a merged result.

    Attributes:
        measured: resolved, tokens, cost and trajectory length, as far as they are known.
        payload: tests, snapshot and benchmarks, and what of them is lost.
    """

    measured: dict[str, Any]
    payload: Payload


class Merged:
    """A merged result, to be asked for its agents one by one.

    Args:
        result: the trial, as in its results.json or in the run-level file.
        roster: the agents of the trial.
        last: position of the agent that ran last, by the trial's name (D2); None if it names none.

    Attributes:
        entries: key to metrics of the agents that the harness merged; empty if it merged none.
    """

    def __init__(self, result: Mapping[str, Any], roster: Roster, last: int | None) -> None:
        self._result = result
        self._roster = roster
        self._last = last
        self._metrics = part(result, METRICS)
        entries = part(self._metrics, ENTRIES)
        self.entries = {key_for_reporting(key): entry for key, entry in entries.items()}
        improvements = self._metrics.get("improvements_dict")
        self._written = read_result(improvements) if improvements is not None else ResultBlock()
        self._keys = self._keys_in(self._written.benchmarks_by_agent or {})
        self._claims_keys = self._keys_in(self._written.claims_by_agent)
        logged = part(part(self._metrics, "improvements_dict"), _BY_AGENT)
        filed = {position: filed_under(agent, logged) for position, agent in sorted(roster.agents.items())}
        self._owners = {key: position for position, key in filed.items()}  # the later one has it
        self._filed = filed

    def share(self, position: int) -> Share | None:
        """The known facts about the agent at a position; None where the merge lost it, or has nothing."""
        key = self._filed[position]
        if self._owners[key] != position or not isinstance(self.entries.get(key), dict):
            return None
        entry = self.entries[key]
        tests, snapshot = part(entry, "pytest_summary"), part(entry, "snapshot_summary")
        share = Share(self._counted(position, entry), Payload(self._roster.agents[position].key))
        if _was_tested(tests, snapshot):
            share.measured["resolved"] = _passed(tests) and _passed(snapshot)
            share.payload = self._payload(position, entry)
            sections = {"tests": _tests(tests), "snapshot": _snapshot(snapshot)}
            share.payload.fields = sections | share.payload.fields
        if position == self._last:
            share.measured["resolved"] = self._result.get("is_resolved")
        return share

    def _counted(self, position: int, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Cost, trajectory length and tokens. Tokens are summed over the agents; baselines use none."""
        agents = self._roster.agents
        agent = agents[position]
        others = (other.label for place, other in agents.items() if place != position)
        alone = agent.label not in BASELINE_LABELS and all(label in BASELINE_LABELS for label in others)
        tokens = {name: self._result.get(f"total_{name}") if alone else None for name in _TOKENS}
        return {
            "cost_usd": reported_cost({"total_cost": entry.get("task_cost_usd")}, agent.label),
            "trajectory_length": trajectory_length(entry),
            **{name: count or None for name, count in tokens.items()},
        }

    def _payload(self, position: int, entry: Mapping[str, Any]) -> Payload:
        """The agent's part of the merged RESULT blocks, without values that the fallback wrote over them."""
        agent = self._roster.agents[position]
        logged, claims = self._written.benchmarks_by_agent or {}, self._written.claims_by_agent
        key, claims_key = self._keys[position], self._claims_keys[position]
        payload = Payload(agent.key)
        benchmarks = None if key is None else logged[key]
        claimed = None if benchmarks or claims_key is None else claims[claims_key]  # (R3)
        if key is None:
            payload.keys_of_others = tuple(other for other, held in logged.items() if held)
        elif benchmarks and any(map(_is_marked, benchmarks.values())):
            benchmarks = self._measured_before(key, benchmarks) or _without_fallback(
                benchmarks, is_nop=agent.label == "nop"
            )
            if entry.get("success") is not False and not any(map(_has_ratio, benchmarks.values())):
                benchmarks = None
                payload.problems.append(
                    f"the speedups of {agent.key} stand in it only as the harness's fallback left them; "
                    "they are left out"
                )
        payload.fields = slim(known({"benchmarks": benchmarks, "claimed": claimed or None}))
        return payload

    def _keys_in(self, logged: Mapping[str, Any]) -> dict[int, str | None]:
        """Position to the agent's own key among the keys of all logs (R7).

        These are the logs of all agents, so a key that two agents would take is neither's, and only the
        last agent's own log is known to have its `last_agent`.
        """
        found: dict[int, str | None] = {}
        for position, agent in self._roster.agents.items():
            last_agent = self._written.last_agent if position == self._last else None
            found[position] = own_key(logged, self._roster.subject(position, agent), last_agent)
        times = Counter(found.values())
        return {position: key if times[key] == 1 else None for position, key in found.items()}

    def _measured_before(self, key: str, benchmarks: BenchmarkFields) -> BenchmarkFields | None:
        """The benchmarks of the log's last agent from the flat copy that the fallback leaves alone.

        Where the agent's own entries lack a ratio, the copy holds an earlier agent's. An oracle value is
        one of these if the fallback had to put 1.0 for it. The copy counts if it then gives the speedup
        that the harness computed before the fallback (B14).
        """
        flat = self._written.flat_benchmarks
        if flat is None or self._written.last_agent != key:
            return None
        own = {name: _own_ratios(flat.get(name), fallen_back) for name, fallen_back in benchmarks.items()}
        speedup = self._metrics.get("task_speedup")
        same = isinstance(speedup, float) and math.isclose(_speedup(own), speedup, rel_tol=_SAME)
        return own if same else None


def filed_under(agent: ConfiguredAgent, logged: Mapping[str, Any]) -> str:
    """The key under which the harness files an agent's metrics when it merges (D5), for reporting (E10).

    >>> filed_under(ConfiguredAgent("t", "a/m1"), {"t:a/m0": {}, "t:a/m1": {}})
    't:a/m1'
    >>> filed_under(ConfiguredAgent("t", "b"), {})
    't:b'
    >>> filed_under(ConfiguredAgent("t", "b"), {"t:a/m0": {}})
    't:a/m0'
    """
    own = key_for_reporting(agent.key)
    same = [key_for_reporting(key) for key in logged if key.partition(":")[0] == agent.label]
    return own if own in same or not same else same[0]


def _was_tested(tests: Mapping[str, Any], snapshot: Mapping[str, Any]) -> bool:
    """Whether the harness read a log of the agent at all; an entry of nothing but zeros says not (D13).

    A snapshot that was read and failed has 1 under `failed` (B7).
    """
    counts = (*(tests.get(name) for name in TEST_COUNTS), *(snapshot.get(n) for n in _SNAPSHOT_COUNTS))
    return any(counts) or bool(snapshot.get("failed")) or _passed(tests) or _passed(snapshot)


def _passed(summary: Mapping[str, Any]) -> bool:
    """Whether the harness's own verdict on the agent's tests, or its snapshot, is that they passed (B8)."""
    return str(summary.get("status")).lower() == "passed"


def _tests(summary: Mapping[str, Any]) -> Section:
    """The section of the tests; the harness drops the counts of a block that it takes for broken (B5)."""
    if not any(summary.get(name) for name in TEST_COUNTS):
        return {"status": "ok" if _passed(summary) else "failed"}
    return read_tests({name: summary[name] for name in TEST_COUNTS if name in summary})


def _snapshot(summary: Mapping[str, Any]) -> Section:
    """The section of the snapshot, without the count of failed ones, which the harness writes over (B7)."""
    if not _passed(summary) and not any(summary.get(name) for name in (*_SNAPSHOT_COUNTS, "pass_to_fail")):
        return {"status": "failed"}
    counts = {name: summary[name] for name in _SNAPSHOT_COUNTS if name in summary}
    section = read_kept_snapshot({"pass-to-fail": summary.get("pass_to_fail", 0), **counts})
    return section if _passed(summary) else section | {"status": "failed"}


def _is_marked(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get(FALLBACK_MARK) is True


def _has_ratio(entry: Any) -> bool:
    return isinstance(entry, dict) and "agent/nop" in entry


def _own_ratios(entry: JsonValue, fallen_back: JsonValue) -> JsonValue:
    if not isinstance(entry, dict) or not isinstance(fallen_back, dict):
        return entry
    is_strange = fallen_back.get("oracle/nop") == 1.0 != entry.get("oracle/nop")
    return {name: value for name, value in entry.items() if not (is_strange and name == "oracle/nop")}


def _without_fallback(benchmarks: BenchmarkFields, *, is_nop: bool) -> BenchmarkFields:
    """Benchmarks without the marks, and without marked ratios of 1.0, which may be the harness's (C1).

    A later agent's log may have written the measured values back, and left the marks (D7). What nop
    measured is 1.0 in any case: it is compared with itself.
    """
    doubtful = {"oracle/nop"} if is_nop else set(RATIOS)
    return {
        name: {
            key: value
            for key, value in entry.items()
            if key not in (FALLBACK_MARK, "advantage") and not (key in doubtful and value == 1.0)
        }
        if isinstance(entry, dict) and _is_marked(entry)
        else entry
        for name, entry in benchmarks.items()
    }


def _speedup(benchmarks: BenchmarkFields) -> float:
    """Geometric mean of the agent's valid ratios (A2, A3)."""
    logs = [
        math.log(float(entry["agent/nop"]))  # type: ignore[arg-type]
        for entry in benchmarks.values()
        if isinstance(entry, dict) and all(_is_valid(entry.get(name)) for name in RATIOS)
    ]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def _is_valid(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0  # (A1)
