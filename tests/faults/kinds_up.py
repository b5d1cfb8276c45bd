"""Every end of `streamer up`, while the publisher goes on."""

from __future__ import annotations

import signal
import time

from tests.faults.kind import Kind
from tests.faults.up_bed import UpBed
from tests.operate.ends import End, kill_one, kill_the_broker, kill_the_tree, orderly
from tests.support.worker_process import wait_for

BURST = 1_000
MOST_SECONDS_LATER = 0.6
"""The end comes while the burst is being acknowledged, or just after."""


class _OfUp(Kind):
    engines = ("up",)
    end: End

    @property
    def up_bed(self) -> UpBed:
        """The bed."""
        assert isinstance(self.bed, UpBed)
        return self.bed

    def in_a_burst(self) -> None:
        """Return at some moment of a burst."""
        self.bed.burst(BURST)
        time.sleep(self.rng.uniform(0, MOST_SECONDS_LATER))


class _End(_OfUp):
    """It ends, and is started again on the same data directory."""

    def inject(self) -> None:
        self.up_bed.topics.stop()
        self.in_a_burst()
        type(self).end(self.up_bed.up.stack)

    def heal(self) -> None:
        self.up_bed.start_again()


class CtrlC(_End):
    """SIGINT to `up`."""

    name = "`up`: Ctrl-C"
    end = orderly(signal.SIGINT)


class Terminated(_End):
    """SIGTERM to `up`."""

    name = "`up`: SIGTERM"
    end = orderly(signal.SIGTERM)


class Killed(_End):
    """SIGKILL to `up` itself, in which the journal is written."""

    name = "`up`: SIGKILL of its main process"
    end = orderly(signal.SIGKILL)


class BrokerKilled(_End):
    """SIGKILL to the broker behind it."""

    name = "`up`: SIGKILL of the broker"
    end = kill_the_broker


class TreeKilled(_End):
    """SIGKILL to everything at once, as a reboot does it."""

    name = "`up`: SIGKILL of the whole tree"
    end = kill_the_tree


class _PartKilled(_OfUp):
    """`up` goes on, and starts the part again."""

    part: str

    def inject(self) -> None:
        self.in_a_burst()
        kill_one(self.part)(self.up_bed.up.stack)

    def last(self) -> None:
        wait_for(lambda: self.up_bed.up.stack.other(self.part), f"another {self.part}")


class RedisOfUpKilled(_PartKilled):
    """SIGKILL to its Redis, which comes back empty."""

    name = "`up`: SIGKILL of Redis"
    part = "valkey-server"


class WorkerOfUpKilled(_PartKilled):
    """SIGKILL to its worker."""

    name = "`up`: SIGKILL of the worker"
    part = "streamer.worker"


KINDS: list[type[Kind]] = [
    CtrlC,
    Terminated,
    Killed,
    BrokerKilled,
    TreeKilled,
    RedisOfUpKilled,
    WorkerOfUpKilled,
]
