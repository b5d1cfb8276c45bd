"""A data set of runs: Parquet files for DuckDB, polars, pandas and Arrow, updated run by run.

    OUT/current            a link to the newest generation, OUT/generation-N; one rename moves it
    OUT/views.sql          a view for each table of that generation: `cd OUT && duckdb -init views.sql`
    current/manifest.json  the version of each run when it was written
    current/TABLE/~none.parquet  no rows, so that a table without runs has columns, too
    current/TABLE/BENCHMARK/RUN/rows.parquet  the rows of one run, with columns for both names

A new generation links the files of unchanged runs. It never changes once it exists, even if a writer is
killed. A reader that resolves the link once, as the views do, sees one generation. The previous generation
stays for such readers until the next export.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from streamer.operate.frames import schema_of, table_of
from streamer.operate.rows import RunRows, Table, claim, file_name, units_of
from streamer.schemas.base import SEMANTICS_VERSION

TABLES: tuple[Table, ...] = get_args(Table)

FORMAT = 1

NO_BENCHMARK = "none"

EMPTY = "~none.parquet"


class CannotExport(Exception):
    """An incompatible existing data set; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Written:
    version: str
    benchmark: str | None
    metrics: dict[str, str]


@dataclass(slots=True)
class Exported:
    """The ids of the exported runs. `stale` runs keep old rows, because they could not be folded."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)


def export(
    out: Path,
    versions: Mapping[str, str],
    rows: Callable[[list[str]], Iterable[RunRows]],
    *,
    source: Literal["servers", "files"],
    chosen: str = "*",
) -> Exported:
    """Bring a data set up to date.

    Raises NotOurs, CannotExport if it holds an incompatible data set, or OSError, which leaves it unchanged.

    Args:
        versions: by run id, a text that changes whenever the run's rows may change.
        rows: returns the rows of the changed runs, one run at a time.
        chosen: a pattern of run ids, such as `nightly-*`; other runs stay as they are.
    """
    claim(out)
    with (
        FileLock(out / ".lock"),  # two exports at once would write the same generation
        ExitStack() as unfinished,
    ):
        before, old = _manifest(out, source, chosen)
        mine = {run: version for run, version in versions.items() if fnmatchcase(run, chosen)}
        gone = [run for run in before if fnmatchcase(run, chosen) and run not in mine]
        as_it_was = {run: of for run, of in before.items() if mine.get(run, of.version) == of.version}
        kept = {run: of for run, of in as_it_was.items() if run not in gone}
        due = sorted(mine.keys() - kept.keys())
        if before and old and not due and not gone:
            return Exported(kept=sorted(kept))
        new = out / f"generation-{_number(old) + 1}"
        shutil.rmtree(new, ignore_errors=True)  # left by a killed export
        unfinished.callback(shutil.rmtree, new, ignore_errors=True)  # so that a full disk has room again
        written = {run.run.run_id: _write(new, run, mine[run.run.run_id]) for run in rows(due)}
        stale = {run: before[run] for run in due if run in before and run not in written}
        every = kept | stale | written
        metrics = units_of(of.metrics for of in every.values())
        for run_id, of in every.items():
            try:
                _carry(new if run_id in written else old, new, run_id, of, metrics)
            except (FileNotFoundError, pa.ArrowInvalid) as error:
                what = f"The rows of run {run_id} in {out} are damaged"
                raise CannotExport(f"{what}. Remove {out} and export again") from error
        for table in TABLES:
            pq.write_table(table_of([], schema_of(table, metrics)), _made(new / table / EMPTY))
        unfinished.pop_all()
        _publish(out, new, source, every, metrics)
        removed = sorted(before.keys() - every.keys())
        return Exported(sorted(written), sorted(kept), removed, sorted(stale))


def _manifest(out: Path, source: str, chosen: str) -> tuple[dict[str, Written], Path | None]:
    try:
        old = (out / "current").resolve(strict=True)
        content = json.loads((old / "manifest.json").read_bytes())
        runs = {run: Written(**of) for run, of in content["runs"].items()}
        was, version = content["source"], (content["format"], content["semantics_version"])
    except FileNotFoundError:
        return {}, None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotExport(
            f"{out / 'current/manifest.json'} is damaged. Remove {out} and export again"
        ) from error
    if was != source:
        raise CannotExport(
            f"{out} holds runs from {was}, but these are from {source}: name another directory"
        )
    if version == (FORMAT, SEMANTICS_VERSION):
        return runs, old
    if chosen != "*":
        raise CannotExport(
            f"{out} was written by another version of streamer: export all runs once, without --runs"
        )
    return {}, old


def _number(generation: Path | None) -> int:
    return int(generation.name.rpartition("-")[2]) if generation else 0


def place_of(table: Table, run_id: str, benchmark: str | None) -> Path:
    """The place of a run's rows within a generation.

    >>> print(place_of("runs", "a/b", None), place_of("runs", "r", "swe"))
    runs/none/a%2Fb/rows.parquet runs/swe/r/rows.parquet
    """
    part = NO_BENCHMARK if benchmark is None else file_name(benchmark)
    return Path(table, part, file_name(run_id), "rows.parquet")


def _write(new: Path, run: RunRows, version: str) -> Written:
    of = Written(version, run.run.benchmark, dict(run.metrics))
    for table in TABLES:
        content = table_of(run.rows[table], schema_of(table, of.metrics))
        pq.write_table(
            content, _made(new / place_of(table, run.run.run_id, of.benchmark)), compression="zstd"
        )
    return of


def _carry(source: Path | None, new: Path, run_id: str, of: Written, metrics: Mapping[str, str]) -> None:
    assert source is not None, "a run that is kept has a generation"
    for table in TABLES:
        place = place_of(table, run_id, of.benchmark)
        schema = schema_of(table, metrics)
        if table == "trials" and not _is_same(pq.read_schema(source / place), schema):
            rows = pq.read_table(source / place, partitioning=None)
            for column in schema:
                if column.name not in rows.column_names:
                    rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
            aside = _made((new / place).with_suffix(".new"))
            pq.write_table(rows.select(schema.names).cast(schema), aside, compression="zstd")
            aside.replace(new / place)
        elif source != new:
            os.link(source / place, _made(new / place))


def _is_same(stored: pa.Schema, schema: pa.Schema) -> bool:
    """Whether a file has these columns, with their descriptions and units.

    Parquet drops the names of map keys and values, so types are compared without metadata.
    """
    return stored.equals(schema) and [of.metadata for of in stored] == [of.metadata for of in schema]


def _made(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _publish(
    out: Path, new: Path, source: str, runs: Mapping[str, Written], metrics: Mapping[str, str]
) -> None:
    content: dict[str, Any] = {
        "format": FORMAT,
        "semantics_version": SEMANTICS_VERSION,
        "source": source,
        "runs": {run: asdict(of) for run, of in sorted(runs.items())},
    }
    (new / "manifest.json").write_text(json.dumps(content, indent=1))
    views, link = out / ".views.sql", out / ".current"
    views.write_text(views_of(new.name, metrics))
    os.sync()
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    before = (out / "current").readlink().name if (out / "current").is_symlink() else None
    link.replace(out / "current")
    views.replace(out / "views.sql")
    for generation in out.glob("generation-*"):
        if generation.name not in (new.name, before):
            shutil.rmtree(generation, ignore_errors=True)


def views_of(generation: str, metrics: Mapping[str, str] | None = None) -> str:
    """A view for each table, on the generation itself, because a query through the link might see two.

    SQL does not distinguish `metrics/F1` from `metrics/f1`. If a data set has both, the view names its
    columns.
    """
    lines = ["-- A view for each table as of this export; start DuckDB in this directory."]
    for table in TABLES:
        files = f"'{generation}/{table}/**/*.parquet', union_by_name = true, hive_partitioning = false"
        names = schema_of(table, metrics).names
        said = in_any_case(names)
        other = [(name, own) for name, own in zip(names, said, strict=True) if name != own]
        lines += [f"-- Names differ only in case: {name} is called {own} here." for name, own in other]
        columns = ", ".join(f'"{own}"' for own in said)
        alias = f" AS rows({columns})" if other else ""
        lines.append(f"CREATE OR REPLACE VIEW {table} AS FROM read_parquet({files}){alias};")
    return "\n".join([*lines, ""])


def in_any_case(names: Iterable[str]) -> list[str]:
    """The names, with a number added where an earlier one differs only in case.

    >>> in_any_case(["a", "metrics/F1", "metrics/f1", "metrics/f1 (2)"])
    ['a', 'metrics/F1', 'metrics/f1 (2)', 'metrics/f1 (2) (2)']
    """
    seen, result = set[str](), list[str]()
    for name in names:
        own, number = name, 1
        while own.lower() in seen:
            number += 1
            own = f"{name} ({number})"
        seen.add(own.lower())
        result.append(own)
    return result
