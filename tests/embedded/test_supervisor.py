"""A server that ends is started again, later and later, and given up in the end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streamer.operate.local import HEALTHY_SECONDS, MAX_FAILURES, Supervisor
from streamer.operate.local.processes import Child, ServerFailed

pytestmark = pytest.mark.stack


class FakeChild(Child):
    """A child that the test ends and starts by hand."""

    def __init__(self) -> None:
        super().__init__("The fake", [])
        self.up = False

    @property
    def alive(self) -> bool:
        return self.up

    def start(self) -> None:
        self.up = True


def starts_of_one_that_lives(lives_seconds: float, until_seconds: float) -> list[float]:
    """When it is started, looked at every tenth of a second."""
    child, starts = FakeChild(), [0.0]
    keeper = Supervisor(child, child.start, lambda _: None)
    keeper.start(0.0)
    for tick in range(1, int(until_seconds * 10)):
        now = tick / 10
        child.up = child.up and now < starts[-1] + lives_seconds
        was_up = child.up
        keeper.look(now)
        if child.up and not was_up:
            starts.append(now)
    return starts


def test_pauses_double_up_to_ten_seconds() -> None:
    starts = starts_of_one_that_lives(0.1, 50)
    pauses = [b - a - 0.1 for a, b in pairwise(starts)]
    assert pauses[:7] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0], abs=0.11)


def test_one_that_recovered_is_started_again_at_once() -> None:
    starts = starts_of_one_that_lives(HEALTHY_SECONDS + 1, 500)
    assert all(b - a < HEALTHY_SECONDS + 2 for a, b in pairwise(starts))


def test_one_that_never_stays_is_given_up_by_name() -> None:
    with pytest.raises(ServerFailed, match=f"The fake ended {MAX_FAILURES + 1} times in a row"):
        starts_of_one_that_lives(0.1, 1_000)
