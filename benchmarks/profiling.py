"""Where the time goes: py-spy beside a draining worker, or beside a fold; the top functions with their share.

python -m benchmarks.profiling drain|trickle|fold [--scale small|full] [--events N] [--raw FILE] [--page]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from benchmarks.common import SCALES, add_scale, events, scale_of
from benchmarks.drain import drain
from benchmarks.latency import send_slowly
from benchmarks.machine import SERVERS, WORKERS, cpu_seconds, on_cores
from benchmarks.report import into_page
from benchmarks.site import Deployment, a_site, ready_at
from benchmarks.stacks import functions, parts
from tests.support.worker_process import WorkerProcess

RATE_HZ = 200
FOLDING = """
import sys, time
from benchmarks.bench_fold import fold
began = time.process_time()
for _ in range(2):
    fold(open(sys.argv[1], "rb"))
print(time.process_time() - began)
"""

Profile: TypeAlias = Callable[[int, Path], tuple[str, float]]
"""Number of events and file for the stacks -> a sentence, and microseconds of CPU of an event."""


def spy(pid: int, out: Path) -> subprocess.Popen[bytes]:
    """Start looking, from the other core, at the thread that holds the interpreter; ends with the process."""
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        "--pid",
        str(pid),
        "--nonblocking",
        "--gil",
    ]
    with on_cores(SERVERS):
        return subprocess.Popen(
            [*command, "--rate", str(RATE_HZ), "--duration", "3600", "--format", "raw", "--output", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def profile_drain(number: int, out: Path) -> tuple[str, float]:
    """Profile a worker that drains so many events."""
    spies: list[subprocess.Popen[bytes]] = []
    with a_site("kafka") as site:
        deployment = Deployment(site)
        expected = deployment.load(events(number))

        def look(worker: WorkerProcess) -> None:
            spies.append(spy(worker.process.pid, out))

        drained = drain(deployment, expected, number, look=look)
    spies[0].wait(60)
    said = f"{number:,} events; worker CPU {drained.cpu_microseconds:.1f} us an event"
    return said, drained.cpu_microseconds


def profile_trickle(number: int, out: Path) -> tuple[str, float]:
    """Profile a worker that gets so many events one by one."""
    rate = SCALES["full"].trickle_rate
    with a_site("kafka") as site, Deployment(site) as deployment:
        worker = deployment.worker(WORKERS)
        try:
            ready_at(worker)
            spying, before = spy(worker.process.pid, out), cpu_seconds(worker.process.pid)
            asyncio.run(send_slowly(deployment, list(events(number)), rate))
            microseconds = (cpu_seconds(worker.process.pid) - before) / number * 1e6
            spying.send_signal(signal.SIGINT)
            spying.wait(60)
        finally:
            worker.kill()
    return f"{number:,} events, {rate:g} a second; worker CPU {microseconds:,.0f} us an event", microseconds


def profile_fold(number: int, out: Path) -> tuple[str, float]:
    """Profile folding so many events, twice."""
    with tempfile.NamedTemporaryFile() as file:
        file.writelines(line + b"\n" for line in events(number))
        file.flush()
        with on_cores(WORKERS):
            folding = subprocess.Popen([sys.executable, "-c", FOLDING, file.name], stdout=subprocess.PIPE)
        spying = spy(folding.pid, out)
        printed, _ = folding.communicate()
        spying.wait(60)
    microseconds = float(printed) / (2 * number) * 1e6
    return f"{number:,} events, twice; {microseconds:.1f} us of CPU an event", microseconds


PROFILES: dict[str, Profile] = {"drain": profile_drain, "trickle": profile_trickle, "fold": profile_fold}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=list(PROFILES))
    add_scale(parser)
    parser.add_argument("--events", type=int, help="how many; default what the scale says")
    parser.add_argument("--page", action="store_true", help="put it into docs/performance.md as well")
    parser.add_argument("--raw", type=Path, help="keep the stacks there, for any flame graph program")
    args = parser.parse_args()
    scale = scale_of(args)
    number = args.events or (scale.trickle if args.what == "trickle" else scale.backlog)
    with tempfile.TemporaryDirectory() as folder:
        out = args.raw or Path(folder) / "stacks"
        said, microseconds = PROFILES[args.what](number, out)
        folded = out.read_text()
    text = f"{said}\n\n{parts(folded, microseconds)}\n\n{functions(folded)}"
    print(text)
    if args.page:
        into_page(**{f"profile_{args.what}": f"```text\n{text}\n```"})


if __name__ == "__main__":
    main()
