"""A simulated harness in a process of its own, which notes when each result that it writes was complete.

It writes `there` trials at once, says so, and writes more when asked to go on, one after the other.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.layouts import simulate_run

RESULT = {"terminal-bench": "results.json", "harbor": "result.json"}
"""Layouts whose trials have an id, and the file that holds the result."""

SAME, OTHER = "same", "other"
SPARE = 50
"""A run is planned for so many more trials than are written: it never ends."""

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write.

    Attributes:
        there: trials that are there first.
        where: whether the others belong to the same run or to another beside it.
        timed: trials after that.
        pace_seconds: how long each of those takes.
    """

    layout: str
    directory: Path
    there: int
    where: str
    timed: int
    pace_seconds: float


@dataclass(slots=True)
class Written:
    """When results were complete, in Unix seconds, by the harness's id of the trial.

    Attributes:
        own: in a file of its own; of trials that were run again at once only the last.
        run_level: nowhere but in the run-level file.
    """

    own: dict[str, float] = field(default_factory=dict)
    run_level: dict[str, float] = field(default_factory=dict)


class _Enough(Exception):
    """So many trials were written as were wanted."""


class _Harness:
    """Writes by the plan and says when: first what was there, then what came after."""

    def __init__(self, plan: Plan, pipe: Connection) -> None:
        self._plan = plan
        self._pipe = pipe
        self._all = Written()
        self._ids: dict[Path, str] = {}
        self._gone_on = False

    def write(self) -> None:
        plan = self._plan
        if plan.where == OTHER and plan.there:
            with suppress(_Enough):
                self._simulate("there", plan.there)
            self._go_on()
        with suppress(_Enough):
            self._simulate("run", plan.timed + (0 if self._gone_on else plan.there))
        self._pipe.send(self._all)

    def _simulate(self, name: str, trials: int) -> None:
        plan = self._plan
        simulate_run(
            plan.layout,
            plan.directory / name,
            trials + SPARE,
            seed=len(name),
            start=START,
            pace_seconds=plan.pace_seconds,
            sleep=self._sleep,
            written=self._note,
        )

    def _go_on(self) -> None:
        """Say what is there, and wait until the other side has read it."""
        self._pipe.send(self._all)
        self._pipe.recv()
        self._all = Written()
        self._gone_on = True

    def _sleep(self, seconds: float) -> None:
        if self._gone_on:
            time.sleep(seconds)

    def _note(self, path: Path) -> None:
        now = time.time()
        if path.name != RESULT[self._plan.layout]:
            return
        if path.parent.parent != self._plan.directory:
            self._all.own.pop(self._ids.get(path, ""), None)
            self._ids[path] = json.loads(path.read_bytes())["id"]
            self._all.own[self._ids[path]] = now
            return
        if self._gone_on:
            entries = json.loads(path.read_bytes()).get("results", [])[-1:]
            ids = {entry["id"] for entry in entries if entry["id"] not in self._all.own}
            self._all.run_level.update((id_, now) for id_ in ids - self._all.run_level.keys())
        self._trial_ended()

    def _trial_ended(self) -> None:
        """The run-level file is complete, which is the last one that a harness writes for a trial."""
        plan = self._plan
        ended = len(self._all.own) + len(self._all.run_level)
        if self._gone_on and ended >= plan.timed:
            raise _Enough
        if not self._gone_on and ended >= plan.there:
            if plan.where == OTHER and plan.there:
                raise _Enough
            self._go_on()


def _work(plan: Plan, pipe: Connection) -> None:
    _Harness(plan, pipe).write()


@contextmanager
def harness(plan: Plan) -> Iterator[Connection]:
    """A harness at work. It sends all results, waits for the word to go on, and at its end sends the rest."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_work, args=(plan, its), daemon=True)
    process.start()
    its.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
