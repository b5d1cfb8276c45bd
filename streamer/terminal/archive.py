"""The commands that move finished runs into files and back: archive and restore."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from streamer.client.readers import StateReader
from streamer.folding.prices import PriceTable
from streamer.operate.archive import Archive, ArchivePlan, CannotBeMoved, Lines, NotDone, command_for, restore
from streamer.operate.bundle import NotABundle
from streamer.operate.rows import file_name
from streamer.operate.verify import Standing
from streamer.settings import Settings
from streamer.terminal import FAILED, explain, fail_if, print_line, say
from streamer.terminal.operate import kept_lines, since
from streamer.terminal.options import labels_given, price_table, wait_option, with_settings
from streamer.terminal.replay import CANNOT, ledgers_upon
from streamer.text import counted
from streamer.views.decide.gate import possible_runs

# -----------------------------------------------------------------------------
# `streamer archive` and `streamer restore`: finished runs as files, outside the stack until restored.


@click.command()
@click.argument("what", metavar="RUN|OUTDIR", type=str)
@click.argument("out", required=False, metavar="[OUT]", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--older-than", metavar="TIME", help="Runs whose last event is older: 90d, 12h, or a time (UTC)."
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label.")
@click.option("--yes", "plan_hash", metavar="HASH", help="Do what was shown with this hash.")
@click.option("--without-rejected", is_flag=True, help="Archive a run even if it has rejected records.")
@wait_option(15.0, "How long to wait for results in flight, and for Redis.")
@with_settings
def archive_command(
    what: str,
    out: Path | None,
    older_than: str | None,
    labels: tuple[str, ...],
    plan_hash: str | None,
    without_rejected: bool,
    wait: float,
    settings: Settings,
) -> None:
    """Write the finished RUN into the bundle OUT (RUN.tar if not given), then delete it from the stack.

    The file is synced, read back and folded again. Unless it is equal to Redis and to the log, the run stays.
    If a command was killed, run it again.

    With --older-than or --label the argument is a directory, OUTDIR, for the archives of all these runs. The
    command only says what it would do, with a hash, until it is called again with --yes HASH.

    A ledger's lines for a run stay. The baseline of a ledger is not archived.
    """
    prices = price_table(settings.prices_file)

    def archive(run_id: str, file: Path, digest: str | None = None) -> bool:
        lines = _lines_of(settings, run_id, prices)
        return _archive(Archive(settings, run_id, file, prices, lines, wait, without_rejected), digest)

    if older_than is None and not labels:
        if plan_hash:
            raise click.UsageError("--yes belongs to --older-than and --label: RUN alone needs none")
        fail_if(not archive(what, out or Path(f"{file_name(what)}.tar")))
        return
    if out is not None:
        raise click.UsageError("with --older-than or --label, name a directory, not a file")
    plan = _archive_plan(settings, Path(what), older_than, labels, plan_hash)
    broken_off = plan.broken_off()
    for run_id, file in broken_off:
        say(f"streamer: the archive of {run_id} was interrupted: run `{command_for(run_id, file)}`")
    done = []
    if plan_hash is not None:
        plan.confirm()
        done = [archive(run_id, plan.folder / name, digest) for run_id, digest, name in plan.runs]
    fail_if(bool(broken_off) or not all(done))


def _lines_of(settings: Settings, run_id: str, prices: PriceTable) -> Lines:
    def lines(reader: StateReader, revision: int) -> list[dict[str, Any]]:
        runs = {run.run_id: run for run in reader.runs()}
        if run_id not in runs:
            raise CannotBeMoved(f"{run_id} stays: it is no longer in Redis. Run the command again")
        for base in possible_runs(entry.baseline) if (entry := runs[run_id].ledger) else ():
            if base in runs and (own := Standing.in_log(settings, base, prices)) and own.open_because:
                raise CannotBeMoved(f"{run_id} stays: {base}, the baseline of its ledger, has not finished")
        return kept_lines(settings, list(runs.values()), run_id, revision)

    return lines


def _archive(archive: Archive, digest: str | None) -> bool:
    try:
        made = archive.make(digest)
    except (CannotBeMoved, NotABundle, NotDone, click.UsageError, OSError, *CANNOT) as error:
        text = error.message if isinstance(error, click.UsageError) else explain(error, archive.settings)
        if isinstance(error, OSError):
            text += ". Run the command again with the same OUT"
        say(f"streamer: {text}")
        return False
    say(f"{archive.run_id}: {'archived in' if made else 'was archived before in'} {archive.out}")
    return True


def _archive_plan(
    settings: Settings, folder: Path, older_than: str | None, labels: tuple[str, ...], plan_hash: str | None
) -> ArchivePlan:
    if plan_hash is not None and (confirmed := ArchivePlan.confirmed(folder, plan_hash)):
        return confirmed
    before = None if older_than is None else since(older_than)
    if before and before > datetime.now(UTC):
        raise click.UsageError(
            f"--older-than {older_than} is in the future: give an age (90d) or a past time"
        )
    with StateReader(settings) as reader:
        runs = reader.runs()
    prices = price_table(settings.prices_file)
    plan = ArchivePlan.of(
        runs,
        folder,
        before=before,
        labels=labels_given(labels),
        baselines={run.run_id for run in runs if ledgers_upon(run.run_id, runs)},
        standing=lambda run_id: Standing.in_log(settings, run_id, prices),
    )
    if plan_hash == plan.hash:
        return plan
    if plan_hash is not None:
        raise click.UsageError(
            f"--yes {plan_hash} is outdated: the plan is now {plan.hash}. Run the command without --yes "
            "to see it"
        )
    for run_id, _, name in plan.runs:
        print_line(f"{run_id}: archive in {plan.folder / name}, then delete")
    for run_id, reason in plan.kept:
        print_line(f"{run_id}: stays ({reason})")
    print_line(f"{counted(len(plan.runs), 'run')} to archive. Nothing is done yet: --yes {plan.hash} does it")
    return plan


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@wait_option(60.0, "How long to wait until Redis has the runs.")
@with_settings
def restore_command(file: Path, wait: float, settings: Settings) -> None:
    """Publish the runs of the bundle FILE again: the same bytes, revisions and times.

    Nothing is published if this stack has a run with other events, or has deleted it: what a deletion covers
    is ignored. Restore it on another stack then, or in another --namespace.
    """
    try:
        with file.open("rb") as stream:
            prices = price_table(settings.prices_file)
            runs, compared = restore(settings, stream, file.name, prices, wait_seconds=wait)
    except (CannotBeMoved, NotABundle, NotDone) as error:
        about = f"{file}: " if isinstance(error, NotABundle) else ""
        say(f"streamer: {about}{error}")
        raise click.exceptions.Exit(FAILED) from error
    end = f"Redis says the same as {file.name}"
    if not compared:
        end = f"{file.name} has numbers of another version of the semantics, which were not compared"
    for run_id, events in runs.items():
        say(f"{run_id}: restored, {counted(events, 'event')}; {end}")
