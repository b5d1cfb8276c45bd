"""The benchmarks of a failed agent: those that any sub-trial of its group knows (R21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from streamer.schemas.plain import AnyTrial
from streamer.score.formulacode.speedups import oracle_speedup

Entries = dict[str, JsonValue]


def known_benchmarks(group: Sequence[AnyTrial]) -> Entries:
    """Every benchmark that a sub-trial of the group knows, with the first valid oracle value of it.

    The oracle's own entries come first, then the others' by position, so the order of the events never
    matters. A benchmark without any oracle value stays without one. Entries that are not objects are left
    out (C1).
    """
    known: Entries = {}
    for sub_trial in sorted(group, key=_oracle_first):
        _join(known, sub_trial.benchmarks or {})
    return known


def with_own(event: AnyTrial, known: Entries) -> Entries:
    """The known benchmarks as a failed agent counts with them: its own entries come before the others'."""
    if not event.benchmarks:
        return known
    own: Entries = {}
    _join(own, event.benchmarks)
    _join(own, known)
    return own


def _join(known: Entries, entries: Mapping[str, JsonValue]) -> None:
    """Add the entries that are new, or whose oracle value is the first valid one."""
    for name, entry in entries.items():
        if isinstance(entry, dict) and (name not in known or _adds_the_oracle(entry, known[name])):
            known[name] = entry


def _oracle_first(event: AnyTrial) -> tuple[bool, int, str, str]:
    return (event.agent != "oracle", event.agent_index or 0, event.agent, event.model)


def _adds_the_oracle(entry: JsonValue, held: JsonValue) -> bool:
    """Whether an entry has a valid oracle value where the held one has none."""
    return oracle_speedup(held) is None and oracle_speedup(entry) is not None
