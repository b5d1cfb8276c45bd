"""The benchmarks of a failed agent: those that any sub-trial of its group knows (R21)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from schemas.plain import AnyTrial
from streamer.score.formulacode.speedups import oracle_speedup

Entries = dict[str, JsonValue]


def known_benchmarks(event: AnyTrial | None, group: Sequence[AnyTrial]) -> Entries:
    """Every benchmark that a sub-trial of the group knows, with the first valid oracle value of it.

    The failed agent's own entries come first, then the oracle's, then the others' by position, so the
    order of the events never matters. A benchmark whose oracle value nobody knows keeps none. Entries
    that are not objects are left out (C1).

    Args:
        event: the failed agent's own sub-trial, one of the group; None: it has none.
        group: the sub-trials of the trial, in any order.
    """
    known: Entries = {}
    own = [] if event is None else [event]
    for sub_trial in [*own, *sorted(group, key=_oracle_first)]:
        for name, entry in (sub_trial.benchmarks or {}).items():
            if isinstance(entry, dict) and (name not in known or _adds_the_oracle(entry, known[name])):
                known[name] = entry
    return known


def _oracle_first(event: AnyTrial) -> tuple[bool, int, str, str]:
    return (event.agent != "oracle", event.agent_index or 0, event.agent, event.model)


def _adds_the_oracle(entry: JsonValue, held: JsonValue) -> bool:
    """Whether an entry has a valid oracle value where the held one has none."""
    return oracle_speedup(held) is None and oracle_speedup(entry) is not None
