"""A data set of runs: Parquet files for DuckDB, polars, pandas and Arrow, kept up to date run by run.

    OUT/current            the newest generation; a link, so that one rename replaces everything
    OUT/views.sql          a view for each table: `cd OUT && duckdb -init views.sql`
    current/manifest.json  what each run was when it was written
    current/TABLE/none.parquet  no rows, so that a table without runs has columns, too
    current/TABLE/BENCHMARK/RUN/rows.parquet  the rows of one run, which name both in their columns

A generation is written beside the current one: files of runs that have not changed are linked into it. A
reader sees the old generation or the new one, whenever the writer is killed. The one before the current one
stays until the next export, for readers that are at it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from streamer.operate.frames import schema_of, table_of
from streamer.operate.rows import RunRows, Table
from streamer.schemas.base import SEMANTICS_VERSION, encode_id

TABLES: tuple[Table, ...] = get_args(Table)

FORMAT = 1
"""Version of the layout; a data set of another one is written again."""

MOST_NAME_BYTES = 200
"""Names of directories may have 255 bytes; of a longer id only the beginning stands, and its digest."""

NO_BENCHMARK = "none"
"""Directory of the runs whose plan names no benchmark; their rows have null."""

_HIDDEN = {".": "%2E", "_": "%5F"}
"""Readers pass over names that begin so."""


class NotADataSet(Exception):
    """The directory holds something else, which an export must not touch."""

    def __init__(self, out: Path) -> None:
        super().__init__(
            f"{out} holds files, but no data set of streamer. Name an empty or a new directory, or one that "
            "an earlier export wrote"
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What the manifest says of one run.

    Attributes:
        version: what the run was when it was written: equal versions are equal rows.
        benchmark: of the run.
        metrics: named metrics of its trials to their units, by column name.
    """

    version: str
    benchmark: str | None
    metrics: dict[str, str]


@dataclass(slots=True)
class Exported:
    """What an export did: run ids."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def export(
    out: Path,
    versions: Mapping[str, str],
    rows: Callable[[list[str]], Iterable[RunRows]],
    *,
    chosen: str = "*",
) -> Exported:
    """Bring a data set up to date.

    Args:
        out: its directory; made if it is not there.
        versions: run id to a text that is another one whenever the rows of the run may be.
        rows: gives the rows of the runs that changed, one run at a time.
        chosen: a pattern of run ids, as `nightly-*`; the others stay as they are.

    Raises:
        NotADataSet: the directory holds something else.
        OSError: it cannot be written; the data set is as it was.
    """
    with _locked(out):
        before, old = _manifest(out)
        mine = {run: version for run, version in versions.items() if fnmatchcase(run, chosen)}
        stale = [run for run in before if fnmatchcase(run, chosen) and run not in mine]
        kept = {
            run: of
            for run, of in before.items()
            if run not in stale and mine.get(run, of.version) == of.version
        }
        due = sorted(mine.keys() - kept.keys())
        if before and old and not due and not stale:
            return Exported(kept=sorted(kept))
        new = out / f".generation-{_number(old) + 1}"
        shutil.rmtree(new, ignore_errors=True)  # of an export that was killed
        written = {}
        for run in rows(due):
            written[run.run.run_id] = _write(new, run, mine[run.run.run_id])
        every = kept | written
        metrics = dict(sorted(pair for of in every.values() for pair in of.metrics.items()))
        for run_id, of in every.items():
            _carry(old if run_id in kept else new, new, run_id, of, metrics)
        for table in TABLES:
            pq.write_table(table_of([], schema_of(table, metrics)), _made(new / table / "none.parquet"))
        _publish(out, new, every)
        removed = sorted(before.keys() - every.keys())
        return Exported(sorted(written), sorted(kept), removed)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """One export at a time; a second one waits."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / ".lock").exists():
        raise NotADataSet(out)
    with FileLock(out / ".lock"):
        yield


def _manifest(out: Path) -> tuple[dict[str, Written], Path | None]:
    """What the current generation holds, and where it is; ({}, None) without one of this format."""
    try:
        old = (out / "current").resolve(strict=True)
        content = json.loads((old / "manifest.json").read_bytes())
    except FileNotFoundError:
        return {}, None
    if (content["format"], content["semantics_version"]) != (FORMAT, SEMANTICS_VERSION):
        return {}, old
    return {run: Written(**of) for run, of in content["runs"].items()}, old


def _number(generation: Path | None) -> int:
    return int(generation.name.rpartition("-")[2]) if generation else 0


def place_of(table: Table, run_id: str, benchmark: str | None) -> Path:
    """Where the rows of a run stand within a generation; ids are percent-encoded.

    >>> print(place_of("runs", "a/b", None), place_of("runs", "_r", "swe"))
    runs/none/a%2Fb/rows.parquet runs/swe/%5Fr/rows.parquet
    """
    return Path(table, NO_BENCHMARK if benchmark is None else _name(benchmark), _name(run_id), "rows.parquet")


def _name(value: str) -> str:
    encoded = encode_id(value)
    encoded = _HIDDEN.get(encoded[:1], encoded[:1]) + encoded[1:]
    if len(encoded.encode()) <= MOST_NAME_BYTES:
        return encoded
    return f"{encoded[:30]}-{sha256(value.encode()).hexdigest()}"


def _write(new: Path, run: RunRows, version: str) -> Written:
    of = Written(version, run.run.benchmark, dict(run.metrics))
    for table in TABLES:
        content = table_of(run.rows[table], schema_of(table, of.metrics))
        pq.write_table(
            content, _made(new / place_of(table, run.run.run_id, of.benchmark)), compression="zstd"
        )
    return of


def _carry(source: Path | None, new: Path, run_id: str, of: Written, metrics: Mapping[str, str]) -> None:
    """The files of a run in the new generation, each with a column for every named metric of all runs."""
    assert source is not None, "a run that is kept has a generation"
    for table in TABLES:
        place = place_of(table, run_id, of.benchmark)
        schema = schema_of(table, metrics)
        if table == "trials" and not pq.read_schema(source / place).equals(schema, check_metadata=True):
            rows = pq.read_table(source / place, partitioning=None)
            for column in schema:
                if column.name not in rows.column_names:
                    rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
            aside = _made((new / place).with_suffix(".new"))
            pq.write_table(rows.select(schema.names).cast(schema), aside, compression="zstd")
            aside.replace(new / place)
        elif source != new:
            os.link(source / place, _made(new / place))


def _made(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _publish(out: Path, new: Path, runs: Mapping[str, Written]) -> None:
    """Sync the new generation, and make it the current one by one rename."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "semantics_version": SEMANTICS_VERSION,
        "runs": {run: asdict(of) for run, of in sorted(runs.items())},
    }
    (new / "manifest.json").write_text(json.dumps(content, indent=1))
    (out / "views.sql").write_text(VIEWS)
    os.sync()
    link = out / ".current"
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    before = (out / "current").readlink().name if (out / "current").is_symlink() else None
    link.replace(out / "current")
    for generation in out.glob(".generation-*"):
        if generation.name not in (new.name, before):
            shutil.rmtree(generation, ignore_errors=True)


VIEWS = "-- A view for each table; start DuckDB in this directory.\n" + "".join(
    f"CREATE OR REPLACE VIEW {table} AS FROM "
    f"read_parquet('current/{table}/**/*.parquet', union_by_name = true, hive_partitioning = false);\n"
    for table in TABLES
)
