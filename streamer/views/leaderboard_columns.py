"""The columns of a leaderboard that pools runs, on every surface."""

from __future__ import annotations

from streamer.views.columns import Board, Column

POOLED = Board(
    "Leaderboard of a benchmark",
    (
        Column("agent", "agent:model", "agent", ("agent_model",)),
        Column("order", "order", "count", ("order",), hint="By the value; equal values share a number"),
        Column("rank", "place", "number", ("rank",), hint="Where it may truly stand, with 95 %"),
        Column("value", "value", "number", ("value",)),
        Column("interval", "95 %", "number", ("interval",), hint="On tasks like these, clustered by task"),
        Column("trials", "trials", "count", ("trials",)),
        Column("tasks", "tasks", "count", ("tasks",)),
        Column("unknown", "unknown", "some", ("unknown",), hint="Trials without a final value"),
        Column("runs", "runs", "name", ("runs",), hint="The newest first"),
        Column("trend", "run by run", "state", ("trend",), hint="Finished runs, the oldest first"),
        Column("change", "latest run against the one before", "state", ("change",)),
        Column("why", "left out", "state", ("why",), hint="Why the run is not pooled"),
    ),
)
