"""The learning curves of the runs that people look at: worked out from the log when somebody asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pydantic import Field

from streamer.aggregate.curves import POINTS, curves
from streamer.aggregate.run_state import RunState
from streamer.client.folded_run import fold_run
from streamer.schemas.base import Instant, Message, Number
from streamer.schemas.uncertainty import ShareRange
from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.views.models import HistoryPoint, Label, described
from streamer.web.folds import Folds

MAX_CURVES = 16
"""Runs whose curves are kept."""

REST = 8
"""Curves that took a second to work out are not worked out again for so many seconds."""


class CurvePoint(Message):
    """What a board said once so many trials had ended. Unknown values are null."""

    at: Instant | None = Field(description="When the last of them ended; null: no time is known up to there.")
    trials: int = Field(ge=0, description="Trials that had ended.")
    accuracy: Number | None = described(HistoryPoint, "accuracy")
    pass_rate: Number | None = described(HistoryPoint, "pass_rate")
    composite_score: Number | None = described(HistoryPoint, "composite_score")
    total_cost: Number | None = described(HistoryPoint, "total_cost")
    mean_cost: Number | None = Field(description="Mean of the known costs in USD.")
    cost_of_pass: Number | None = described(HistoryPoint, "cost_of_pass")
    mean_speedup: Number | None = described(HistoryPoint, "mean_speedup")
    agent_advantage: Number | None = described(HistoryPoint, "agent_advantage")
    metrics: dict[str, Number | None] = described(HistoryPoint, "metrics")
    final: ShareRange | None = Field(
        description="Interval of the final pass rate at that moment (inference 5); null: none, or not here."
    )


class Curve(Message):
    """One line of the chart."""

    agent_model: Label | None = Field(description="Null for a tier.")
    tier: str | None = Field(description="Null for an agent:model over the run.")
    points: list[CurvePoint] = Field(description="Oldest first, in the order in which the trials ended.")


class RunCurves(Message):
    """The learning curves of a run, by the trials' own times."""

    state_version: int = Field(description="Of the run when they were worked out.")
    curves: list[Curve] = Field(description="Of each agent:model, and of each tier pooled over agents.")


def run_curves(run: RunState, state_version: int) -> RunCurves:
    """The learning curves of a folded run.

    Args:
        run: its state.
        state_version: what the answer says of it.
    """
    return RunCurves.model_validate({"state_version": state_version, "curves": curves(run, POINTS)})


class _Held(NamedTuple):
    """The curves of a run as they were worked out for this version, and until when they are not again."""

    curves: RunCurves
    version: tuple[int, int]
    until: float


class CurveCache:
    """The curves of the runs that people look at; a run is folded again when it has changed, and not at once.

    Args:
        settings: where the log is.
        prices: price table (R2).
        folds: where a run is folded.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        settings: Settings,
        prices: PriceTable,
        folds: Folds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._prices, self._folds, self._clock = settings, prices, folds, clock
        self._held: dict[str, _Held] = {}

    async def curves(self, run_id: str, version: tuple[int, int]) -> RunCurves:
        """The curves of a run, of this version or of one that was current a moment ago.

        Raises:
            NotInLog: the event topic holds nothing of the run.
            TooManyFolds: too many questions wait already; never where curves are held that may be given.
            CannotBeFolded, TopicMissing, TopicUnreadable, KafkaError: as `fold_run`.
        """
        held = self._held.get(run_id)
        if held is None or (held.version != version and self._clock() >= held.until):
            held = await self._folds.answer(("curves", run_id), partial(self._work_out, run_id, version))
        self._held.pop(run_id, None)
        self._held[run_id] = held
        while len(self._held) > MAX_CURVES:
            del self._held[next(iter(self._held))]
        return held.curves

    def _work_out(self, run_id: str, version: tuple[int, int]) -> _Held:
        began = self._clock()
        held = run_curves(fold_run(self._settings, run_id, self._prices).run.state, version[1])
        now = self._clock()
        return _Held(held, version, now + REST * (now - began))
