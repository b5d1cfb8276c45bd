"""A ledger brought in line with what files say."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.sources.tail import EventFields, Ledger, directory_result
from tests.support.events import a_trial


def results_of(files: dict[str, tuple[str, int, int]]) -> list[tuple[str, EventFields]]:
    return [
        (path, a_trial(task_id=task, revision=revision, cost_usd=float(cost)))
        for path, (task, revision, cost) in sorted(files.items())
    ]


def reconciled(ledger: Ledger, results: Iterable[tuple[str, EventFields]]) -> list[EventFields]:
    """What is to be published so that these results, and no others, stand."""
    groups: dict[object, list[object]] = {}
    for path, event in results:
        new = directory_result(event, path)
        groups.setdefault(new.key, []).append(new)
    events = [event for group in groups.values() for event in ledger.resolve(group)]  # type: ignore[arg-type]
    missing = [key for key, _ in ledger.filled() if key not in groups]
    return [*ledger.retracted(), *events, *(ledger.retract(key) for key in missing)]
