"""Whether two sides say the same and, if not, where they differ: a wait that fails prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

SHOWN_KEYS = 10
SHOWN_BEFORE, SHOWN_AFTER = 60, 120
"""Characters of a value around the first one that differs."""


class Agreement:
    """True if two mappings are equal; else its text names the keys that differ, with both values.

    Mappings within them are compared key by key.

    >>> bool(Agreement("topics", {"a": {"b": 1}}, "Redis", {"a": {"b": 1}}))
    True
    >>> bool(found := Agreement("topics", {"a": {"b": 1}, "c": b"xy", "d": 0}, "Redis", {"c": b"xz", "d": 0}))
    False
    >>> print(found)
    2 keys differ
    a b
      topics: 1
      Redis: nothing
    c
      topics: b'xy'
      Redis: b'xz'
    """

    def __init__(
        self, name: str, side: Mapping[str, object], other_name: str, other: Mapping[str, object]
    ) -> None:
        one, two = dict(_flat(side)), dict(_flat(other))
        differing = [key for key in {**one, **two} if one.get(key) != two.get(key)]
        self._lines = [f"{len(differing)} keys differ"] if differing else []
        for key in differing[:SHOWN_KEYS]:
            value, other_value = _around_the_difference(_text(one, key), _text(two, key))
            self._lines += [key, f"  {name}: {value}", f"  {other_name}: {other_value}"]

    def __bool__(self) -> bool:
        return not self._lines

    def __str__(self) -> str:
        return "\n".join(self._lines)


def reason(result: object) -> str:
    """The reason why a condition does not hold, if it says one; to be put behind what is waited for.

    >>> reason(False)
    ''
    """
    return f": {result}" if isinstance(result, Agreement) else ""


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key} ")
        else:
            yield f"{prefix}{key}", value


def _text(values: Mapping[str, object], key: str) -> str:
    return repr(values[key]) if key in values else "nothing"


def _around_the_difference(one: str, other: str) -> tuple[str, str]:
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))
    start = max(0, same - SHOWN_BEFORE)
    return one[start : same + SHOWN_AFTER], other[start : same + SHOWN_AFTER]
