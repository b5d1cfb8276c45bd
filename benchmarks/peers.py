"""Ours and the peers, turn about: the same broker, the same topic, one worker each on the same core.

    python -m benchmarks.peers [--scale small|full] [--events N] [--repeats N] [--peers DIR] [--json FILE]

Ours and the floor drain the whole backlog; Bytewax and naive Faust, which keep every value and work out
each summary anew for every event, get the first events of it: the fewer, the better for them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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

TARGETS = {FLOOR: 0.3, BYTEWAX: 10.0, FAUST: 50.0}
"""Ours must have at least so many times the rate of the peer."""


def find_peers(given: Path | None) -> Path:
    """The folder of the peers; ends the program, loudly, where it is not there."""
    folder = given or PEERS
    if not (folder / "floor.py").is_file():
        sys.exit(
            f"THE PEERS ARE MISSING: no floor.py in {given or '../shared/peers beside this checkout'}. "
            "Without them there is nothing to compare with: name their folder with --peers DIR"
        )
    return folder


def peer_rate(name: str, folder: Path, site: Site, topic: str, number: int) -> float:
    """Events a second of a peer over the first `number` events of a topic, as the peer itself says."""
    environment = os.environ | {
        "BROKER": site.bootstrap,
        "TOPIC": topic,
        "N": str(number),
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
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
    return float(said[3])


def runnable() -> list[str]:
    """Peers that can run with this interpreter; says which cannot."""
    if find_spec("bytewax") is None or find_spec("confluent_kafka") is None:
        print("BYTEWAX IS MISSING: bytewax[kafka] is not installed here; its row is left out", flush=True)
        return [FLOOR, FAUST]
    return [FLOOR, BYTEWAX, FAUST]


def compare(site: Site, folder: Path, scale: Scale) -> dict[str, Any]:
    """All of them turn about; the figures."""
    with Deployment(site) as deployment:
        wanted = deployment.load(events(scale.backlog))
        make_topics(site, PARTITIONS, "bytewax-summaries", "naive-summaries")
        return _compare(deployment, wanted, folder, scale)


def _compare(deployment: Deployment, wanted: Wanted, folder: Path, scale: Scale) -> dict[str, Any]:
    site = deployment.site
    topic = deployment.names.trial_events
    numbers = {FLOOR: scale.backlog, BYTEWAX: scale.bytewax, FAUST: scale.naive_faust}
    drained: list[Drained] = []

    def ours() -> float:
        drained.append(drain(deployment, wanted, scale.backlog))
        return drained[-1].rate

    def theirs(name: str) -> Callable[[], float]:
        return lambda: peer_rate(name, folder, site, topic, numbers[name])

    cases = {OURS: ours} | {name: theirs(name) for name in runnable()}
    rates = rates_turn_about(cases, scale.repeats, scale.warm_up)
    counted = drained[-scale.repeats :]
    return {
        "events": {OURS: scale.backlog} | numbers,
        "rates": rates,
        "cpu_microseconds": [one.cpu_microseconds for one in counted],
        "broker_share": [one.broker_share for one in counted],
        "redis_share": [one.redis_cpu_seconds / one.worker_cpu_seconds for one in counted],
    }


def rates_turn_about(
    cases: Mapping[str, Callable[[], float]], repeats: int, warm_up: int
) -> dict[str, list[float]]:
    """Rates of each case, by turns; those to warm up do not count."""
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(warm_up + repeats):
        for name, case in cases.items():
            rate = case()
            print(
                f"  {name}: {rate:,.0f} events/s{' (warm-up)' if turn < warm_up else ''}",
                file=sys.stderr,
                flush=True,
            )
            if turn >= warm_up:
                rates[name].append(rate)
    return rates


def as_table(figures: dict[str, Any]) -> str:
    """The comparison as text."""
    rows: list[tuple[object, ...]] = [
        ("who", "events", "events/s", "from", "to", "ours is", "from", "to", "target")
    ]
    for name, rates in figures["rates"].items():
        share = ratios(figures["rates"][OURS], rates)
        ours_is = ["", "", "", ""] if name == OURS else [f"{v:.3g} x" for v in share.values()]
        target = [] if name == OURS else [f">= {TARGETS[name]:g} x"]
        rows.append(
            (name, f"{figures['events'][name]:,}", *spread(rates).values(), *ours_is[:3], *(target or [""]))
        )
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
