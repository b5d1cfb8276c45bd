"""The table of a run, and the document that holds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from tests.faults.run import Injected

HEAD = (
    "| fault | times | with events in flight | events in flight | lost | counted twice "
    "| seconds until current: median | max | atomic reads | torn |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)


def table(results: Iterable[Injected]) -> str:
    """One row a kind, and the sum.

    >>> print(table([Injected("worker killed", "kafka", 1, 5, 20, 99, 0, 1.5)]).splitlines()[2])
    | worker killed | 1 | 1 | 25 | 0 | 0 | 1.5 | 1.5 | 99 | 0 |
    """
    value = list(results)
    kinds = dict.fromkeys(result.kind for result in value)
    rows = [_row(kind, [result for result in value if result.kind == kind]) for kind in sorted(kinds)]
    return "\n".join([*HEAD, *rows, _row("**all**", value)])


def _row(name: str, results: list[Injected]) -> str:
    seconds = [result.seconds for result in results if result.seconds is not None]
    flying = [result.in_flight + result.meanwhile for result in results]
    cells = [
        name,
        len(results),
        sum(count > 0 for count in flying),
        f"{sum(flying):,}",
        sum(result.lost for result in results),
        sum(result.double for result in results),
        f"{median(seconds):.1f}" if seconds else "–",
        f"{max(seconds):.1f}" if seconds else "–",
        f"{sum(result.reads for result in results):,}",
        sum(result.torn for result in results),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def write_between(document: Path, marker: str, text: str) -> None:
    """Replace what stands between `<!-- marker -->` and `<!-- end of marker -->`."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    head, _, rest = document.read_text(encoding="utf-8").partition(begin)
    _, result, tail = rest.partition(end)
    if not result:
        raise ValueError(f"{document} has no {begin} ... {end}")
    document.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")


def read_results(file: Path) -> tuple[list[Injected], list[dict[str, Any]]]:
    """The faults of all runs into one file, and what each run says of itself."""
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    told = [line["run"] for line in lines if "run" in line]
    return [Injected(**line) for line in lines if "run" not in line], told
