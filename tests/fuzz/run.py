"""Bad input of every kind for everything that reads some; exit code 1 if any does harm.

    python -m tests.fuzz.run [--inputs 1000000] [--seed 1] [--processes 2] [--findings DIR]

The same seed gives the same inputs, but for the order in which processes take them. An input must be
answered, within a second of processor time, and no process may need more than 512 MiB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.targets import TARGETS

SLICE_INPUTS = 10_000
"""Inputs of one job."""

MOST_SECONDS = 1.0
HANGS_SECONDS = 60
"""Who has not answered after so long waits for something that never comes."""

MOST_BYTES = 512 * 1024 * 1024
KEPT_FINDINGS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that did harm, and how; `is_slow`: it was answered rightly, and too late."""

    target: str
    seed: str
    why: str
    document: bytes
    is_slow: bool = False


@dataclass(slots=True)
class Tally:
    """What became of inputs: refused, unless answered; the memory of each process, by its id."""

    inputs: int = 0
    answered: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    slowest_bytes: int = 0
    largest_bytes: int = 0
    peak_bytes: dict[int, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.answered += other.answered
        self.seconds += other.seconds
        self.largest_bytes = max(self.largest_bytes, other.largest_bytes)
        self.findings += other.findings
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest_bytes = other.slowest_seconds, other.slowest_bytes
        for process, peak in other.peak_bytes.items():
            self.peak_bytes[process] = max(self.peak_bytes.get(process, 0), peak)


class Hangs(Exception):
    """No answer."""


def _hang(*_: object) -> None:
    raise Hangs(f"no answer after {HANGS_SECONDS} s")


def watched(name: str, seed: str, inputs: int) -> Tally:
    """As `fuzz`, in the main thread of a process of its own: an input without an answer is a finding."""
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return fuzz(name, seed, inputs, signal.alarm)


def fuzz(name: str, seed: str, inputs: int, alarm: Callable[[int], object] = lambda seconds: None) -> Tally:
    """Read so many broken documents in a directory of its own; `alarm` is set while each is read."""
    tally, rng = Tally(), Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_fast_disk()))
    try:
        target = TARGETS[name][0](folder)
        for _ in range(inputs):
            document = target.broken(rng)
            begun = time.thread_time()
            alarm(HANGS_SECONDS)
            try:
                tally.answered += target.read(document)
            except Exception:
                tally.findings.append(Finding(name, seed, traceback.format_exc(limit=-8), document))
            finally:
                alarm(0)
            took = time.thread_time() - begun
            tally.seconds += took
            if took > tally.slowest_seconds:
                tally.slowest_seconds, tally.slowest_bytes = took, len(document)
            if took > MOST_SECONDS:
                tally.findings.append(Finding(name, seed, f"it took {took:.1f} s", document, True))
            tally.inputs += 1
            tally.largest_bytes = max(tally.largest_bytes, len(document))
    finally:
        shutil.rmtree(folder)
    tally.peak_bytes[os.getpid()] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return tally


def jobs(inputs: int, seed: int) -> Iterator[tuple[str, str, int]]:
    """Target, seed and inputs of each job: as many as asked for, and some more by rounding up."""
    for name, (_, share) in TARGETS.items():
        whole = -(-int(inputs * share * 1_000) // 1_000)
        for number, done in enumerate(range(0, whole, SLICE_INPUTS)):
            yield name, f"{seed} {name} {number}", min(whole - done, SLICE_INPUTS)


def run(inputs: int, seed: int, processes: int) -> dict[str, Tally]:
    """Everything, in so many processes; Ctrl-C ends it early."""
    tallies = {name: Tally() for name in TARGETS}
    planned = list(jobs(inputs, seed))
    Random(seed).shuffle(planned)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(watched, *job): job[0] for job in planned}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                tallies[futures[future]].add(future.result())
                print(f"{done} of {len(planned)} parts", end="\r", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)
    return tallies


COLUMNS = "{:<18}{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>6}".format


def report(tallies: dict[str, Tally], seconds: float) -> None:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    print(COLUMNS("read by", "inputs", "answered", "refused", "slowest", "of bytes", "largest", "harm"))
    for name, tally in [*tallies.items(), ("all", total)]:
        counts = (tally.inputs, tally.answered, tally.inputs - tally.answered)
        sizes = (tally.slowest_bytes, tally.largest_bytes, len(tally.findings))
        slowest = f"{tally.slowest_seconds * 1e3:.1f} ms"
        print(COLUMNS(name, *(f"{n:,}" for n in counts), slowest, *(f"{n:,}" for n in sizes)))
    peaks = ", ".join(f"{peak / 2**20:.0f}" for peak in total.peak_bytes.values())
    print(f"{seconds:.0f} s; peak memory of each process: {peaks} MiB; {MOST_BYTES // 2**20} are allowed")


def keep(findings: list[Finding], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(findings[:KEPT_FINDINGS]):
        (directory / f"{number}.input").write_bytes(finding.document)
        (directory / f"{number}.why").write_text(f"{finding.target}, seed {finding.seed!r}\n{finding.why}")
    print(f"{len(findings)} inputs did harm; the first are in {directory}")
    print(findings[0].why)


def _fast_disk() -> str | None:
    """Where files cost little; None: the system's directory for temporary files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--findings", type=Path, default="build/fuzz", help="where inputs that did harm go")
    arguments = parser.parse_args()
    begun = time.monotonic()
    tallies = run(arguments.inputs, arguments.seed, arguments.processes)
    report(tallies, time.monotonic() - begun)
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    if findings:
        keep(findings, arguments.findings)
    peak = max((peak for tally in tallies.values() for peak in tally.peak_bytes.values()), default=0)
    sys.exit(bool(findings) or peak > MOST_BYTES)


if __name__ == "__main__":
    main()
