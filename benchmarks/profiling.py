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
from collections import Counter
from pathlib import Path
from statistics import median

from benchmarks.common import SCALES, add_scale, events, scale_of, table
from benchmarks.drain import drain
from benchmarks.latency import send_slowly
from benchmarks.machine import SERVERS, WORKERS, on_cores
from benchmarks.report import into_page
from benchmarks.site import Deployment, a_site, ready_at
from tests.support.worker_process import WorkerProcess

RATE_HZ = 200
TOP = 30
FOLDING = """
import sys
from benchmarks.bench_fold import fold
from benchmarks.common import events
for _ in range(2):
    fold(events(int(sys.argv[1])) if len(sys.argv) < 3 else open(sys.argv[2], "rb"))
"""


def spy(pid: int, out: Path) -> subprocess.Popen[bytes]:
    """Start looking at a process, from the other core; ends with the process."""
    command = [str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(pid), "--nonblocking"]
    with on_cores(SERVERS):
        return subprocess.Popen(
            [*command, "--rate", str(RATE_HZ), "--duration", "3600", "--format", "raw", "--output", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def summary(folded: str, top: int = TOP) -> str:
    """Own and cumulated share of the functions in py-spy's raw output, greatest first.

    >>> print(summary("run (a.py:1);cut (b.py:2) 3\\nrun (a.py:9) 1\\n"))
    own %  with callees %  function
    -----  --------------  ----------
    75     75              cut (b.py)
    25     100             run (a.py)
    """
    own, cumulated, total = Counter[str](), Counter[str](), 0
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_function(frame) for frame in stack.split(";")]
        total += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            cumulated[frame] += int(count)
    wanted = dict.fromkeys([f for f, _ in own.most_common(top)] + [f for f, _ in cumulated.most_common(top)])
    rows = [(round(100 * own[f] / total, 1), round(100 * cumulated[f] / total, 1), f) for f in wanted]
    return table([("own %", "with callees %", "function"), *rows])


def _function(frame: str) -> str:
    """Without the line number: `cut (streamer/x.py:12)` -> `cut (streamer/x.py)`."""
    name, _, place = frame.rpartition(" (")
    return f"{name} ({place.rstrip(')').rpartition(':')[0]})" if ":" in place else frame


def profile_drain(number: int, out: Path) -> str:
    """Profile a worker that drains so many events."""
    spies: list[subprocess.Popen[bytes]] = []
    with a_site("kafka") as site:
        deployment = Deployment(site)
        wanted = deployment.load(events(number))

        def look(worker: WorkerProcess) -> None:
            spies.append(spy(worker.process.pid, out))

        drained = drain(deployment, wanted, number, look=look)
    spies[0].wait(60)
    return (
        f"{drained.rate:,.0f} events/s; worker CPU {drained.cpu_microseconds:.0f} us an event in "
        f"{drained.seconds:.1f} s; broker CPU / worker CPU {drained.broker_share:.2f}"
    )


def profile_trickle(number: int, out: Path) -> str:
    """Profile a worker that gets so many events one by one."""
    scale = SCALES["small"]
    with a_site("kafka") as site, Deployment(site) as deployment:
        worker = deployment.worker(WORKERS)
        try:
            ready_at(worker)
            spying = spy(worker.process.pid, out)
            taken = asyncio.run(send_slowly(deployment, list(events(number)), scale.trickle_rate))
            spying.send_signal(signal.SIGINT)
            spying.wait(60)
        finally:
            worker.kill()
    return f"median {median(taken.milliseconds()):.1f} ms at {scale.trickle_rate:g} events/s"


def profile_fold(number: int, out: Path) -> str:
    """Profile folding so many events."""
    with tempfile.NamedTemporaryFile() as file:
        file.writelines(line + b"\n" for line in events(number))
        file.flush()
        with on_cores(WORKERS):
            folding = subprocess.Popen([sys.executable, "-c", FOLDING, str(number), file.name])
        spying = spy(folding.pid, out)
        folding.wait()
        spying.wait(60)
    return f"{number:,} events, twice"


PROFILES = {"drain": profile_drain, "trickle": profile_trickle, "fold": profile_fold}


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
        said = PROFILES[args.what](number, out)
        text = f"{said}\n\n{summary(out.read_text())}"
    print(text)
    if args.page:
        into_page(**{f"profile_{args.what}": f"```text\n{text}\n```"})


if __name__ == "__main__":
    main()
