"""The columns of a leaderboard that pools runs, on every surface."""

from __future__ import annotations

from streamer.views.columns import Board, Column

POOLED = Board(
    "Leaderboard of a benchmark",
    (
        Column("agent", "agent:model", "agent", ("agent_model",)),
        Column("order", "order", "count", ("order",), on=("text",)),
        Column("rank", "place", "number", ("rank",), hint="Where it may truly stand, with 95 %"),
        Column("value", "value", "number", ("value",)),
        Column("interval", "95 %", "number", ("interval",), on=("text",)),
        Column("trials", "trials", "count", ("trials",)),
        Column("tasks", "tasks", "count", ("tasks",)),
        Column("unknown", "unknown", "some", ("unknown",), hint="Trials without a final value"),
        Column("runs", "runs", "count", ("runs",), hint="Finished runs that are pooled"),
        Column("newest", "newest run", "name", ("newest",)),
        Column("trend", "run by run", "state", ("trend",), hint="Finished runs, the oldest first"),
        Column("change", "change", "state", ("change",), hint="The newest run against the one before"),
        Column("why", "left out", "state", ("why",), on=("text",)),
    ),
)
