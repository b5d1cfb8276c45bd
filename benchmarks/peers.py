"""Ours and the peers, turn about: the same broker, the same topic, one worker each on the same core.

    python -m benchmarks.peers [--scale small|full] [--events N] [--repeats N] [--peers DIR] [--json FILE]

Ours and the floor drain the whole backlog. Bytewax and naive Faust keep every value and compute each summary
again for every event. They get the first events of the backlog: the fewer, the better for them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import Scale, add_scale, events, ratios, scale_of, spread, table
from benchmarks.drain import Drained, drain
from benchmarks.machine import WORKERS, on_cores
from benchmarks.site import PARTITIONS, Deployment, Site, Wanted, a_site, make_topics

PEERS = Path(__file__).resolve().parents[2] / "shared" / "peers"
PEER_SECONDS = 1_800
OURS, FLOOR, BYTEWAX, FAUST = "streamer", "floor", "bytewax", "naive_faust"
COMMANDS = {
    FLOOR: ["floor.py"],
    BYTEWAX: ["-m", "bytewax.run", "bytewax_peer"],
    FAUST: ["naive_faust.py", "worker", "-l", "warn", "--without-web"],
}
"""After the interpreter, in the peers' folder."""

EVENTS_OF_A_START = 10
"""So many events are next to nothing: what a peer takes for them is its start."""

TARGETS = {FLOOR: 0.068, BYTEWAX: 2.3, FAUST: 11.9}
"""Ours must have at least so many times the rate of the peer: 85 % of the most that it has had."""


def find_peers(given: Path | None) -> Path:
    """The folder of the peers; ends the program, loudly, where it is not there."""
    folder = given or PEERS
    if not (folder / "floor.py").is_file():
        sys.exit(
            f"THE PEERS ARE MISSING: no floor.py in {given or '../shared/peers beside this checkout'}. "
            "Without them there is nothing to compare with: name their folder with --peers DIR"
        )
    return folder


class Speed(NamedTuple):
    """Events a second, and processor time of an event."""

    rate: float
    cpu_microseconds: float


def peer_speed(name: str, folder: Path, site: Site, topic: str, number: int) -> Speed:
    """A peer over the first `number` events of a topic: its rate as it says itself, and its processor time.

    The start of its process does not count in either: its processor time is taken from a run of its own.
    """
    _, start = _run_peer(name, folder, site, topic, EVENTS_OF_A_START)
    rate, used = _run_peer(name, folder, site, topic, number)
    return Speed(rate, max(used - start, 0.0) / number * 1e6)


def _run_peer(name: str, folder: Path, site: Site, topic: str, number: int) -> tuple[float, float]:
    """Its rate, and the seconds of processor time of the whole process."""
    environment = os.environ | {
        "BROKER": site.bootstrap,
        "TOPIC": topic,
        "N": str(number),
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = _cpu_of_children()
    with on_cores(WORKERS):
        done = subprocess.run(
            [sys.executable, *COMMANDS[name]],
            cwd=folder,
            env=environment,
            timeout=PEER_SECONDS,
            capture_output=True,
            text=True,
        )
    said = re.search(rf"^{name} events=(\d+) seconds=([\d.]+) rate=(\d+)", done.stdout, re.MULTILINE)
    assert said, f"{name} did not say how fast it was (exit code {done.returncode}):\n{done.stderr[-3000:]}"
    return float(said[3]), _cpu_of_children() - before


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def runnable() -> list[str]:
    """Peers that can run with this interpreter; says which cannot."""
    if find_spec("bytewax") is None or find_spec("confluent_kafka") is None:
        print("BYTEWAX IS MISSING: bytewax[kafka] is not installed here; its row is left out", flush=True)
        return [FLOOR, FAUST]
    return [FLOOR, BYTEWAX, FAUST]


def compare(site: Site, folder: Path, scale: Scale) -> dict[str, Any]:
    """All of them turn about; the figures."""
    with Deployment(site) as deployment:
        expected = deployment.load(events(scale.backlog))
        make_topics(site, PARTITIONS, "bytewax-summaries", "naive-summaries")
        return _compare(deployment, expected, folder, scale)


def _compare(deployment: Deployment, expected: Wanted, folder: Path, scale: Scale) -> dict[str, Any]:
    site = deployment.site
    topic = deployment.names.trial_events
    numbers = {FLOOR: scale.backlog, BYTEWAX: scale.bytewax, FAUST: scale.naive_faust}
    drained: list[Drained] = []

    def ours() -> Speed:
        drained.append(drain(deployment, expected, scale.backlog))
        return Speed(drained[-1].rate, drained[-1].cpu_microseconds)

    def theirs(name: str) -> Callable[[], Speed]:
        return lambda: peer_speed(name, folder, site, topic, numbers[name])

    cases = {OURS: ours} | {name: theirs(name) for name in runnable()}
    speeds = speeds_turn_about(cases, scale.repeats, scale.warm_up)
    counted = drained[-scale.repeats :]
    return {
        "events": {OURS: scale.backlog} | numbers,
        "rates": {name: [one.rate for one in result] for name, result in speeds.items()},
        "cpu_microseconds": {
            name: [one.cpu_microseconds for one in result] for name, result in speeds.items()
        },
        "broker_share": [one.broker_share for one in counted],
        "redis_share": [one.redis_cpu_seconds / one.worker_cpu_seconds for one in counted],
    }


def speeds_turn_about(
    cases: Mapping[str, Callable[[], Speed]], repeats: int, warm_up: int
) -> dict[str, list[Speed]]:
    """Speeds of each case, by turns; those to warm up do not count."""
    speeds: dict[str, list[Speed]] = {name: [] for name in cases}
    for turn in range(warm_up + repeats):
        for name, case in cases.items():
            speed, note = case(), " (warm-up)" if turn < warm_up else ""
            said = (
                f"  {name}: {speed.rate:,.0f} events/s, {speed.cpu_microseconds:.1f} us of CPU an event{note}"
            )
            print(said, file=sys.stderr, flush=True)
            if turn >= warm_up:
                speeds[name].append(speed)
    return speeds


def as_table(figures: dict[str, Any]) -> str:
    """The comparison as text."""
    head = (
        "who",
        "events",
        "events/s",
        "from",
        "to",
        "ours is",
        "from",
        "to",
        "target",
        "CPU us",
        "ours, by CPU",
    )
    rows: list[tuple[object, ...]] = [head]
    used = figures["cpu_microseconds"]
    for name, rates in figures["rates"].items():
        ours_is, target, by_cpu = ["", "", ""], "", ""
        if name != OURS:
            ours_is = [f"{share:.3g} x" for share in ratios(figures["rates"][OURS], rates).values()]
            target = f">= {TARGETS[name]:g} x"
            by_cpu = f"{ratios(used[name], used[OURS])['median']:.3g} x"
        number = f"{figures['events'][name]:,}"
        cpu = spread(used[name])["median"]
        rows.append((name, number, *spread(rates).values(), *ours_is, target, cpu, by_cpu))
    shares = [f"{spread(figures[key])['median']:.2f}" for key in ("broker_share", "redis_share")]
    return (
        f"{table(rows)}\n\nbroker CPU / worker CPU: {shares[0]}; Redis CPU / worker CPU: {shares[1]} (ours)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_scale(parser)
    parser.add_argument("--events", type=int, help="events of the backlog")
    parser.add_argument("--repeats", type=int, help="turns that count")
    parser.add_argument("--peers", type=Path, help="folder of the peers; default ../shared/peers")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    args = parser.parse_args()
    folder = find_peers(args.peers)
    with a_site("kafka") as site:
        figures = compare(site, folder, scale_of(args, backlog=args.events, repeats=args.repeats))
    print(as_table(figures))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
