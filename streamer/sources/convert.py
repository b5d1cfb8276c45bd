"""Harness run directories to events: the whole of `streamer convert` but its command line.

Decisions, for all harnesses alike:

- A run's id is the name of its directory (G5). Different runs of one name in one call are kept apart by the
  folders above them, and the report says so. A copy (same harness id, or a run of the same name nested in
  another) is the same run.
- With `--run-id` every run becomes a shard of that run, and their plans become one.
- A trial whose content was already sent in this call is a duplicate: counted, not sent again. Trials
  with an id of the harness are recognised across runs, so a partial copy of one run inside another
  (H5) adds nothing.
- Some trials lie deeper in a run than the harness writes, name another run and are no duplicates. Such a
  trial is left aside and reported: it belongs to a run that was not converted.
- A name that is too long is cut and reported (:mod:`streamer.sources.names`).
- A field that does not fit the schema is left out and reported; a file that cannot be read is reported.
- What looks like a secret is taken out of messages and labels (:mod:`streamer.sources.redaction`).
- A trial that has begun is sent as `trial_started`, unless its slot has a result or the run is a copy.
- What the user declares of the plan replaces what the files say.
- Where several files are one run, as a log and its retries, the plan of the latest is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.sources.base import ConvertOptions, Found, Remark, Unreadable
from streamer.sources.discover import FoundRun, discover, latest_of_retries, without_copies
from streamer.sources.files import known
from streamer.sources.fit import fit_event, slot_of
from streamer.sources.names import with_short_names
from streamer.sources.pool import pooled_finished, pooled_started
from streamer.sources.registry import sources_for
from streamer.sources.report import ConvertReport, explanation_of
from streamer.sources.starts import STARTED

_WHERE = frozenset({"run_id", "shard", "agent", "model"})
"""What a copy of a trial takes from the run that it lies in, rather than from its own file."""

_NOT_CONTENT = frozenset({"revision", "message", "artifacts"})
"""What copies of a trial may differ in: when they were copied, and which files besides the result."""

NOT_SHUFFLED = (
    "run {}: its order is declared as shuffled, and its harness orders tasks by itself. Declare that only if "
    "the harness was changed"
)


def convert(
    paths: Sequence[Path], options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    """Events of all runs at, below or around the paths, each ready for JSON and valid by the schema.

    Args:
        paths: run directories, folders of any depth that hold some, run-level files, or parts of runs.
        options: see :class:`ConvertOptions`.
        report: filled while the events are drawn.

    Raises:
        ValueError: at once, if `options.harness` names no connector.
    """
    sources = sources_for(options.harness)

    def events() -> Iterator[dict[str, Any]]:
        runs, problems, notes = discover(paths, sources, options)
        report.notes += notes
        report.unreadable += problems
        yield from convert_runs(runs, options, report)

    return events()


def convert_runs(
    runs: Sequence[FoundRun], options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    """Events of runs that were found already. See :func:`convert`."""
    return _Conversion(options, report).events(runs)


def convert_part(
    run: FoundRun, part: Path, options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    """Trials in a part of one run, except those that only the whole could tell from copies."""
    return _Conversion(options, report).part_events(run, part)


def convert_plan(run: FoundRun, options: ConvertOptions, report: ConvertReport) -> Iterator[dict[str, Any]]:
    """The plan events of one run; nothing if it is pooled with others, of which it may not know."""
    if options.run_id is None:
        yield from _Conversion(options, report).plan_events(run)


class _Conversion:
    """One call of :func:`convert`: remembers what was sent."""

    def __init__(self, options: ConvertOptions, report: ConvertReport) -> None:
        self._options = options
        self._report = report
        self._sent: set[str] = set()
        self._slots: set[tuple[Any, ...]] = set()
        self._retries: dict[str, Path] = {}

    def events(self, runs: Sequence[FoundRun]) -> Iterator[dict[str, Any]]:
        pooled = self._options.run_id is not None
        whole = without_copies(runs)
        if pooled and whole:
            yield from self._plan_event(whole[0], pooled_started([run.plan for run in whole]))
        doubtful: list[tuple[FoundRun, Found]] = []
        self._retries = latest_of_retries(runs)
        for run in runs:
            yield from self._run_events(run, doubtful, with_plan=not pooled)
        for run, found in doubtful:
            yield from self._doubtful_event(run, found)
        if pooled and whole and (finished := pooled_finished([run.plan for run in whole])):
            yield from self._plan_event(whole[0], finished)

    def _run_events(
        self, run: FoundRun, doubtful: list[tuple[FoundRun, Found]], with_plan: bool
    ) -> Iterator[dict[str, Any]]:
        """Plan, trials and end of one run; nothing if all its trials are copies of others'."""
        self._report.unreadable += run.plan.problems
        trials: list[dict[str, Any]] = []
        begun: list[Found] = []
        copies = 0
        for item in self._found(run):
            if item.event.get("type") == STARTED:
                begun.append(item)
            elif item.other_run is not None:
                doubtful.append((run, item))
            else:
                sent = self._trial_event(run, item)
                copies += sent is None
                trials.extend([sent] if sent else [])
        latest = self._retries.get(run.run_id)
        if not trials and latest != run.path and (copies or not (begun or run.plan.tells_something)):
            return
        with_plan = with_plan and latest in (None, run.path)
        starts = [] if run.nested else list(self._start_events(run, begun))
        self._report.runs.extend([] if run.run_id in self._report.runs else [run.run_id])
        if with_plan and (started := self._started(run)):
            yield from self._plan_event(run, started)
        yield from trials + starts
        if with_plan and run.plan.finished:
            yield from self._plan_event(run, run.plan.finished)

    def plan_events(self, run: FoundRun) -> Iterator[dict[str, Any]]:
        for event in (self._started(run), run.plan.finished):
            yield from self._plan_event(run, event) if event else ()

    def _started(self, run: FoundRun) -> dict[str, Any] | None:
        """The run's plan; also for one whose files have none, if the user declares some of it."""
        return run.plan.started or ({"type": "run_started"} if self._options.declared else None)

    def part_events(self, run: FoundRun, part: Path) -> Iterator[dict[str, Any]]:
        """Trials of a part that are no copies, whatever lies elsewhere."""
        begun: list[Found] = []
        for item in self._found(run, part):
            if item.event.get("type") == STARTED:
                begun.append(item)
            elif item.other_run is None and not item.nested and (sent := self._trial_event(run, item)):
                yield sent
        yield from self._start_events(run, begun)

    def _found(self, run: FoundRun, part: Path | None = None) -> Iterator[Found]:
        """The trials of a run, or of a part of it, as far as the user named them; all else is noted."""
        for item in run.source.trials(run.path, run.plan, self._options, part):
            if not item.path.is_relative_to(run.only):
                continue
            if isinstance(item, Remark):
                self._report.note_remark(run.run_id, item)
            elif isinstance(item, Unreadable):
                self._report.unreadable.append(item)
            else:
                yield item

    def _start_events(self, run: FoundRun, begun: Sequence[Found]) -> Iterator[dict[str, Any]]:
        """The starts in slots without a result."""
        for found in begun:
            event = self._fit(found.path, self._addressed(run, found.event))
            if event is not None and slot_of(event) not in self._slots:
                self._slots.add(slot_of(event))
                self._report.starts.append(found.path)
                yield event

    def _doubtful_event(self, run: FoundRun, found: Found) -> Iterator[dict[str, Any]]:
        """A trial that names another run: sent after all others, if it is neither a copy nor a stray."""
        if not found.nested:
            sent = self._trial_event(run, found)
            yield from [sent] if sent else []
        elif self._content(run, found) in self._sent:
            self._report.duplicates += 1
        else:
            reason = f"belongs to run {found.other_run!r} by its name, and that run is not among the paths"
            self._report.unreadable.append(Unreadable(found.path, reason))

    def _trial_event(self, run: FoundRun, found: Found) -> dict[str, Any] | None:
        """The event to send for a trial, None if there is none to send."""
        event = self._fit(found.path, self._addressed(run, found.event))
        if event is None:
            return None
        content = self._content(run, found, event)
        slot = slot_of(event)
        if found.replaced or content in self._sent or (found.partial and slot in self._slots):
            self._report.duplicates += not found.from_run_file
            return None
        self._sent.add(content)
        self._slots.add(slot)
        self._report.trials += 1
        self._report.run_file_trials += found.from_run_file
        self._report.explanations.append(explanation_of(found, event))
        return event

    def _plan_event(self, run: FoundRun, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        declared = self._options.declared if event["type"] == "run_started" else {}
        if declared.get("order_kind") == "shuffled" and event.get("order_kind") == "chosen":
            self._report.notes.append(NOT_SHUFFLED.format(run.run_id))
        address = {"run_id": self._options.run_id or run.run_id}
        fitted = self._fit(run.path, {**address, **event, **declared})
        yield from [fitted] if fitted else []

    def _addressed(self, run: FoundRun, event: dict[str, Any]) -> dict[str, Any]:
        """The event with its run, which becomes its shard, or is put before it, if runs are pooled."""
        if self._options.run_id is None:
            return {"run_id": run.run_id, **event}
        shard = "/".join(filter(None, (run.run_id, event.get("shard"))))
        return {**event, "run_id": self._options.run_id, "shard": shard}

    def _fit(self, path: Path, event: dict[str, Any]) -> dict[str, Any] | None:
        event, cut = with_short_names(event)
        self._report.cut.extend((path, name, reason) for name, reason in cut.items())
        fitted, misfits = fit_event(event)
        if fitted is None:
            reasons = "; ".join(f"{name} {reason}" for name, reason in misfits.items())
            self._report.unreadable.append(Unreadable(path, f"makes no valid event: {reasons}"))
        else:
            self._report.left_out.extend((path, name, reason) for name, reason in misfits.items())
        return fitted

    def _content(self, run: FoundRun, found: Found, event: dict[str, Any] | None = None) -> str:
        """Digest of what the harness's own files say of a trial; `event`: as it is sent, if that is known.

        Without where it lies if the harness gave it an id of its own.
        """
        if event is None or found.own:
            own = {**found.event, **found.own}
            event = fit_event(with_short_names(self._addressed(run, known(own)))[0])[0] or {}
        ignored = _NOT_CONTENT | (_WHERE if "trial_id" in event else frozenset())
        return sha256_hex(canonical_json({k: value for k, value in event.items() if k not in ignored}))
