"""`streamer convert`: run directories of a harness in, events out."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import print_json, say
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.sources.base import AUTO, ConvertOptions
from streamer.sources.convert import convert
from streamer.sources.registry import HARNESSES
from streamer.sources.report import NO_RUN, ConvertReport, Explanation
from streamer.text import counted


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--harness", type=click.Choice(HARNESSES), default=AUTO, help="Who wrote it; found out by itself."
)
@click.option("--run-id", metavar="RUN", help="Pool all runs into this one; each becomes a shard of it.")
@click.option("--agent", help="Agent of runs whose files name none.")
@click.option("--model", help="Model of runs whose files name none.")
@click.option("--trial-files-only", is_flag=True, help="Leave out trials that stand only in run-level files.")
@click.option("--explain", is_flag=True, help="Say of each trial where its tokens, cost and length are from.")
@with_settings
def convert_command(
    paths: tuple[Path, ...],
    harness: str,
    run_id: str | None,
    agent: str | None,
    model: str | None,
    trial_files_only: bool,
    explain: bool,
    settings: Settings,
) -> None:
    """Turn the run directories at or below PATHS into events on stdout, one JSON object per line.

    What was read is reported on stderr. The exit code is 1 if something could not be read.
    """
    options = ConvertOptions(
        run_id=run_id, agent=agent, model=model, trial_files_only=trial_files_only, harness=harness
    )
    report = ConvertReport()
    for event in convert(paths, options, report):
        print_json(canonical_json(event))
    for line in (*(explained(report) if explain else ()), *lines_of(report)):
        say(line)
    if report.unreadable or not report.runs:
        raise click.exceptions.Exit(FOUND_WRONG)


def explained(report: ConvertReport) -> list[str]:
    """Where the numbers of each trial come from; then of how many trials the logs gave some."""
    trials = len(report.explanations)
    with_logs = sum(
        any(file not in ("", found.path.name) for _, file in found.values.values())
        for found in report.explanations
    )
    return [
        *map(_explained, report.explanations),
        f"{with_logs} of {counted(trials, 'trial')} with numbers from agent logs or recordings; "
        "a cost that nobody reports is estimated when scored: tokens x price (streamer prices MODEL)",
    ]


def _explained(found: Explanation) -> str:
    values = [
        f"{name} {value} from {file}" if file else f"{name} unknown"
        for name, (value, file) in found.values.items()
    ]
    return f"{found.path}: {', '.join(values)}" + "".join(f"; {hint}" for hint in found.hints)


def lines_of(report: ConvertReport) -> list[str]:
    """The report for people: what was left out and why, then the counts."""
    lines = [f"note: {note}" for note in (*report.notes, *report.remarks.values())]
    lines += [f"{path}: {name} left out: {reason}" for path, name, reason in report.left_out]
    lines += [f"{path}: {name} cut: {reason}" for path, name, reason in report.cut]
    lines += [f"{path}: {reason}" for path, reason in report.unreadable]
    if not report.runs:
        lines.append(NO_RUN)
    counts = (
        f"{counted(len(report.runs), 'run')}, {counted(report.trials, 'trial')} "
        f"({report.run_file_trials} only in run-level files), {counted(report.duplicates, 'duplicate')}, "
        f"{len(report.unreadable)} unreadable, {counted(len(report.left_out), 'value')} left out"
    )
    return [*lines, counts]
