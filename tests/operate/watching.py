"""Decisions of a watch over a run, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from streamer.operate.notice_rules import Decider, Notification, Rules
from tests.support.builders import a_run_change, an_agent_model_change

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


MINUTE = timedelta(minutes=1)


RULES = Rules(budget_usd=10.0, stalled_after=10 * MINUTE, rejections_per_minute=3)


def run(version: int = 0, **fields: Any) -> dict[str, Any]:
    return a_run_change("r", version=version, **fields).summary or {}


def agent(grade: str | None, version: int = 0, name: str = "a", **fields: Any) -> dict[str, Any]:
    change = an_agent_model_change(
        "r", name, "m", version=version, means={"composite_score": 0.5}, grade=grade, **fields
    )
    return change.summary or {}


class Watching:
    """A decider of one run, and its memory as it would be written down."""

    def __init__(self, *, new: bool = True, remembered: dict[str, str] | None = None) -> None:
        self.decider = Decider(RULES)
        self.written: dict[str, str] = dict(remembered or {})
        self.decider.begin("r", self.written, new=new)

    def take(self, *summaries: dict[str, Any], at: datetime = NOW) -> list[str]:
        """Keys of the notices that these give reason to, each delivered at once."""
        notices = [notice for summary in summaries for notice in self.decider.take(summary, at)]
        return [notice.key for notice in self.deliver(notices)]

    def tick(self, at: datetime) -> list[str]:
        return [notice.key for notice in self.deliver(self.decider.tick(at))]

    def again(self) -> Watching:
        """Another process, later."""
        return Watching(new=False, remembered=self.written)

    def deliver(self, notices: list[Notification]) -> list[Notification]:
        self.written |= self.decider.changed("r")
        for notice in notices:
            self.written[notice.key] = "told"
            self.decider.delivered(notice)
        return notices
