"""The figures as a table, as a chart, and in docs/performance.md between its markers.

    python -m benchmarks.report [--out DIR]

Renders bench.json again, as `make bench` does after measuring.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.latency import P50_MS, P99_MS
from benchmarks.sizing import as_sizes, markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
OUT = DOCS / "performance"
PAGE = DOCS / "performance.md"
HEAD = ("what", "measured", "from", "to", "turns", "target", "met")

Results = dict[str, Any]
"""What bench.json holds: `families`, by name, each with `scale`, `machine`, `rows` and `details`."""


def read(out: Path) -> Results:
    """The earlier measurements; nothing if there are none."""
    file = out / "bench.json"
    return dict(json.loads(file.read_text())) if file.is_file() else {"families": {}}


def write(results: Results, out: Path) -> None:
    """Table, JSON and chart; the page too, if `out` is where the page looks."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "bench.txt").write_text(as_text(results) + "\n")
    chart(results, out / "bench.png")
    if out.resolve() == OUT and PAGE.is_file():
        into_page(table=as_markdown(results), **as_sizes(results))


def as_text(results: Results) -> str:
    """The table for a terminal."""
    return table([HEAD, *_cells(results)])


def as_markdown(results: Results) -> str:
    """The table for the page, with what it was measured on."""
    return f"{markdown([HEAD, *_cells(results)])}\n\n{_circumstances(results)}"


def between_markers(page: str, name: str, text: str) -> str:
    """The page with the text between the markers of that name.

    >>> between_markers("a <!-- x: generated --> old <!-- end of x --> z", "x", "new")
    'a <!-- x: generated -->\\nnew\\n<!-- end of x --> z'
    """
    start, end = f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    pattern = f"{re.escape(start)}.*?{re.escape(end)}"
    assert re.search(pattern, page, re.DOTALL), f"the page lacks {start} and {end}"
    return re.sub(pattern, lambda _: f"{start}\n{text}\n{end}", page, flags=re.DOTALL)


def into_page(**texts: str) -> None:
    """Put each text between the markers of its name in docs/performance.md; underscores stand for dashes."""
    page = PAGE.read_text()
    for name, text in texts.items():
        page = between_markers(page, name.replace("_", "-"), text)
    PAGE.write_text(page)


def _cells(results: Results) -> Iterator[tuple[str, ...]]:
    for family in results["families"].values():
        for row in family["rows"]:
            asked = "" if row["target"] is None else f"{row['sense']} {_figure(row['target'])} {row['unit']}"
            met = {None: "", True: "yes", False: "no"}[row["met"]]
            figures = [row[name] for name in ("median", "min", "max")]
            numbers = ["" if one is None else f"{_figure(one)} {row['unit']}" for one in figures]
            yield (row["what"], *numbers, str(row["turns"]), asked, met)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _circumstances(results: Results) -> str:
    """What it was measured on, how large, and what else the machine had to do."""
    families = results["families"].values()
    machines = {
        f"{told['cores']} cores of {told['processor']}, {told['system']}, Python {told['python']}"
        for told in (family["machine"] for family in families)
    }
    scales: dict[str, list[str]] = {}
    for name, family in results["families"].items():
        scales.setdefault(family["scale"], []).append(name)
    loads = sorted(family["machine"]["load_before"] for family in families)
    sizes = "; ".join(f"scale {scale}: {', '.join(names)}" for scale, names in scales.items())
    return (
        f"{'; '.join(sorted(machines))}. {sizes[:1].upper()}{sizes[1:]}. Load average of the machine before "
        f"each family: {loads[0]:.1f} to {loads[-1]:.1f} (above 1, something else was running)."
    )


def chart(results: Results, file: Path) -> None:
    """Throughput, latency and growth, side by side; a panel stays empty where nothing was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    details = {name: family["details"] for name, family in results["families"].items()}
    _throughput(left, details.get("peers"))
    _latency(middle, details.get("latency"))
    _growth(right, details.get("growth"))
    figure.savefig(file, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _throughput(axes: Any, peers: dict[str, Any] | None) -> None:
    axes.set_title("Draining a backlog, one worker, one core")
    axes.set_xlabel("events/s (logarithmic)")
    if not peers:
        return
    names = list(peers["rates"])[::-1]
    rates = [sorted(peers["rates"][name]) for name in names]
    middle = [result[len(result) // 2] for result in rates]
    bars = axes.barh(names, middle, color=["#2a6f97" if name == "streamer" else "#a9b4c2" for name in names])
    spans = [[m - result[0] for m, result in zip(middle, rates, strict=True)]]
    spans.append([result[-1] - m for m, result in zip(middle, rates, strict=True)])
    axes.errorbar(middle, names, xerr=spans, fmt="none", ecolor="#333333", capsize=3)
    axes.bar_label(bars, [f" {value:,.0f}" for value in middle], padding=4)
    axes.set_xscale("log")
    axes.margins(x=0.25)


def _latency(axes: Any, latency: dict[str, Any] | None) -> None:
    axes.set_title("Publish to readable in Redis, 200 events/s")
    axes.set_xlabel("percentile")
    axes.set_ylabel("ms")
    if not latency:
        return
    for engine, result in latency.items():
        percentiles = result["percentiles"]
        axes.plot(list(percentiles), list(percentiles.values()), marker="o", label=engine)
    for value, style, name in ((P50_MS, ":", "p50"), (P99_MS, "--", "p99")):
        axes.axhline(value, linestyle=style, color="#888888", label=f"{name} <= {_figure(value)} ms")
    axes.set_ylim(bottom=0)
    axes.legend()


def _growth(axes: Any, growth: dict[str, Any] | None) -> None:
    axes.set_title("Growth of the state")
    axes.set_xlabel("how many (logarithmic)")
    axes.set_ylabel("events for a second of worker CPU")
    if not growth:
        return
    over = f"{growth['events_over_runs']:,} events"
    labels = {
        "slots": "slots in one run",
        "runs": f"runs of 7 tiers x 5 agents ({over})",
        "plain_runs": f"runs of one tier and agent ({over})",
    }
    for name, label in labels.items():
        points = {int(number): rate for number, rate in growth[name].items()}
        axes.plot(list(points), list(points.values()), marker="o", label=label)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.4 * max(max(growth[name].values()) for name in labels))  # room for the legend
    axes.legend(loc="upper right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="where bench.json is; default docs/performance")
    args = parser.parse_args()
    results = read(args.out)
    write(results, args.out)
    print(as_text(results))


if __name__ == "__main__":
    main()
