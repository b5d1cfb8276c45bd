"""Logs of inspect_ai: each file `.eval` or `.json` of its log directory is a run, or a retry of one.

inspect_ai writes a sample to its log when it has ended, often several at once, and nothing when it begins.
So `tail` shows no trial in flight. The hook (`streamer.hooks.inspect`) does. `inspect_events` turns
records into events, and `inspect_log` reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions, Found, Item, Remark, RunPlan, Unreadable
from streamer.sources.files import FileError, clean_name, known, mtime_ns, part, text
from streamer.sources.inspect_events import (
    HARNESS,
    agent_of,
    finished_event,
    run_id_of,
    started_event,
    trial_event,
)
from streamer.sources.inspect_log import is_log, read_header, read_samples

LEFT_OUT = "have scores that are left out"
"""The remark on scores that are no numbers."""

NO_SAMPLES = "holds no samples, as its eval ran with --no-log-samples. The hook publishes such evals"
"""Why a log gives no trials, although its eval had some."""


class Inspect:
    """Connector for inspect_ai."""

    name = HARNESS

    def detect(self, path: Path) -> bool:
        return is_log(path)

    def skip(self, directory: Path) -> bool:
        return False

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        plan = RunPlan(run_id=clean_name(path))
        try:
            header = read_header(path)
        except FileError as error:
            plan.problems.append(Unreadable(path, str(error)))
            return plan
        spec, solvers = part(header, "eval"), part(header, "plan")
        plan.run_id = run_id_of(spec) or plan.run_id
        plan.uuids = frozenset(filter(None, [text(spec.get("task_id"))]))
        plan.agent = agent_of(spec, solvers) or options.agent
        plan.model = text(spec.get("model")) or options.model
        plan.started = started_event(spec, solvers, options.agent)
        plan.finished = finished_event(header.get("status"), part(header, "stats"))
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        if plan.problems:
            return
        try:
            header = read_header(path)
            samples = list(read_samples(path))
        except FileError as error:
            yield Unreadable(path, str(error))
            return
        spec, solvers = part(header, "eval"), part(header, "plan")
        if not samples and part(spec, "config").get("log_samples") is False:
            yield Unreadable(path, NO_SAMPLES)
        defaults = known({"agent": options.agent, "model": options.model})
        written_ns = mtime_ns(path)
        for number, sample in enumerate(samples, 1):
            wrong = _wrong_with(sample)
            if wrong:
                yield Unreadable(path, f"sample {number}: {wrong}")
                continue
            event, left_out = trial_event(spec, solvers, sample, written_ns, defaults)
            yield Found(path, event)
            yield from (Remark(path, LEFT_OUT, why) for why in left_out)

    def part(self, run: Path, changed: Path) -> Path | None:
        """A log is read as a whole."""
        return None


def _wrong_with(sample: Any) -> str | None:
    """Why this is no sample; None if it is one."""
    if not isinstance(sample, dict):
        return f"an object belongs here, not a JSON {type(sample).__name__}"
    if not isinstance(sample.get("id"), str | int):
        return f"`id` is {sample.get('id')!r}, a text or a number is needed"
    return None
