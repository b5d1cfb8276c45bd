"""The interface of a harness connector, and the values that pass through it.

A connector knows one harness's directories and nothing else. Some questions are decided once for all
connectors, in :mod:`streamer.sources.convert`: the run of an event, what is a copy, and what fits the schema.
A new harness is one new module with one class, and one line in :mod:`streamer.sources.registry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options that the user gave.

    Attributes:
        run_id: pool every run into this one; the original runs become shards. None: runs stay apart.
        agent: name of the agent where the files name none.
        model: name of the model where the files name none.
        trial_files_only: leave out trials that exist only in run-level files (crashed ones, H2).
        harness: "auto", or the name of the only connector to use.
        declared: fields of the plan that the user declares; they replace what the files say.
    """

    run_id: str | None = None
    agent: str | None = None
    model: str | None = None
    trial_files_only: bool = False
    harness: str = AUTO
    declared: Mapping[str, Any] = field(default_factory=dict)


class Unreadable(NamedTuple):
    """A file, or an entry of it, that gave nothing, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that the files of one trial leave open.

    Attributes:
        path: the file that leaves it open.
        what: goes on from "N trials ..."; the same text for every trial of a run that it concerns.
        detail: what about this trial; trials of a run share it where they can. Free of control characters.
    """

    path: Path
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Found:
    """One trial as its files tell it.

    Attributes:
        path: the file it was read from; for a start the directory of the trial.
        event: a `trial_result`, or a `trial_started` for a trial that has no result yet. Without `run_id`,
            and with a `shard` only where the harness does not number repeats. May hold values that do not fit
            the schema.
        from_run_file: it stands only in the run-level file.
        other_run: the run its own name claims, if that is not the run whose directory it lies in.
        nested: it lies deeper than the harness writes, as copies do.
        replaced: a better copy of the same slot lies in the same run.
        partial: a file of several trials or agents says less of it than its own file would. It is left out
            where another event has its slot already.
        origins: field to the file that its value comes from, for what may come from several (tokens,
            cost, trajectory length).
        own: field to its value in the harness's own file, None without one, where logs beside it decide the
            value. Copies of a trial are recognised by it, whether or not the logs were copied too.
        hints: what the files beside it could not tell, and why; nothing is wrong with the trial.
    """

    path: Path
    event: dict[str, Any]
    from_run_file: bool = False
    other_run: str | None = None
    nested: bool = False
    replaced: bool = False
    partial: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    hints: tuple[str, ...] = ()


@dataclass(slots=True)
class RunPlan:
    """The facts that a run directory holds about the run as a whole.

    Attributes:
        run_id: name of the run: its directory's name (G5).
        aliases: other names the files give the run (H4); never used as its id.
        uuids: the harness's own ids of the run; copies of a run share one.
        agent: None if neither the files nor the options name it.
        model: likewise.
        started: a `run_started` event without `run_id`. Where a broken file makes its `plan_complete` false,
            the mended file makes it true: a plan that leaves it out changes nothing of that (R26).
        finished: a `run_finished` event without `run_id`; None while the run goes on.
        problems: files of the run that could not be read.
    """

    run_id: str
    aliases: frozenset[str] = frozenset()
    uuids: frozenset[str] = frozenset()
    agent: str | None = None
    model: str | None = None
    started: dict[str, Any] | None = None
    finished: dict[str, Any] | None = None
    problems: list[Unreadable] = field(default_factory=list)

    @property
    def tells_something(self) -> bool:
        """Whether the files say anything about the run besides its existence.

        That nothing is missing in its plan says nothing: so it is where the files hold no plan.
        """
        started = self.started or {}
        of_all = {"type", "harness", "revision"}
        return bool(started.keys() - of_all - {"plan_complete"}) or started.get("plan_complete") is False


Item = Found | Unreadable | Remark
"""What a connector finds in a run."""


class Source(Protocol):
    """A harness connector. It never raises on what it finds in files, and follows no symbolic link."""

    name: str

    def detect(self, path: Path) -> bool:
        """Whether this directory or file is a run of the harness, itself and not something below it."""
        ...

    def skip(self, directory: Path) -> bool:
        """Whether a directory inside a run holds no results of the harness (logs, workspaces)."""
        ...

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        """The events that the run itself gives: its plan, and its end."""
        ...

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        """The trials of the run, without trials of runs nested in it, in a stable order.

        A trial that has begun and has no result may be given as a `trial_started`, with the slot that its
        result will fill. It is sent only where the run has no result in that slot.

        Args:
            path: what `detect` said yes to.
            plan: what `plan` said of it.
            options: what the user asked for.
            within: read only this part of the run (see `part`): a directory of it without any run-level
                file, or nothing but this run-level file.
        """
        ...

    def part(self, run: Path, changed: Path) -> Path | None:
        """The part that `trials` has to read again because something at or below a path changed.

        A directory that holds everything on which the events of its trials depend, except run-level files. Or
        a run-level file that holds results and nothing on which other trials depend: `trials` then gives its
        trials without a file of their own. None: the change may concern the run as a whole.
        """
        ...
