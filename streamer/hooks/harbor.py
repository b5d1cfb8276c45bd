"""The plug-in for harbor: `harbor run --plugin streamer` publishes each trial as it starts and ends.

harbor loads it by the entry point group `harbor.plugins` when the command line names it; configuration
files cannot (`harbor.models.job.config`). It asks for the hooks START and END of `harbor.trial.hooks`. harbor
awaits hooks unguarded, so an exception here would fail the trial: each call is guarded.

- START: harbor knows the slot, by the result that it has begun to fill. So a start comes for every agent.
- END: harbor has written result.json. The trial is read as `streamer convert` reads it.
- The end of the job: the whole job is read, and what differs from what was published is published. So a job
  that was resumed is complete, and what was published at last is what `convert` of the directory gives.

A retry deletes the trial's directory as soon as the hooks have returned. The failed attempt is published if
it could still be read by then; the result of the retry supersedes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamer.hooks import is_active
from streamer.hooks.background import Background, Event, Publish
from streamer.schemas.wire import canonical_json
from streamer.sources.base import ConvertOptions, ConvertReport, fit_event, slot_of, with_short_names
from streamer.sources.convert import SourceRun, convert, convert_part, convert_plan, discover
from streamer.sources.files import clean_name
from streamer.sources.harbor import Harbor, start_of_result

VARIABLE = "STREAMER_HARBOR"
INACTIVE = (
    "streamer publishes nothing of this job: no stack runs on this machine. Start one with `streamer up`, or "
    f"set {VARIABLE}=1 and STREAMER_BOOTSTRAP=host:port"
)

log = logging.getLogger("streamer.hooks")


class JobFollower:
    """The events of one job, each published once unless its content changed.

    Args:
        job: the directory of the job.
    """

    def __init__(self, job: str | Path) -> None:
        self._job = Path(job).absolute()
        self._options = ConvertOptions(harness=Harbor.name)
        self._run: SourceRun | None = None
        self._published: dict[tuple[Any, ...], bytes] = {}
        self._unread: set[str] = set()

    def started(self, result: Event, publish: Publish) -> None:
        """Publish the start of a trial, before it the plan. `result`: what harbor has of it, as JSON."""
        self._find(publish)
        trial = start_of_result(self._job / str(result.get("trial_name")), result, self._options)
        event = {"run_id": clean_name(self._job), **trial.event}
        fitted, _ = fit_event(with_short_names(event)[0])
        self._publish_new([fitted] if fitted else [], publish)

    def ended(self, result: Event, publish: Publish) -> None:
        """Publish what the files of a trial say, before it the plan.

        harbor may be writing the file again without the secrets that it knows. Then it is read once more when
        the next trial has ended.
        """
        run = self._find(publish)
        self._unread.add(str(result.get("trial_name")))
        if run is None:
            return
        for name in sorted(self._unread):
            report = ConvertReport()
            self._publish_new(convert_part(run, self._job / name, self._options, report), publish)
            if not report.unreadable:
                self._unread.discard(name)

    def finished(self, publish: Publish) -> None:
        """Publish what the whole job says and was not published yet."""
        self._publish_new(convert([self._job], self._options, ConvertReport()), publish)

    def _find(self, publish: Publish) -> SourceRun | None:
        """The run; its plan is published once it is there. harbor writes it before the first trial."""
        if self._run is None:
            (*runs,), _, _ = discover([self._job], [Harbor()], self._options)
            self._run = runs[0] if runs else None
            if self._run is not None:
                self._publish_new(convert_plan(self._run, self._options, ConvertReport()), publish)
        return self._run

    def _publish_new(self, events: Iterable[Event], publish: Publish) -> None:
        for event in events:
            about, content = (event["type"], *slot_of(event)), canonical_json(event)
            if self._published.get(about) != content:
                publish(event)
                self._published[about] = content


class HarborPlugin:
    """What harbor calls; it needs nothing of harbor itself. See `harbor.models.job.plugin.JobPlugin`."""

    def __init__(self, **_: Any) -> None:
        self._background: Background | None = None
        self._follower: JobFollower | None = None

    async def on_job_start(self, job: Any) -> None:
        """Ask for START and END of each trial, unless nothing is to be published."""
        try:
            if not is_active(VARIABLE):
                log.warning(INACTIVE)
                return
            self._follower = JobFollower(job.job_dir)
            self._background = await asyncio.to_thread(Background, Harbor.name)
            job.on_trial_started(self._on_start)
            job.on_trial_ended(self._on_end)
        except Exception:
            log.exception("harbor: the plug-in could not begin; the job goes on without it")

    async def on_job_end(self, job_result: Any) -> None:
        """Publish what is left, and wait for that, as long as `Background.close` does."""
        del job_result
        try:
            if self._background is not None and self._follower is not None:
                self._background.hand_over(self._follower.finished)
                await asyncio.to_thread(self._background.close)
        except Exception:
            log.exception("harbor: the plug-in did not end well")

    async def _on_start(self, event: Any) -> None:
        self._hand_over(JobFollower.started, event)

    async def _on_end(self, event: Any) -> None:
        self._hand_over(JobFollower.ended, event)

    def _hand_over(self, work: Callable[[JobFollower, Event, Publish], None], event: Any) -> None:
        """Have an event of harbor published; what it holds is taken now, since harbor goes on filling it."""
        try:
            if self._background is not None and self._follower is not None:
                follower, result = self._follower, event.result.model_dump(mode="json")
                self._background.hand_over(lambda publish: work(follower, result, publish))
        except Exception:
            log.exception("harbor: a trial was not published; the job goes on")
