"""Which of two states of one thing is the newer one, and the guard against late writers.

Around a failure several workers write. A summary or a scored trial of a lower version, which one of them
publishes late, must not replace a newer one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

Version: TypeAlias = tuple[int, int]
"""(epoch, state_version): the greater one is the newer one."""


def version_of(message: Mapping[str, Any]) -> Version:
    """The version that a published message carries.

    >>> version_of({"epoch": 2, "state_version": 7})
    (2, 7)
    """
    return message["epoch"], message["state_version"]


def is_older(version: Version, seen: Version | None) -> bool:
    """Whether something newer was seen already, so that this is dropped. An equal version is not older.

    >>> is_older((1, 4), (1, 5)), is_older((1, 5), (1, 5)), is_older((2, 0), (1, 5)), is_older((1, 4), None)
    (True, False, False, False)
    """
    return seen is not None and version < seen


class Guard:
    """Remembers the newest version of each key, deleted ones too.

    >>> guard = Guard()
    >>> [guard.is_news("k", version) for version in ((1, 5), (1, 4), (1, 5), (2, 0), None)]
    [True, False, True, True, True]
    >>> guard.is_news("k", (1, 9))
    False
    """

    def __init__(self) -> None:
        self._newest: dict[Hashable, Version] = {}

    def is_news(self, key: Hashable, version: Version | None) -> bool:
        """False if something newer of the key was seen; an equal version replaces, a deletion has none."""
        if version is None:
            return True
        if is_older(version, self._newest.get(key)):
            return False
        self._newest[key] = version
        return True
