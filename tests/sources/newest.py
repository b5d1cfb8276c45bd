"""The newest releases of harnesses against our numbers: `python -m tests.sources.newest PAGE`.

For each harness, the newest release from PyPI is installed, whatever its number. Its recorder runs it. Our
numbers are compared with the totals that it wrote, and PAGE gets a table of them. The exit code is 1
where a harness cannot be installed or run, or a number differs.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from streamer.sources.inspect import read_header
from tests.sources.builders import converted, trials_of
from tests.sources.harbor import summaries
from tests.sources.inspect import the_log
from tests.sources.inspect.running import scores_of
from tests.sources.swe_bench import REPORT
from tests.support.installation import run_pip
from tests.support.peers import INSTALL_SECONDS, newer_python, run_in_peer, version_of

HERE = Path(__file__).parent
BEGIN, END = "<!-- compared: begin -->", "<!-- compared: end -->"

Number = tuple[str, Any, Any]
"""Its name, its value by the harness, its value by us."""


def of_harbor(home: Path) -> Iterator[Number]:
    """Numbers of the job `coins`: trials, mean reward and pass@k of each agent; tokens and cost in all."""
    stats = json.loads((home / "coins" / "result.json").read_text())["stats"]
    events = converted(home / "coins")[0]
    ours = {label.partition(":")[0]: summary for label, summary in summaries(events).items()}
    for name, theirs in stats["evals"].items():
        agent = name.partition("__")[0]
        yield f"{agent}: trials", theirs["n_trials"], ours[agent]["trials"]
        yield f"{agent}: mean reward", theirs["metrics"][0]["mean"], ours[agent]["metrics"]["reward"]["mean"]
        for k, value in (theirs.get("pass_at_k") or {}).items():
            yield f"{agent}: pass@{k}", value, ours[agent]["pass_at_k"][k]["value"]
    if "n_input_tokens" in stats:
        sums = {
            name: sum(trial.get(name, 0) for trial in trials_of(events))
            for name in ("input_tokens", "cache_read_tokens", "output_tokens", "cost_usd")
        }
        yield "input tokens", stats["n_input_tokens"], sums["input_tokens"] + sums["cache_read_tokens"]
        yield "output tokens", stats["n_output_tokens"], sums["output_tokens"]
        yield "cost", stats["cost_usd"], sums["cost_usd"]


def of_inspect(folder: Path) -> Iterator[Number]:
    """Numbers of the one log in a folder: its samples, and what its scorers say on average.

    inspect_ai takes the mean of the epochs of each sample first, so the means of tasks are averaged here too.
    """
    log = the_log(folder)
    trials = trials_of(converted(folder)[0])
    yield "samples", read_header(log)["results"]["total_samples"], len(trials)
    theirs = scores_of(log)
    for name, statistic in {"graded": "accuracy", "quality/style": "mean", "quality/length": "mean"}.items():
        values: dict[str, list[float]] = {}
        for trial in trials:
            if (value := trial.get("metrics", {}).get(name)) is not None:
                values.setdefault(trial["task_id"], []).append(value)
        yield name, theirs[name.rpartition("/")[2]][statistic], fmean(map(fmean, values.values()))


def of_swe_bench(home: Path) -> Iterator[Number]:
    """Numbers of the report of one model."""
    report = json.loads((home / REPORT).read_text())
    trials = trials_of(converted(home / REPORT)[0])
    yield "instances", report["submitted_instances"], len(trials)
    yield "resolved", report["resolved_instances"], sum(trial.get("resolved") is True for trial in trials)
    yield "errors", report["error_instances"], sum(trial.get("failure_mode") == "error" for trial in trials)


def differences(numbers: list[Number]) -> list[str]:
    """The numbers that differ, in words. Floats are summed in another order, so they agree to 12 digits.

    NaN is no number of the harness: inspect_ai 0.3.58 averages a missing value so.
    """
    return [
        f"{name}: {theirs} by the harness, {ours} by us"
        for name, theirs, ours in numbers
        if ours is None or not (math.isnan(theirs) or math.isclose(theirs, ours, rel_tol=1e-12))
    ]


@dataclass(frozen=True)
class Harness:
    """A harness from PyPI.

    Attributes:
        package: its name there.
        recorder: the folder of record.py, and the arguments of that.
        minor: the oldest Python 3 that it takes.
        numbers: compares what the recorder left; its arguments are the folder and the version.
    """

    package: str
    recorder: tuple[str, ...]
    minor: int
    numbers: Callable[[Path, str], Iterator[Number]]


HARNESSES = (
    Harness("harbor", ("harbor", "coins"), 12, lambda home, _: of_harbor(home / "jobs")),
    Harness(
        "inspect-ai",
        ("inspect",),
        11,
        lambda home, version: of_inspect(next(filter(Path.exists, (home / "finished", home / version)))),
    ),
    Harness("swebench", ("swe_bench",), 11, lambda home, _: of_swe_bench(home)),
)


def compared(harness: Harness, home: Path) -> tuple[str, list[Number]]:
    """The version of the newest release, and its numbers beside ours."""
    environment = home / "environment"
    subprocess.run([newer_python(harness.minor), "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    run_pip("--python", str(python), "install", harness.package, seconds=INSTALL_SECONDS)
    program = f"from importlib.metadata import version; print(version({harness.package!r}))"
    version = run_in_peer(environment, "python", "-c", program, cwd=home).stdout.strip()
    folder, *arguments = harness.recorder
    place = home / "recorded"
    place.mkdir()
    path = {"PATH": f"{environment / 'bin'}:{os.defpath}"}
    run_in_peer(environment, "python", HERE / folder / "record.py", *arguments, cwd=place, variables=path)
    return version, list(harness.numbers(place, version))


def main(page: Path) -> int:
    """Compare all harnesses, and write the table into a page between its marks."""
    lines = ["| harness | newest release | compared on | numbers | different |", "|---|---|---|---|---|"]
    failed = False
    for harness in HARNESSES:
        with tempfile.TemporaryDirectory() as folder:
            version, numbers = compared(harness, Path(folder))
        wrong = differences(numbers)
        failed |= bool(wrong) or not numbers
        day = f"{datetime.now(UTC):%Y-%m-%d}, Python {version_of(newer_python(harness.minor))}"
        lines.append(
            f"| {harness.package} | {version} | {day} | {len(numbers)} | {'; '.join(wrong) or 'none'} |"
        )
        print(lines[-1], flush=True)
    text = page.read_text("utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    page.write_text("\n".join([before, *lines, after]), "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
