"""The columns of the table of newest rejections. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from streamer.text import visible
from streamer.views.formatting import age
from streamer.watch.columns import BoardColumn

if TYPE_CHECKING:
    from streamer.ops.rejections import StoredRejection


def rejection_columns(head: str, nameless: int, now: datetime) -> list[BoardColumn[StoredRejection]]:
    """The columns of the newest rejections.

    Args:
        head: of the first column: what the table is, or what is wrong with it.
        nameless: how many rejections name no run.
        now: what ages count from.
    """
    wrong = f"what is wrong ({nameless:,} more name no run)" if nameless else "what is wrong"
    return [
        BoardColumn("code", head, lambda r: visible(r.message.code), 0, least=16, left=True),
        BoardColumn("at", "when", lambda r: age(_rejected_at(r, now), now), 2),
        BoardColumn(
            "message", wrong, lambda r: visible(r.message.message), 0, least=20, left=True, prose=True
        ),
    ]


def _rejected_at(rejected: StoredRejection, now: datetime) -> datetime:
    return datetime.fromtimestamp(rejected.timestamp_ms / 1000, now.tzinfo)
