"""The comparison: what the log says, folded without any broker, against topics and Redis, key by key."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
import redis

from streamer.folding.fold import Pipeline
from streamer.folding.slots import SummaryChange
from streamer.schemas.base import digest_of, encode_id
from streamer.schemas.wire import Unread
from streamer.storage.entries import KeyState, entry_of
from tests.faults.bed import CURRENT_SECONDS, Bed
from tests.support.worker_process import wait_for

SHOWN = 12


@dataclass(slots=True)
class Outcome:
    """What a comparison found.

    Attributes:
        differences: a sentence each; empty if everything is as it has to be.
        lost: results that count and are in no summary.
        double: results that count more than once.
        rejected_again: rejections that were written more than once, which the contract allows.
    """

    differences: list[str] = field(default_factory=list)
    lost: int = 0
    double: int = 0
    summaries: int = 0
    rejected_again: int = 0

    @property
    def good(self) -> bool:
        """True if nothing is wrong."""
        return not (self.differences or self.lost or self.double)


class Checker:
    """Folds the log as it grows, and compares."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._log = Pipeline(takes_changes=False)
        self._in_log: dict[tuple[int, int], bytes] = {}
        self._rejected: set[tuple[int, int]] = set()
        self._poisoned: set[tuple[int, int]] = set()
        self._generation = bed.generation
        self._torn_before = 0

    def compare(self, seconds: float = CURRENT_SECONDS) -> Outcome:
        """Hold the publisher, wait until everything is equal or the time is over, and say what is not."""
        bed = self._bed
        bed.publisher.hold()
        self._read_all()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self._differences(shallow=True), "everything is equal", seconds)
        outcome = Outcome(list(self._differences()))
        self._count(outcome)
        outcome.rejected_again = sum(count - 1 for count in bed.topics.rejected.values())
        outcome.differences += [
            f"Redis: {run} went back from {seen} to {now}" for run, seen, now in bed.in_redis.backwards
        ]
        bed.in_redis.backwards.clear()
        outcome.differences += self._torn()
        bed.publisher.resume()
        return outcome

    def summary(self, run: str) -> dict[str, Any]:
        """Summary of a run in Redis."""
        with redis.Redis.from_url(self._bed.redis_url) as client:
            return dict(orjson.loads(client.get(self._bed.keys.run(run)) or b"{}"))

    def _torn(self) -> list[str]:
        """What the atomic reader saw since the last time, if it still reads."""
        atomic = self._bed.atomic
        torn = atomic.torn[self._torn_before :]
        self._torn_before += len(torn)
        result = [f"Redis, read as one: {what}" for what in torn[:SHOWN]]
        return result if atomic.is_alive() else [*result, "the atomic reader has ended"]

    def _begin_again(self) -> None:
        """Another broker has the log: fold it from its beginning."""
        self._generation = self._bed.generation
        self._log = Pipeline(takes_changes=False)
        self._in_log, self._rejected, self._poisoned = {}, set(), set()

    def _read_all(self) -> None:
        """Fold the log to where the publisher's last acknowledged record lies, and further."""
        if self._generation != self._bed.generation:
            self._begin_again()
        topics, ends = self._bed.topics, self._bed.publisher.ends
        topic = self._bed.names.trial_events
        wait_for(
            lambda: all(topics.positions.get((topic, n), 0) > end for n, end in ends.items()),
            "the log is read",
            CURRENT_SECONDS,
        )
        self._fold()

    def _fold(self) -> None:
        taken = len(self._bed.topics.events)
        records, self._bed.topics.events[:taken] = self._bed.topics.events[:taken], []
        folded = self._log.fold(records)
        for record in records:
            self._in_log[record.partition, record.offset] = record.value
            if record.value in self._bed.poison or isinstance(record.value, Unread):
                self._poisoned.add((record.partition, record.offset))
        rejections = (orjson.loads(item.value) for item in folded.rejections)
        self._rejected |= {(item["source_partition"], item["source_offset"]) for item in rejections}

    def _differences(self, *, shallow: bool = False) -> list[str]:
        """What is not as it has to be; `shallow`: stop at the first, for waiting."""
        self._fold()
        known = [run for run in self._log.runs() if self._log.run(run).state.exists]
        runs = [run for run in known if run not in self._bed.quarantined]
        changes = [change for run in runs for change in self._log.run(run).summaries()]
        result: list[str] = []
        for look in (
            lambda: self._acknowledged_values() if self._bed.loads_again else self._acknowledged(),
            lambda: self._rejections(),
            lambda: self._topics(changes),
            lambda: self._scored(runs),
            lambda: self._redis(changes),
            lambda: self._boards(known, runs, changes),
        ):
            result += look()
            if shallow and result:
                break
        return result

    def _acknowledged(self) -> list[str]:
        """Every acknowledged record lies where the broker said."""
        acknowledged = self._bed.publisher.acknowledged
        wrong = []
        for place, value in list(acknowledged.items()):
            if self._in_log.get(place) != value:
                wrong.append(f"log: what was acknowledged at {place} is not there")
            else:
                del acknowledged[place], self._in_log[place]
        return wrong[:SHOWN]

    def _acknowledged_values(self) -> list[str]:
        """Every value that was ever acknowledged is there as often.

        Not at its place: copies that the worker forwarded are not in the journal, so what lay behind them
        moves up when the log is loaded again.
        """
        missing = self._bed.publisher.every - Counter(self._in_log.values())
        return [f"log: what was acknowledged is not there: {value!r:.200}" for value in missing][:SHOWN]

    def _rejections(self) -> list[str]:
        said = {
            "was rejected and is not poison": self._rejected - self._poisoned,
            "is poison and was not rejected by the fold": self._poisoned - self._rejected,
            "is poison and has no rejection": self._poisoned - self._bed.topics.rejected.keys(),
            "has a rejection and is not poison": self._bed.topics.rejected.keys() - self._poisoned,
        }
        return [f"rejections: {place} {what}" for what, places in said.items() for place in places][:SHOWN]

    def _topics(self, changes: list[SummaryChange]) -> list[str]:
        names, latest = self._bed.names, self._bed.topics.latest
        topics = {
            "agent_model": names.agent_model_summaries,
            "tier": names.tier_summaries,
            "run": names.run_summaries,
        }
        result = []
        for kind, topic in topics.items():
            expected = {change.key: change.digest for change in changes if change.kind == kind}
            there = {
                key: _digest(value) for key, value in list(latest[topic].items()) if not self._apart(key)
            }
            result += _unlike(f"topic {topic}", expected, there)
        return result

    def _scored(self, runs: list[str]) -> list[str]:
        topic = self._bed.names.scored_trials
        expected = {
            item.key: orjson.loads(item.value)["digest"]
            for run in runs
            for item in self._log.run(run).take_scored()
            if item.value is not None
        }
        there = {
            key: orjson.loads(value)["digest"]
            for key, value in list(self._bed.topics.latest[topic].items())
            if not self._apart(key)
        }
        return _unlike(f"topic {topic}", expected, there)

    def _redis(self, changes: list[SummaryChange]) -> list[str]:
        names = self._bed.keys
        expected = {names.of_run(c.run_id, entry_of(c, notify=False).suffix): c.digest for c in changes}
        try:
            with redis.Redis.from_url(self._bed.redis_url) as client:
                keys = {
                    names.of_run(run, suffix.decode())
                    for run in self._bed.traffic.runs
                    if run not in self._bed.quarantined
                    for suffix in client.hkeys(names.versions(run))
                    if suffix != b"deleted"
                }
                keys |= expected.keys()
                values: Any = client.mget(list(keys))
        except redis.RedisError as error:
            return [f"Redis: {error}"]
        there = {key: _digest(value) for key, value in zip(keys, values, strict=True) if value is not None}
        return _unlike("Redis", expected, there)

    def _boards(self, known: list[str], runs: list[str], changes: list[SummaryChange]) -> list[str]:
        """Boards, index sets and the list of runs follow the summaries; `runs`: those that are not apart."""
        names = self._bed.keys
        entries = [entry_of(change, notify=False) for change in changes]
        try:
            with redis.Redis.from_url(self._bed.redis_url) as client:
                listed = {member.decode() for member in client.zrange(names.runs, 0, -1)}
                result = _unlike(
                    "Redis runs", dict.fromkeys(map(encode_id, known), ""), dict.fromkeys(listed, "")
                )
                for run in runs:
                    result += _boards_of(client, names, run, [e for e in entries if e.run_id == run])
        except redis.RedisError as error:
            return [f"Redis: {error}"]
        return result

    def _apart(self, key: str) -> bool:
        """True for a topic's key of a run that is set apart."""
        return key.split("|")[0] in map(encode_id, self._bed.quarantined)

    def _count(self, outcome: Outcome) -> None:
        """Slots in the published run summaries against the ledger's."""
        outcome.summaries = sum(map(len, self._bed.topics.latest.values()))
        published = self._bed.topics.latest[self._bed.names.run_summaries]
        for run, ledger in self._bed.traffic.ledgers.items():
            if run in self._bed.quarantined:
                continue
            current = ledger.current()
            for where, summary in (
                ("topic", orjson.loads(published.get(encode_id(run), b"{}"))),
                ("Redis", self.summary(run)),
            ):
                done = summary.get("progress", {}).get("done", 0)
                outcome.lost = max(outcome.lost, 0) + max(0, len(current) - done)
                outcome.double += max(0, done - len(current))
                verdicts = Counter(current)
                if not run.startswith("groups") and summary.get("resolved", 0) != verdicts[True]:
                    outcome.differences.append(
                        f"{where}: {run} has {summary.get('resolved')} resolved, the ledger {verdicts[True]}"
                    )


def _digest(value: bytes) -> str:
    """The digest that a summary has; "wrong" if it is not that of its content."""
    summary = orjson.loads(value)
    return str(summary["digest"]) if summary["digest"] == digest_of(summary) else "wrong"


def _unlike(where: str, expected: dict[str, str], there: dict[str, str]) -> list[str]:
    keys = sorted({*expected, *there})
    unlike = [key for key in keys if expected.get(key) != there.get(key)]
    said = [
        f"{where}: {key} is {'missing' if key not in there else 'extra' if key not in expected else 'wrong'}"
        for key in unlike[:SHOWN]
    ]
    return said + ([f"{where}: and {len(unlike) - SHOWN} more"] if len(unlike) > SHOWN else [])


def _boards_of(client: Any, names: Any, run: str, entries: Iterable[KeyState]) -> list[str]:
    expected: dict[str, dict[str, float]] = {}
    agents: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "agent_model":
            agents[entry.group] = ""
        for metric, score in entry.board().items():
            board = expected.setdefault(metric, {})
            if score is not False:
                board[entry.group] = float(score)
    result = _unlike(
        f"Redis agent_models of {run}",
        agents,
        {member.decode(): "" for member in client.smembers(names.agent_models(run))},
    )
    for metric, scores in expected.items():
        board = client.zrange(names.board(run, metric), 0, -1, withscores=True)
        there = {member.decode(): repr(score) for member, score in board}
        result += _unlike(
            f"Redis board {metric} of {run}", {key: repr(score) for key, score in scores.items()}, there
        )
    return result
