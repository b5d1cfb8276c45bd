"""All benchmarks, one table: each figure beside its target, with its spread.

    python -m benchmarks [--scale small|full] [--only NAME] [--peers DIR] [--out DIR]

Writes bench.txt, bench.json and bench.png to the folder, after every family. With --only the other families
keep their earlier figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.common import Scale, add_scale, scale_of
from benchmarks.families import families
from benchmarks.machine import description
from benchmarks.peers import find_peers
from benchmarks.report import OUT, as_text, read, write
from benchmarks.rows import Family, Sites


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_scale(parser)
    parser.add_argument("--only", action="append", metavar="NAME", help="only this family; may be repeated")
    parser.add_argument("--repeats", type=int, help="turns that count; default what the scale says")
    parser.add_argument("--peers", type=Path, help="folder of the peers; default ../shared/peers")
    parser.add_argument("--out", type=Path, default=OUT, help="where to write; default docs/performance")
    args = parser.parse_args()
    known = families(lambda: find_peers(args.peers))
    expected = args.only or list(known)
    if unknown := set(expected) - set(known):
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if "peers" in expected:
        find_peers(args.peers)  # before an hour of measuring, not after it
    results = read(args.out) if args.only else {"families": {}}
    scale = scale_of(args, repeats=args.repeats)
    with Sites() as sites:
        for name in expected:
            results["families"][name] = _measured(name, known[name], scale, sites)
            results["families"] = {n: results["families"][n] for n in known if n in results["families"]}
            write(results, args.out)
    print(as_text(results))


def _measured(name: str, family: Family, scale: Scale, sites: Sites) -> dict[str, Any]:
    began, machine = time.monotonic(), description()
    result = family(scale, sites)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return {
        "scale": scale.name,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "rows": [row.as_dict() for row in result.rows],
        "details": result.details,
    }


if __name__ == "__main__":
    main()
