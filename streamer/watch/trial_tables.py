"""The columns of the tables of newest trials and newest rejections. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from streamer.text import UNSEEN, dollars, ratio, shown, visible
from streamer.views.formatting import age, span
from streamer.views.models import TrialRow
from streamer.watch.boards import BAD, FAIR, GOOD, NAME_LEAST, grade_style
from streamer.watch.columns import BoardColumn

if TYPE_CHECKING:
    from streamer.ops.rejections import StoredRejection

NO_FAILURE = (None, "none", "unset")
"""Failure modes by which harnesses say that there was none."""

_OUTCOMES = {
    "passed": ("passed", GOOD),
    "failed": ("failed", BAD),
    "fell_back": ("fell back", FAIR),
    "no_verdict": ("no verdict", FAIR),
}


def trial_columns(trials: Sequence[TrialRow], head: str) -> list[BoardColumn[TrialRow]]:
    """The columns of the newest trials.

    Args:
        trials: those that are shown.
        head: of the first column: what the table is, or what is wrong with it.
    """
    again = any(trial.attempt > 1 for trial in trials)
    return [
        BoardColumn("task", head, _task, 0, least=NAME_LEAST, left=True),
        *([BoardColumn("attempt", "try", lambda trial: shown(trial.attempt), 4)] if again else []),
        BoardColumn("tier", "tier", _tier, 5, least=8, left=True),
        BoardColumn("agent", "agent:model", lambda trial: visible(trial.agent_model), 2, least=18, left=True),
        BoardColumn(
            "outcome",
            "outcome",
            lambda trial: _OUTCOMES[trial.outcome][0],
            rank=1,
            left=True,
            style=lambda trial: _OUTCOMES[trial.outcome][1],
        ),
        BoardColumn("speedup", "speedup", lambda trial: ratio(trial.task_speedup), 6),
        BoardColumn("advantage", "advantage", lambda trial: ratio(trial.agent_advantage), 8),
        BoardColumn("composite", "composite", lambda trial: shown(trial.composite_score), 9),
        BoardColumn(
            "grade",
            "grade",
            lambda trial: trial.grade or UNSEEN,
            rank=10,
            left=True,
            style=lambda trial: grade_style(trial.grade),
        ),
        BoardColumn("cost", "cost", lambda trial: dollars(trial.cost_usd), 3),
        BoardColumn("duration", "duration", lambda trial: span(trial.duration_seconds), 7),
        BoardColumn("failure", "failure mode", _failure, 11, least=12, left=True),
    ]


def rejection_columns(head: str, nameless: int, now: datetime) -> list[BoardColumn[StoredRejection]]:
    """The columns of the newest rejections.

    Args:
        head: of the first column: what the table is, or what is wrong with it.
        nameless: how many rejections name no run.
        now: what ages count from.
    """
    wrong = f"what is wrong ({nameless:,} more name no run)" if nameless else "what is wrong"
    return [
        BoardColumn("code", head, lambda r: visible(r.message.code), 0, least=NAME_LEAST, left=True),
        BoardColumn("at", "when", lambda r: age(_rejected_at(r, now), now), 2),
        BoardColumn(
            "message", wrong, lambda r: visible(r.message.message), 0, least=20, left=True, prose=True
        ),
    ]


def _task(trial: TrialRow) -> str:
    return visible(f"{trial.shard}: {trial.task_id}" if trial.shard else trial.task_id)


def _failure(trial: TrialRow) -> str:
    return UNSEEN if trial.failure_mode in NO_FAILURE else visible(trial.failure_mode)


def _tier(trial: TrialRow) -> str:
    return visible("/".join(part for part in (trial.tier, trial.subtest) if part)) if trial.tier else UNSEEN


def _rejected_at(rejected: StoredRejection, now: datetime) -> datetime:
    return datetime.fromtimestamp(rejected.timestamp_ms / 1000, now.tzinfo)
