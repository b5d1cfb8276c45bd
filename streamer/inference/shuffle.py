"""A shuffled list of tasks, the same for everybody who has the seed (inference 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256


def hash_shuffled(tasks: Iterable[str], seed: str) -> list[str]:
    """The tasks in a random order that everybody with the same seed gets.

    Sorted by the sha256 of the seed and the task. A task that stands in the list several times is shuffled as
    several trials. The order of the input does not matter. A task more or less leaves the order of the others
    as it is.

    Args:
        tasks: names.
        seed: any text that was not picked by its result, as the run's name.

    >>> hash_shuffled(["a", "b", "c", "d", "e"], seed="nightly")
    ['e', 'a', 'c', 'b', 'd']
    >>> hash_shuffled(["e", "c", "d", "b"], seed="nightly")
    ['e', 'c', 'b', 'd']
    """
    copies = ((task, copy) for task, count in Counter(tasks).items() for copy in range(count))
    return [task for task, _ in sorted(copies, key=lambda trial: digest(seed, trial[0], str(trial[1])))]


def shuffled_rounds(tasks: Sequence[str], attempts: int, seed: str) -> list[tuple[str, int]]:
    """Each trial once, in rounds: every task has its first attempt before one has its second.

    Each round is shuffled for itself, the first one as :func:`hash_shuffled` has it.

    Args:
        tasks: names, each once.
        attempts: at each task, >= 1.
        seed: as in :func:`hash_shuffled`.

    >>> shuffled_rounds(["a", "b", "c"], 2, seed="nightly")
    [('a', 1), ('c', 1), ('b', 1), ('b', 2), ('c', 2), ('a', 2)]
    """
    rounds = (seed if number == 1 else f"{seed} {number}" for number in range(1, attempts + 1))
    return [(task, number) for number, own in enumerate(rounds, 1) for task in hash_shuffled(tasks, own)]


def digest(*parts: str) -> bytes:
    """SHA-256 of texts: what decides an order that must not follow anything about them."""
    return sha256("\0".join(parts).encode()).digest()
