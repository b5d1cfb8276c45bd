"""Runs as Arrow tables: one table for each question, with the same columns for every run.

    trials       one row a scored trial, with its times, labels, message and provenance
    agents       one row an agent:model, tiers one row a tier, runs one row a run, as published
    tasks        one row a task and agent:model: trials known, passed, unknown
    comparisons  one row for every two agents of a run

A run is named by its id, or by a file of events. Numbers that are published are read from Redis. Trials, and
runs as of an earlier position, are folded again from the event log.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import orjson
import pyarrow as pa
from pydantic import BaseModel

from streamer.client.folded import answers_of, fold_run
from streamer.client.queries import OF_COMPARISON, OF_SNAPSHOT, RunAnswers
from streamer.client.readers import StateReader
from streamer.folding.fold import Folding, fold_records
from streamer.folding.prices import price_table
from streamer.folding.run import Run
from streamer.folding.slots import slot_of_topic_key
from streamer.schemas.base import decode_id
from streamer.schemas.events import BOARD_METRICS, TrialResult
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.schemas.wire import Failure, Position, decode, records_of_lines, sha256_hex
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of, partitions_of
from streamer.storage.log import read_topic
from streamer.views.compare import PairStanding, pair_standings
from streamer.views.tables import COLUMNS, TrialColumn, columns_of

Table = Literal["trials", "agents", "tiers", "runs", "tasks", "comparisons"]

Row: TypeAlias = dict[str, Any]

# -----------------------------------------------------------------------------
# The types of the columns, from the models that declare them; what is described there stands in the metadata.


TEXT, TIME = pa.string(), pa.timestamp("us", tz="UTC")

_SCALARS = {str: TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: TIME}
_KINDS = {"text": TEXT, "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "time": TIME}


def arrow_type(annotation: Any) -> pa.DataType:
    """The Arrow type of a field; a number that is text where it is not finite (R14) is a double.

    >>> arrow_type(dict[str, float | None])
    MapType(map<string, double>)

    Raises:
        TypeError: there is none.
    """
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind in (Union, types.UnionType):
        some = [arrow_type(part) for part in parts if part is not types.NoneType]
        return pa.float64() if pa.float64() in some else some[0]
    if kind is Literal:
        return TEXT
    if kind is dict:
        return pa.map_(TEXT, arrow_type(parts[1]))
    if kind in (list, tuple):
        return pa.list_(arrow_type(parts[0]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return pa.struct(_fields(annotation))
    if isinstance(annotation, type) and issubclass(annotation, str):
        return TEXT
    raise TypeError(f"{annotation!r} has no Arrow type: add one to arrow_type")


def _fields(model: type[BaseModel]) -> list[pa.Field]:
    hints = get_type_hints(model)
    return [
        pa.field(name, arrow_type(hints[name]), metadata={"description": of.description or ""})
        for name, of in model.model_fields.items()
    ]


def _fitted(value: Any, of: pa.DataType) -> Any:
    """A value of a model as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_map(of):
        return [(key, _fitted(part, of.item_type)) for key, part in value.items()]
    if pa.types.is_struct(of):
        return {field.name: _fitted(value.get(field.name), field.type) for field in of}
    if pa.types.is_list(of):
        return [_fitted(part, of.value_type) for part in value]
    if pa.types.is_timestamp(of) and isinstance(value, str):
        return datetime.fromisoformat(value)
    return float(value) if pa.types.is_floating(of) else value


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table; a field that a row lacks is null."""
    columns = [pa.array([_fitted(row.get(f.name), f.type) for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


# -----------------------------------------------------------------------------
# The columns of each table.


def _described(name: str, of: pa.DataType, description: str, unit: str = "") -> pa.Field:
    return pa.field(name, of, metadata={"description": description, "unit": unit})


RUN_ID = _described("run_id", TEXT, "The run.")
BENCHMARK = _described("benchmark", TEXT, "The run's benchmark; null: the plan names none.")
VERSION = _described("benchmark_version", TEXT, "Its version; null: the plan names none.")

_TASK = [
    _described("tier", TEXT, "Prompt tier of the task; null without tiers."),
    _described("subtest", TEXT, "Subtest; null without one."),
    _described("task_id", TEXT, "The task."),
    _described("agent_model", TEXT, "Label agent:model."),
    _described("known", pa.int64(), "Trials with a final value (inference 3)."),
    _described("passed", pa.int64(), "Known trials that passed."),
    _described("unknown", pa.int64(), "Planned trials without a final value."),
]

SAID = ("trial_id", "trial_name", "started_at", "finished_at", "labels", "message", "provenance")
"""Fields of the winning event that a scored trial lacks."""

_ON_BOARDS = [metric for name, metric in BOARD_METRICS.items() if name not in AgentModelSummary.model_fields]
"""Numbers of boards that stand deeper in a summary; in the table of agents each is a column, too."""

_ENDS = {
    f"pass_rate_{end}": f"{text} end of the pass rate's 95 % interval on tasks like these; null: none."
    for end, text in (("low", "Lower"), ("high", "Upper"))
}

_MODELS: dict[Table, type[BaseModel]] = {
    "agents": AgentModelSummary,
    "tiers": TierSummary,
    "runs": RunSummary,
    "comparisons": PairStanding,
}


@cache
def _schema(table: Table) -> pa.Schema:
    """The columns of a table; of trials without named metrics."""
    own = {"run_id", "benchmark", "benchmark_version"}
    if table == "trials":
        event, measured = get_type_hints(TrialResult), [_measured(c) for c in COLUMNS if c.name not in own]
        said = [
            _described(name, arrow_type(event[name]), str(TrialResult.model_fields[name].description))
            for name in SAID
        ]
        baseline = _described("baseline", pa.bool_(), "The agent is a baseline (R4).")
        columns = [*measured, baseline, *said]
    elif table == "tasks":
        columns = _TASK
    else:
        columns = [field for field in _fields(_MODELS[table]) if field.name not in own]
    if table == "agents":
        leading = [_described(of.name, pa.float64(), of.description, of.unit) for of in _ON_BOARDS]
        leading += [_described(name, pa.float64(), description, "1") for name, description in _ENDS.items()]
        columns = [*leading, *columns]
    return pa.schema([RUN_ID, BENCHMARK, VERSION, *columns])


def schema_of(table: Table, metrics: Mapping[str, str] | None = None) -> pa.Schema:
    """The columns of a table, with types, descriptions and units.

    Args:
        metrics: named metrics to their units; of trials each is a column `metrics/NAME` (R30).
    """
    named = [TrialColumn(name, "number", unit, ("metrics", name)) for name, unit in (metrics or {}).items()]
    schema = _schema(table)
    for column in named if table == "trials" else ():
        schema = schema.append(_measured(column))
    return schema


def _measured(column: TrialColumn) -> pa.Field:
    return _described(column.name, _KINDS[column.kind], column.description, column.unit)


# -----------------------------------------------------------------------------
# The rows of a run.


@dataclass(frozen=True)
class RunRows:
    """The rows of one run in every table that was asked for.

    Attributes:
        run: its summary.
        rows: by table.
        metrics: named metrics of its trials to their units, by column name.
    """

    run: RunSummary
    rows: Mapping[Table, Sequence[Row]]
    metrics: Mapping[str, str]

    @property
    def version(self) -> str:
        """Other rows have another one."""
        return sha256_hex(orjson.dumps(self.rows, default=str, option=orjson.OPT_SORT_KEYS))


def rows_of(answers: RunAnswers, run: Run | None = None) -> RunRows:
    """All rows of a run.

    Args:
        answers: its summaries, tasks and trials in flight.
        run: the run folded; None: there are no rows of trials.
    """
    common = {name: getattr(answers.run, name) for name in ("run_id", "benchmark", "benchmark_version")}
    published: dict[Table, Iterable[Mapping[str, Any]]] = {
        "runs": [answers.run.model_dump()],
        "agents": map(_agent, answers.agents),
        "tiers": [tier.model_dump() for tier in answers.tiers],
        "tasks": _tasks(answers),
        "comparisons": [pair.model_dump() for pair in pair_standings(answers.compared)],
    }
    metrics: dict[str, str] = {}
    if run is not None:
        trials = list(_trials(run))
        planned = answers.run.model_dump(mode="json")["metrics"]
        columns = columns_of(trials, planned)
        metrics = {column.name: column.unit for column in columns[len(COLUMNS) :]}
        published["trials"] = [{c.name: c.of(trial) for c in columns} | trial["said"] for trial in trials]
    return RunRows(
        answers.run, {name: [common | dict(row) for row in rows] for name, rows in published.items()}, metrics
    )


def _agent(agent: AgentModelSummary) -> Row:
    fields = agent.model_dump()
    of_rate = fields["statistics"]["pass_rate"]
    ends = {name: of_rate[name.rpartition("_")[2]] for name in _ENDS}
    return {metric.name: metric.value(fields) for metric in _ON_BOARDS} | ends | fields


def _tasks(answers: RunAnswers) -> Iterator[Row]:
    for key, outcomes in answers.tasks.items():
        *place, task_id = map(decode_id, key.split("|"))
        tier, subtest = (part or None for part in place) if place else (None, None)
        for label, (known, passed, unknown) in outcomes.items():
            counts = {"known": known, "passed": passed, "unknown": unknown}
            yield {"tier": tier, "subtest": subtest, "task_id": task_id, "agent_model": label} | counts


def _trials(run: Run) -> Iterator[Row]:
    """The scored trials by key; `said` is the rest of the event, and whether the agent is a baseline."""
    state = run.state
    for change in sorted(run.take_scored(), key=lambda change: change.key):
        if change.value is not None:
            trial: Row = orjson.loads(change.value)
            event = decode(state.slots[slot_of_topic_key(change.key)[1]].raw)
            assert isinstance(event, TrialResult), "a slot holds results alone"
            said = {name: getattr(event, name) for name in SAID}
            yield trial | {"said": said | {"baseline": state.scores.is_baseline(trial["agent"])}}


def rows_in_log(
    settings: Settings, run_ids: Iterable[str], on_failed: Callable[[Failure], None]
) -> Iterator[RunRows]:
    """The rows of these runs, folded from the event log; a run that is not there has none.

    One partition is in memory at a time.

    Args:
        on_failed: called with each run that an exception sets apart.

    Raises:
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.storage.log`.
    """
    topic = Names(settings.namespace).trial_events
    count = len(asyncio.run(partitions_of(settings, topic)))
    by_partition: dict[int, set[str]] = {}
    for run_id in run_ids:
        by_partition.setdefault(partition_of(run_id, count), set()).add(run_id)
    prices = price_table(settings.prices_file)
    for partition, mine in sorted(by_partition.items()):
        records = read_topic(settings, topic, [partition])
        yield from rows_folded(fold_records(records, prices=prices, owns=mine.__contains__), on_failed)


def rows_folded(folding: Folding, on_failed: Callable[[Failure], None]) -> Iterator[RunRows]:
    """The rows of every run of a fold; `on_failed` as of `rows_in_log`."""
    for run_id in folding.runs():
        try:
            run = folding.pipeline.run(run_id)
            rows = rows_of(answers_of(run), run)
        except Exception as error:
            folding.pipeline.fail(run_id, error)
        else:
            yield rows
    for failure in folding.failed:
        on_failed(failure)


def tables_of(runs: Iterable[RunRows], *tables: Table) -> dict[Table, pa.Table]:
    """The tables of these runs; a named metric that a run lacks is null in its rows."""
    every = list(runs)
    metrics = dict(sorted(chain.from_iterable(run.metrics.items() for run in every)))
    return {
        name: table_of([row for run in every for row in run.rows[name]], schema_of(name, metrics))
        for name in tables
    }


# -----------------------------------------------------------------------------
# The same for people who ask from a notebook.


@dataclass(frozen=True)
class Frame:
    """A table that pandas, polars, DuckDB and pyarrow take as it is.

    Attributes:
        arrow: the table; each column has its description and unit in its metadata.
    """

    arrow: pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What polars and DuckDB read a table by."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; ModuleNotFoundError without pandas."""
        return self.arrow.to_pandas(maps_as_pydicts="strict")

    def to_polars(self) -> Any:
        """A polars DataFrame; ModuleNotFoundError without polars."""
        import polars

        return polars.from_arrow(self.arrow)


def trials(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """The scored trials of these runs, folded from the event log; one row a trial, by run and slot.

    Args:
        runs: ids of runs, or paths of files of events (a `Path`, not a string).
        as_of: an offset or a time: nothing after it counts; None: everything. Not for files.
        settings: where the broker and Redis are; None: as every command finds them.

    Raises:
        NotInLog, NothingYet, CannotBeFolded, BadPosition and others: see `fold_run`.
        NoSuchRun: a file holds no run, or several.
    """
    return _frame("trials", runs, as_of, settings)


def agents(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """The agent:models of these runs, baselines too, as published. Arguments and errors as of `trials`.

    Runs by their ids are read from Redis: UnknownRun, RedisUnavailable.
    """
    return _frame("agents", runs, as_of, settings)


def tiers(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """The tiers of these runs, and the agents within them. Arguments and errors as of `agents`."""
    return _frame("tiers", runs, as_of, settings)


def runs(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """The runs themselves. Arguments and errors as of `agents`."""
    return _frame("runs", runs, as_of, settings)


def tasks(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """Each agent at each task: trials known, passed, unknown. Arguments and errors as of `agents`."""
    return _frame("tasks", runs, as_of, settings)


def comparisons(*runs: str | Path, as_of: str | None = None, settings: Settings | None = None) -> Frame:
    """Every two agents of each run compared (inference 7). Arguments and errors as of `agents`."""
    return _frame("comparisons", runs, as_of, settings)


def _frame(table: Table, named: Sequence[str | Path], as_of: str | None, settings: Settings | None) -> Frame:
    settings = settings or Settings()
    if not named:
        raise ValueError(
            f"frames.{table}() has no run to show: name one or more, as frames.{table}('nightly')"
        )
    position = None if as_of is None else Position.of(as_of)
    rows = [_rows(run, table, position, settings) for run in named]
    return Frame(tables_of(rows, table)[table])


def _rows(named: str | Path, table: Table, as_of: Position | None, settings: Settings) -> RunRows:
    if isinstance(named, str) and as_of is None and table != "trials":
        with StateReader(settings) as reader:
            return rows_of(reader.answers(named, *OF_SNAPSHOT, *OF_COMPARISON))
    prices = price_table(settings.prices_file)
    if isinstance(named, str):
        folded = fold_run(settings, named, prices, as_of)
        return rows_of(folded.answers, folded.run)
    with named.open("rb") as lines:
        folding = fold_records(records_of_lines(lines, str(named)), prices=prices)
    run = folding.pipeline.run(folding.chosen(None))
    return rows_of(answers_of(run), run)
