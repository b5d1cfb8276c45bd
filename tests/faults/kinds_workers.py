"""What happens to workers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from aiokafka import AIOKafkaProducer

from streamer.settings import Settings
from streamer.storage.log import read_topic
from tests.faults.bed import PARTITIONS, ROCKSDB
from tests.faults.kind import Kind
from tests.faults.poison import private_poison
from tests.support.servers import pause
from tests.support.worker_process import wait_for

FAKETIME = "faketime/libfaketime.so.1"
DISK_BYTES = 256 * 1024 * 1024


class WorkerKilled(Kind):
    """SIGKILL in the middle of whatever it does."""

    name = "worker killed (SIGKILL)"

    def inject(self) -> None:
        self.victim = self.a_worker()
        self.bed.fleet.kill(self.victim)

    def heal(self) -> None:
        self.bed.fleet.start(self.victim)


class AllWorkersKilled(Kind):
    """SIGKILL to all at once: nothing but the topics knows anything."""

    name = "all workers killed"
    victims: Sequence[int] = ()

    def inject(self) -> None:
        self.victims = self.bed.fleet.numbers()
        for victim in self.victims:
            self.bed.fleet.kill(victim)

    def heal(self) -> None:
        for victim in self.victims:
            self.bed.fleet.start(victim)


class PageLost(AllWorkersKilled):
    """The state's changelog lost one page of a run, while no worker ran."""

    name = "a state page lost"

    def inject(self) -> None:
        bed = self.bed
        bed.publisher.hold()
        bed.wait_current("before a page is lost")
        super().inject()
        records = read_topic(bed.settings, bed.names.trials_changelog)
        last = {(record.partition, record.key): record.value for record in records}
        runs = bed.topics.latest[bed.names.run_summaries]
        pages = [
            place
            for place, value in last.items()
            if value is not None and place[1].decode(errors="replace").split("/")[0] in runs
        ]
        partition, key = self.rng.choice(sorted(pages))
        asyncio.run(send_all(bed.settings, [(bed.names.trials_changelog, partition, key, None)]))
        self.notes.append(key.decode())

    def heal(self) -> None:
        super().heal()
        self.bed.publisher.resume()


class PrivatePoison(AllWorkersKilled):
    """Somebody writes into the state's changelog and into streamer-meta, while no worker runs."""

    name = "poison in private topics"

    def inject(self) -> None:
        super().inject()
        asyncio.run(send_all(self.bed.settings, private_poison(self.rng, self.bed.names, PARTITIONS)))


async def send_all(settings: Settings, records: list[tuple[str, int, bytes, bytes | None]]) -> None:
    """Write records, of topic, partition, key and value."""
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap.split(",")) as producer:
        for topic, partition, key, value in records:
            await producer.send_and_wait(topic, value, key=key, partition=partition)


class Zombie(Kind):
    """SIGSTOP for longer than its session, then SIGCONT: its partitions are others' by then."""

    name = "worker stopped and continued (zombie)"
    zombie = True

    def inject(self) -> None:
        self.hold_seconds = self.bed.session_seconds + 2.0
        self.victim = self.bed.fleet.worker(self.a_worker())
        pause(self.victim.process.pid)

    def heal(self) -> None:
        self.victim.signal(signal.SIGCONT)


class RollingRestart(Kind):
    """One after the other is told to stop and started again."""

    name = "rolling restart"
    hold_seconds = 0.0

    def inject(self) -> None:
        for number in self.bed.fleet.numbers():
            self.bed.fleet.restart(number)


class WorkerAdded(Kind):
    """One more worker comes, and goes again."""

    name = "worker added and removed"
    hold_seconds = 3.0

    def inject(self) -> None:
        self.more = max(self.bed.crew) + 1
        self.bed.fleet.start(self.more)

    def heal(self) -> None:
        self.bed.fleet.end(self.more)


class ClockJump(Kind):
    """The wall clock of a worker jumps by hours or years, forwards or backwards, and back."""

    name = "clock jump"
    hold_seconds = 2.0

    @classmethod
    def missing(cls) -> str | None:
        return None if faketime() else "libfaketime is not here (Debian's package libfaketime)"

    def prepare(self) -> None:
        self._file = self.bed.directory / "clock"
        self._set("+0")
        self.victim = self.a_worker()
        self.bed.fleet.end(self.victim)
        self.bed.fleet.start(
            self.victim,
            environment=wrong_clock(FAKETIME_TIMESTAMP_FILE=str(self._file), FAKETIME_CACHE_DURATION="1"),
        )
        self.bed.wait_current("before the clock jumps")

    def inject(self) -> None:
        self._set(self.rng.choice(["+3h", "-3h", "+2y", "-2y", "+30d", "-90s"]))

    def heal(self) -> None:
        self._set("+0")

    def tidy(self) -> None:
        self.bed.fleet.end(self.victim)
        self.bed.fleet.start(self.victim)

    def _set(self, offset: str) -> None:
        self._file.write_text(f"{offset}\n")


class DiskFull(Kind):
    """Whatever a worker writes to disk (its tables where they lie there, its log) finds no room."""

    name = "disk full under a worker"
    hold_seconds = 2.0

    @classmethod
    def missing(cls) -> str | None:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return "a small file system cannot be mounted (not root)"
        return None

    def prepare(self) -> None:
        self._disk = self.bed.directory / "disk"
        self._disk.mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self._disk))
        self.victim = self.a_worker()
        self.bed.fleet.end(self.victim)
        self.bed.fleet.start(
            self.victim,
            directory=self._disk,
            environment={"TMPDIR": str(self._disk)},
            data_dir=self._disk / "data",
            **({"store": "rocksdb"} if ROCKSDB else {}),
        )
        self.bed.wait_current("before the disk fills")

    def inject(self) -> None:
        self._fill = self._disk / "fill"
        with self._fill.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def heal(self) -> None:
        self._fill.unlink()

    def tidy(self) -> None:
        self.bed.fleet.end(self.victim)
        self.bed.fleet.start(self.victim)
        wait_for(self._unmounted, "the small disk is unmounted", 20)

    def _unmounted(self) -> bool:
        return subprocess.run(["umount", str(self._disk)], capture_output=True).returncode == 0


def faketime() -> Path | None:
    """The library that changes a process's clock: FAKETIME_LIBRARY, or Debian's; None: it is not here."""
    given = os.environ.get("FAKETIME_LIBRARY")
    return Path(given) if given else next(Path("/usr/lib").glob(f"*/{FAKETIME}"), None)


def wrong_clock(**settings: str) -> dict[str, str]:
    """Variables of a process whose wall clock is wrong, as settings of libfaketime say."""
    return {"LD_PRELOAD": str(faketime()), "FAKETIME_DONT_FAKE_MONOTONIC": "1"} | settings


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


KINDS = [
    WorkerKilled,
    AllWorkersKilled,
    PageLost,
    PrivatePoison,
    Zombie,
    RollingRestart,
    WorkerAdded,
    ClockJump,
    DiskFull,
]
