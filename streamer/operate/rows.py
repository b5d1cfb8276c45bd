"""Runs as rows of plain values, for data sets, frames and other formats."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import orjson

from streamer.client.folded import answers_of
from streamer.client.queries import RunAnswers
from streamer.folding.fold import Folding, fold_records
from streamer.folding.prices import price_table
from streamer.folding.run import Run
from streamer.folding.slots import slot_of_topic_key
from streamer.schemas.base import GroupId, decode_id, sha256_hex
from streamer.schemas.events import BOARD_METRICS, TrialResult
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.schemas.wire import Failure, decode
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of, partitions_of
from streamer.storage.log import read_topic
from streamer.views.decide.compare import pair_standings
from streamer.views.tables import COLUMNS, columns_of

Table = Literal["trials", "agents", "tiers", "runs", "tasks", "comparisons"]

Row: TypeAlias = dict[str, Any]

SAID = ("trial_id", "trial_name", "started_at", "finished_at", "labels", "message", "provenance")

ON_BOARDS = [metric for name, metric in BOARD_METRICS.items() if name not in AgentModelSummary.model_fields]
"""Board metrics nested in a summary; the table of agents has a column for each."""

ENDS = {
    f"pass_rate_{end}": f"{text} end of the pass rate's 95 % interval on tasks like these; null: none."
    for end, text in (("low", "Lower"), ("high", "Upper"))
}

# -----------------------------------------------------------------------------
# The rows of a run.


@dataclass(frozen=True)
class RunRows:
    """The rows of one run in the requested tables.

    `metrics` maps column names to units. `planned` pairs each planned tier (None: no tiers) with
    each task; it is () if the plan names no task.
    """

    run: RunSummary
    rows: Mapping[Table, Sequence[Row]]
    metrics: Mapping[str, str]
    planned: Sequence[tuple[str | None, str]] = ()
    agents: Sequence[str] = ()

    @property
    def version(self) -> str:
        return sha256_hex(orjson.dumps(self.rows, default=str, option=orjson.OPT_SORT_KEYS))


def rows_of(answers: RunAnswers, run: Run | None = None) -> RunRows:
    """All rows of a run; rows of trials need the folded `run`."""
    common = {name: getattr(answers.run, name) for name in ("run_id", "benchmark", "benchmark_version")}
    published: dict[Table, Iterable[Mapping[str, Any]]] = {
        "runs": [answers.run.model_dump()],
        "agents": map(_agent, answers.agents),
        "tiers": [tier.model_dump() for tier in answers.tiers],
        "tasks": _tasks(answers),
        "comparisons": [pair.model_dump() for pair in pair_standings(answers.compared)],
    }
    metrics, planned, agents = dict[str, str](), list[tuple[str | None, str]](), list[str]()
    if run is not None:
        agents = [GroupId(None, *one).agent_model or "" for one in run.state.plan.agent_models()]
        tasks = run.state.plan.get("tasks")
        tiers = run.state.plan.get("tiers") or [None]
        planned = [(tier, task) for tier in tiers for task in tasks] if isinstance(tasks, list) else []
        trials = list(_trials(run))
        reading = answers.run.model_dump(mode="json")["metrics"]
        columns = columns_of(trials, reading)
        metrics = {column.name: column.unit for column in columns[len(COLUMNS) :]}
        published["trials"] = [{c.name: c.of(trial) for c in columns} | trial["said"] for trial in trials]
    return RunRows(
        answers.run,
        {name: [common | dict(row) for row in rows] for name, rows in published.items()},
        metrics,
        planned,
        agents,
    )


def _agent(agent: AgentModelSummary) -> Row:
    fields = agent.model_dump()
    of_rate = fields["statistics"]["pass_rate"]
    ends = {name: of_rate[name.rpartition("_")[2]] for name in ENDS}
    return {metric.name: metric.value(fields) for metric in ON_BOARDS} | ends | fields


def _tasks(answers: RunAnswers) -> Iterator[Row]:
    for key, outcomes in answers.tasks.items():
        *place, task_id = map(decode_id, key.split("|"))
        tier, subtest = (part or None for part in place) if place else (None, None)
        for label, (known, passed, unknown) in outcomes.items():
            counts = {"known": known, "passed": passed, "unknown": unknown}
            yield {"tier": tier, "subtest": subtest, "task_id": task_id, "agent_model": label} | counts


def _trials(run: Run) -> Iterator[Row]:
    state = run.state
    for change in sorted(run.take_scored(), key=lambda change: change.key):
        if change.value is not None:
            trial: Row = orjson.loads(change.value)
            event = decode(state.slots[slot_of_topic_key(change.key)[1]].raw)
            assert isinstance(event, TrialResult), "a slot holds only results"
            said = {name: getattr(event, name) for name in SAID}
            yield trial | {"said": said | {"baseline": state.scores.is_baseline(trial["agent"])}}


def rows_in_log(
    settings: Settings, run_ids: Iterable[str], on_failed: Callable[[Failure], None]
) -> Iterator[RunRows]:
    """The rows of these runs, by folding the log with one partition in memory; unknown runs are left out."""
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


def units_of(metrics: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Units of several runs' named metrics, by name; "" if runs disagree.

    >>> units_of([{"metrics/b": "s"}, {"metrics/a": "s", "metrics/b": "ms"}])
    {'metrics/a': 's', 'metrics/b': ''}
    """
    units: dict[str, set[str]] = {}
    for one in metrics:
        for name, unit in one.items():
            units.setdefault(name, set()).add(unit)
    return {name: of.pop() if len(of) == 1 else "" for name, of in sorted(units.items())}


# -----------------------------------------------------------------------------
# Files that are named by ids, in a directory that must be ours.


MOST_NAME_CHARACTERS = 120

_RESERVED = re.compile(r"[._].*|.*[. ]|data|(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)

_CUT = 40

MARKER = ".streamer-export"


class NotOurs(Exception):
    def __init__(self, out: Path) -> None:
        super().__init__(
            f"{out} holds files that are not a streamer export. Name an empty or new directory, or an "
            "earlier export"
        )


def claim(out: Path) -> None:
    """Create a directory if needed, and mark it as ours. Raises NotOurs if it holds anything else."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / MARKER).exists():
        if any(out.iterdir()):
            raise NotOurs(out)
        (out / MARKER).touch()


def file_name(text: str) -> str:
    """A portable file name for an id; different ids have different names.

    Long and reserved ids end in `~` and their digest, and no other name has a `~`.

    >>> file_name("a/b c"), file_name("nightly-1.2"), file_name("..")[:2], len(file_name("x" * 500))
    ('a%2Fb%20c', 'nightly-1.2', '~5', 105)
    """
    encoded = quote(text, safe="").replace("~", "%7E")
    if len(encoded) <= MOST_NAME_CHARACTERS and not _RESERVED.fullmatch(encoded):
        return encoded
    start = re.sub(r"%[0-9A-F]?$", "", encoded[:_CUT]).lstrip("._")
    return f"{start}~{sha256_hex(text.encode())}"
