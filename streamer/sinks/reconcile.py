"""What Redis lacks of what should be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf
from operator import attrgetter

from redis.asyncio import Redis

from streamer.aggregate.changes import SummaryChange
from streamer.sinks.entry import RUN_SUFFIX, Entry, Version, entry_of, last_event_seconds, parse_version
from streamer.sinks.names import Names

DELETED_FIELD = b"deleted"
"""Field of the versions hash that is no key: the version at which the run was deleted."""

Runs = dict[str, list[Entry]]


def by_run(changes: Iterable[SummaryChange], size: int, alive_since: float | None = None) -> Iterator[Runs]:
    """Silent entries by run, whole runs, about `size` entries at a time. Changes of a run come together.

    Runs whose last event is older than `alive_since` (Unix seconds) are left out: they have expired.
    """
    runs: Runs = {}
    entries_in_runs = 0
    for run_id, group in groupby(changes, key=attrgetter("run_id")):
        entries = [entry_of(change, news=False) for change in group]
        if alive_since is not None and _last_event(entries) < alive_since:
            continue
        runs[run_id] = entries
        entries_in_runs += len(entries)
        if entries_in_runs >= size:
            yield runs
            runs, entries_in_runs = {}, 0
    if runs:
        yield runs


async def lacking(client: Redis, names: Names, runs: Runs) -> list[Entry]:
    """Entries whose key is missing, lower, or different at an equal version; tombstones of what is gone."""
    pipe = client.pipeline(transaction=False)
    for run_id, entries in runs.items():
        pipe.hgetall(names.versions(run_id))
        for entry in entries:
            pipe.get(names.of_run(run_id, entry.suffix))
    replies = iter(await pipe.execute())
    found: list[Entry] = []
    for entries in runs.values():
        versions = {field: parse_version(text) for field, text in next(replies).items()}
        for entry in entries:
            value = next(replies)
            seen = versions.get(entry.suffix.encode())
            if seen is None or seen < entry.version or (seen == entry.version and value != entry.value):
                found.append(entry)
        found += _gone(entries, versions)
    return found


def _last_event(entries: list[Entry]) -> float:
    """Unix seconds of the last event of a run; for ever where nobody knows."""
    return max((last_event_seconds(entry.summary) for entry in entries if entry.summary), default=inf) or inf


def _gone(entries: list[Entry], versions: dict[bytes, Version]) -> Iterator[Entry]:
    """Tombstones of keys that a run had before and has no more, at the version of the run."""
    run = next((entry for entry in entries if entry.suffix == RUN_SUFFIX), None)
    if run is None or run.value is None:
        return
    here = {entry.suffix.encode() for entry in entries} | {DELETED_FIELD}
    for suffix, seen in versions.items():
        if suffix not in here and seen < run.version:
            yield Entry(run.run_id, suffix.decode(), run.version, None, None, news=False)
