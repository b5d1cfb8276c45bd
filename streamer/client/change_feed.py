"""The changes in Redis since the last look, found by the versions of the keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamer.client.queries import Exchange, Queries, in_round_trips, stored_in
from streamer.client.snapshots import SUMMARIES, parsed
from streamer.redis.entry import DELETED, as_text, parse_version, version_text
from streamer.redis.keys import Keys
from streamer.redis.script import read_run
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.versions import Version, is_older

AnyState: TypeAlias = RunSummary | AgentModelSummary | TierSummary


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """One summary as it stands now, or the news that it is gone.

    Attributes:
        run_id: the run.
        kind: `run`, `agent_model` or `tier`.
        group: rest of the key's suffix, ids percent-encoded: `A:M`, `T`, `T:A:M`, "" for the run.
        key: the Redis key.
        summary: None: deleted.
    """

    run_id: str
    kind: str
    group: str
    key: str
    summary: AnyState | None


@dataclass(frozen=True, slots=True)
class _Seen:
    version: Version
    digest: str | None


class ChangeFeed:
    """Remembers version and digest of every key that was yielded; a lower version is never yielded again.

    Args:
        keys: of the namespace.
        run_id: only this run; None: all.
    """

    def __init__(self, keys: Keys, run_id: str | None) -> None:
        self._keys = keys
        self._questions = Queries(keys)
        self._run_id = run_id
        self._seen: dict[str, dict[str, _Seen]] = {}

    def everything(self, *, thorough: bool) -> Exchange[list[StateUpdate]]:
        """The changes anywhere; `thorough`: also where a value changed and its version did not."""
        if self._run_id is not None:
            run_ids = [self._run_id]
        else:
            known = yield from self._questions.run_ids()
            run_ids = list(dict.fromkeys([*known, *self._seen]))
        return (yield from self.of_runs(run_ids, thorough=thorough))

    def of_runs(
        self, run_ids: Iterable[str], named: Collection[str] = (), *, thorough: bool = False
    ) -> Exchange[list[StateUpdate]]:
        """The changes in some runs, of each run from one moment.

        Args:
            run_ids: the runs.
            named: keys that may have changed without a new version.
            thorough: look at every key.
        """
        wanted = [run_id for run_id in run_ids if self._run_id in (None, run_id)]
        known = {run: {} if thorough else self._known(run, named) for run in wanted}
        commands = [read_run(self._keys, run, (*SUMMARIES, "within"), known[run]) for run in wanted]
        replies = yield from in_round_trips(commands)
        return [update for run, reply in zip(wanted, replies, strict=True) for update in self._of(run, reply)]

    def _known(self, run_id: str, named: Collection[str]) -> dict[str, str]:
        """Versions of the keys that need not be read again."""
        return {
            suffix: version_text(seen.version)
            for suffix, seen in self._seen.get(run_id, {}).items()
            if self._keys.of_run(run_id, suffix) not in named
        }

    def _of(self, run_id: str, reply: Sequence[Any]) -> list[StateUpdate]:
        seen = self._seen.setdefault(run_id, {})
        fields = zip(reply[0][::2], reply[0][1::2], strict=True)
        versions = {as_text(field): parse_version(value) for field, value in fields}
        run_deleted = versions.pop(DELETED, None)
        updates = []
        for suffix, before in list(seen.items()):
            gone = suffix not in versions and run_deleted is not None and run_deleted >= before.version
            if gone and before.digest is not None:
                seen[suffix] = _Seen(before.version, None)
                updates.append(self._update(run_id, suffix, None))
        for suffix, value in stored_in(reply).items():
            updates += self._news(run_id, suffix, versions[suffix], value)
        return updates

    def _news(self, run_id: str, suffix: str, version: Version, value: bytes | None) -> list[StateUpdate]:
        """The update that this value is, if it is one; the value may be newer than the version."""
        seen = self._seen[run_id]
        before = seen.get(suffix, _Seen((0, -1), None))
        summary = None
        if value is not None:
            summary = parsed(SUMMARIES[suffix.partition(":")[0]], self._keys.of_run(run_id, suffix), value)
            version = (summary.epoch, summary.state_version)
        now = _Seen(version, summary.digest if summary else None)
        if is_older(version, before.version):
            return []
        seen[suffix] = now
        if now == before or now.digest is before.digest is None:
            return []
        return [self._update(run_id, suffix, summary)]

    def _update(self, run_id: str, suffix: str, summary: AnyState | None) -> StateUpdate:
        kind, _, group = suffix.partition(":")
        return StateUpdate(run_id, kind, group, self._keys.of_run(run_id, suffix), summary)
