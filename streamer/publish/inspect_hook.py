"""The hook that inspect_ai loads (entry point group `inspect_ai`): results as they come, without the log.

The only module that needs inspect_ai. It does nothing unless STREAMER_INSPECT=1 is set or a stack runs on
this machine; STREAMER_INSPECT=0 turns it off. `streamer.sources.inspect_events` says what is in an event.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from inspect_ai.hooks import Hooks, RunEnd, SampleEnd, SampleStart, TaskEnd, TaskStart, hooks

from streamer.publish.inspect_activity import Activity

if TYPE_CHECKING:
    from streamer.publish.inspect_publishing import InspectPublishing

SPEC = {
    **dict.fromkeys(("task", "task_id", "task_version", "created", "solver", "model"), True),
    "dataset": {"sample_ids", "shuffled"},
    "config": {"epochs", "max_samples"},
    "scorers": {"__all__": {"name", "metrics"}},
}
"""What is read of an eval's specification. Its arguments, which may hold secrets, are not."""

SAMPLE = {
    **dict.fromkeys(("id", "epoch", "uuid", "model_usage", "total_time", "started_at", "completed_at"), True),
    "scores": {"__all__": {"value"}},
    "error": {"message"},
    "limit": {"type"},
}
"""What is read of a sample: no transcript, no input, no answer."""

BEGINNING = {"id": True, "epoch": True, "started_at": True}
"""What is read of the summary of a sample that begins."""


@hooks(name="streamer", description="Publishes the results of evals to streamer.")
class StreamerHooks(Hooks):  # type: ignore[misc]
    """One for the process; inspect_ai makes it when it loads the module."""

    def __init__(self) -> None:
        self._activity = Activity()
        self._opening = threading.Lock()
        self._publishing: InspectPublishing | None = None

    def enabled(self) -> bool:
        """Whether to call the hook at all; asked before each call."""
        return self._activity.is_on()

    async def on_task_start(self, data: TaskStart) -> None:
        publishing: InspectPublishing = await to_thread.run_sync(self._opened)
        publishing.task_started(data.eval_id, _json(data.spec, SPEC), _json(data.plan, {"steps": True}))

    async def on_sample_start(self, data: SampleStart) -> None:
        if self._publishing:
            self._publishing.sample_started(data.eval_id, _json(data.summary, BEGINNING))

    async def on_sample_end(self, data: SampleEnd) -> None:
        if self._publishing:
            self._publishing.sample_ended(data.eval_id, _json(data.sample, SAMPLE))

    async def on_task_end(self, data: TaskEnd) -> None:
        self._ended(data.eval_id, data.log)

    async def on_run_end(self, data: RunEnd) -> None:
        """The end of evals that an error or a Ctrl-C stopped, of which `on_task_end` is not told."""
        for log in data.logs:
            self._ended(log.eval.eval_id, log)

    def _ended(self, eval_id: str, log: Any) -> None:
        if self._publishing:
            self._publishing.task_ended(eval_id, log.status, _json(log.stats, {"completed_at": True}))

    def _opened(self) -> InspectPublishing:
        """Make the publisher, once: it reads settings and imports a good deal, so not in the event loop."""
        with self._opening:
            if self._publishing is None:
                from streamer.publish.inspect_publishing import InspectPublishing

                self._publishing = InspectPublishing()
            return self._publishing


def _json(record: Any, include: dict[str, Any]) -> dict[str, Any]:
    """The named fields of one of inspect_ai's records, as its logs have them."""
    found: dict[str, Any] = record.model_dump(mode="json", include=include, exclude_none=True)
    return found
