"""A data set of runs: the same rows as a report, incremental as if fresh, and old or new but never both."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamer.client import StateReader, frames
from streamer.folding.fold import fold_records
from streamer.operate import dataset
from streamer.operate.dataset import TABLES, CannotExport, Exported, export, place_of
from streamer.operate.rows import NotOurs, file_name, rows_folded
from streamer.schemas.wire import records_of_lines
from tests.operate.verifying import a_run, publish, wait_until_published
from tests.support.cli import streamer
from tests.support.events import Event, a_deletion, a_late_score, a_plan, a_retraction, a_trial
from tests.support.online import Online
from tests.support.peers import peer_environment, run_in_peer

STORY = [
    a_plan(benchmark="b", benchmark_version="1", tasks=2, agents=["terminus:gpt-5", "nop:gpt-5"]),
    a_trial(
        started_at="2026-01-02T03:04:05Z",
        finished_at="2026-01-02T03:05:05Z",
        labels={"team": "core"},
        provenance={"timeout": "600"},
        trial_name="task-1.x",
        metrics={"reward": 0.5},
        tier="T0",
        subtest="s",
    ),
    a_trial(agent="nop", resolved=False, message="AssertionError: 1 != 2", tier="T0", subtest="s"),
]


def lines(events: Iterable[Event]) -> list[bytes]:
    return [orjson.dumps(event) for event in events]


def exported(out: Path, events: Iterable[Event], chosen: str = "*") -> Exported:
    folding = fold_records(records_of_lines(lines(events)))
    rows = {one.run.run_id: one for one in rows_folded(folding, lambda failure: pytest.fail(failure.reason))}
    versions = {run_id: one.version for run_id, one in rows.items()}
    return export(out, versions, lambda due: map(rows.__getitem__, due), source="files", chosen=chosen)


def files_of(out: Path) -> dict[str, pa.Table]:
    """Every file of the current generation with its rows, as `pyarrow` reads it."""
    current = (out / "current").resolve()
    return {str(file.relative_to(current)): pq.read_table(file) for file in current.rglob("*.parquet")}


def rows_of(out: Path, table: str) -> list[dict[str, object]]:
    return pq.read_table(out / "current" / table).to_pylist()


def test_a_trial_has_what_its_event_says_besides_its_score(tmp_path: Path) -> None:
    exported(tmp_path, STORY)
    passed, failed = sorted(rows_of(tmp_path, "trials"), key=lambda row: not row["success"])
    assert passed["started_at"].isoformat() == "2026-01-02T03:04:05+00:00"  # type: ignore[attr-defined]
    assert (passed["labels"], passed["provenance"]) == ([("team", "core")], [("timeout", "600")])
    assert (passed["trial_name"], passed["baseline"], passed["metrics/reward"]) == ("task-1.x", False, 0.5)
    assert (failed["message"], failed["baseline"], failed["metrics/reward"]) == (
        "AssertionError: 1 != 2",
        True,
        None,
    )
    assert {(row["run_id"], row["benchmark"], row["benchmark_version"]) for row in (passed, failed)} == {
        ("run-1", "b", "1")
    }


def test_other_tables_have_what_is_published(tmp_path: Path) -> None:
    events = [a_trial(task_id=f"t{n}", agent=agent, resolved=n % 2 == 0) for n in range(6) for agent in "ab"]
    exported(tmp_path, events)
    agents = rows_of(tmp_path, "agents")
    assert [(row["agent_model"], row["resolved"], row["baseline"]) for row in agents] == [
        ("a:gpt-5", 3, False),
        ("b:gpt-5", 3, False),
    ]
    assert dict(agents[0]["statistics"])["pass_rate"]["mean"] == 0.5  # type: ignore[call-overload]
    [run] = rows_of(tmp_path, "runs")
    assert (run["trials"], run["benchmark"]) == (12, None)
    [pair] = rows_of(tmp_path, "comparisons")
    assert (pair["a"], pair["b"], pair["equal"]) == ("a:gpt-5", "b:gpt-5", 6)
    tasks = {(row["task_id"], row["agent_model"]): row["passed"] for row in rows_of(tmp_path, "tasks")}
    assert tasks[("t0", "a:gpt-5")] == 1
    assert tasks[("t1", "a:gpt-5")] == 0


def test_numbers_that_are_not_finite_are_doubles(tmp_path: Path) -> None:
    exported(tmp_path, [a_trial(resolved=False, cost_usd=2.0)])  # R14: cost / 0 passes
    [agent], [trial] = rows_of(tmp_path, "agents"), rows_of(tmp_path, "trials")
    assert agent["cost_of_pass"] == trial["cost_of_pass"] == float("inf")


def test_each_column_says_what_it_is_and_its_unit() -> None:
    for table in TABLES:
        for column in frames.schema_of(table, {"metrics/reward": "points"}):
            assert column.metadata[b"description"], (table, column.name)
            assert b"unit" in column.metadata, (table, column.name)
    agents = frames.schema_of("agents", {})
    units = {name: agents.field(name).metadata[b"unit"] for name in ("total_cost", "pass_rate", "trials")}
    assert units == {"total_cost": b"USD", "pass_rate": b"1", "trials": b""}
    fields = frames.schema_of("trials", {"metrics/reward": "points"})
    assert fields.field("cost_usd").metadata[b"unit"] == b"USD"
    assert fields.field("metrics/reward").metadata[b"unit"] == b"points"


def test_a_named_metric_is_a_column_of_every_run(tmp_path: Path) -> None:
    first = [a_trial(metrics={"reward": 1.0})]
    exported(tmp_path, first)
    exported(tmp_path, [*first, a_trial(run_id="run-2", metrics={"steps": 3.0}), a_trial(run_id="run-3")])
    columns = {name: set(file.column_names) for name, file in files_of(tmp_path).items() if "trials/" in name}
    assert len(columns) == 4
    assert all({"metrics/reward", "metrics/steps"} <= names for names in columns.values())
    exported(tmp_path, [a_trial(run_id="run-3")])
    assert not {"metrics/reward", "metrics/steps"} & set(
        files_of(tmp_path)["trials/~none.parquet"].column_names
    )


def test_no_file_of_a_run_that_has_not_changed_is_written_again(tmp_path: Path) -> None:
    """Not even trials, whose labels and provenance Parquet stores under other names than Arrow has."""
    said = {"labels": {"team": "x"}, "provenance": {"timeout": "600"}, "metrics": {"reward": 1.0}}
    events = [a_trial(**said), a_trial(run_id="run-2", **said)]
    exported(tmp_path, events)
    first = (tmp_path / "current").resolve()
    exported(tmp_path, [*events, a_trial(run_id="run-2", revision=1, resolved=False, **said)])
    second = (tmp_path / "current").resolve()
    places = [place_of(table, run, None) for table in TABLES for run in ("run-1", "run-2")]
    same = {place for place in places if (first / place).samefile(second / place)}
    assert same == {place for place in places if "run-1" in place.parts}


def a_change(random: Random) -> Event:
    """A correction, retraction, late score, plan or deletion of one of a few runs."""
    number = random.randrange(1_000_000)
    slot = {"run_id": f"run-{random.randrange(4)}", "task_id": f"t{random.randrange(6)}"}
    kind = random.random()
    if kind < 0.02:
        return a_deletion(run_id=slot["run_id"], revision=random.randrange(3) * 1_000_000)
    if kind < 0.1:
        return a_retraction(**slot, revision=number)
    if kind < 0.2:
        return a_late_score(**slot, revision=number, score=random.random())
    if kind < 0.25:
        return a_plan(run_id=slot["run_id"], revision=number, benchmark=random.choice(["x", "y", None]))
    metrics = {random.choice("abc"): random.random()} if random.random() < 0.3 else None
    return a_trial(
        **slot,
        revision=number,
        agent=random.choice("ab"),
        resolved=random.random() < 0.5,
        cost_usd=random.random(),
        message=random.choice([None, "out of time"]),
        metrics=metrics,
    )


def test_after_1000_random_corrections_an_incremental_export_equals_a_fresh_one(tmp_path: Path) -> None:
    random, events = Random(41), list[Event]()
    for step in range(10):
        events += [a_change(random) for _ in range(100)]
        exported(tmp_path / "kept", events)
        exported(tmp_path / f"fresh-{step}", events)
        kept, fresh = files_of(tmp_path / "kept"), files_of(tmp_path / f"fresh-{step}")
        assert kept.keys() == fresh.keys()
        for name, table in fresh.items():
            assert kept[name].equals(table, check_metadata=True), (step, name)


def test_what_is_not_chosen_stays_and_what_was_deleted_goes(tmp_path: Path) -> None:
    two = [a_trial(run_id="nightly-1"), a_trial(run_id="other")]
    exported(tmp_path, two)
    exported(tmp_path, [a_trial(run_id="nightly-2")], "nightly-*")
    assert {row["run_id"] for row in rows_of(tmp_path, "runs")} == {"nightly-2", "other"}


def test_ids_that_readers_would_pass_over_or_that_are_paths_are_files_like_others(tmp_path: Path) -> None:
    ids = ["../up", ".", "..", "_hidden", "a/b", "x" * 250, "*", "none", "a=b", "ü" * 100, "~none.parquet"]
    ids += [file_name(ids[5]), file_name(".."), "none.parquet", "data", "DATA", "con.txt"]
    exported(
        tmp_path, [event for run in ids for event in (a_plan(run_id=run, benchmark=run), a_trial(run_id=run))]
    )
    assert {row["run_id"] for row in rows_of(tmp_path, "trials")} == set(ids)
    inside = (tmp_path / "current").resolve()
    assert all(file.resolve().is_relative_to(inside) for file in tmp_path.rglob("rows.parquet"))
    assert len({file_name(run).casefold() for run in ids}) == len(ids)


def test_a_directory_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotOurs, match="not a streamer export"):
        exported(tmp_path, STORY)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_run_that_can_no_longer_be_folded_keeps_its_old_rows(tmp_path: Path) -> None:
    exported(tmp_path, [a_trial(run_id="a"), a_trial(run_id="b")])
    done = export(tmp_path, {"a": "new", "b": "new"}, lambda due: [], source="files")
    assert (done.written, done.stale, done.removed) == ([], ["a", "b"], [])
    assert {row["run_id"] for row in rows_of(tmp_path, "trials")} == {"a", "b"}


def test_an_export_that_the_disk_refuses_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = pq.write_table, list[Path]()

    def full(table: pa.Table, file: Path, **options: Any) -> None:
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, file, **options)
        written.append(file)

    exported(tmp_path, STORY)
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as disk:
        disk.setattr(dataset.pq, "write_table", full)
        with pytest.raises(OSError, match="No space left"):
            exported(tmp_path, [*STORY, a_trial(run_id="more")])
    assert len(written) == 4
    assert sorted(tmp_path.rglob("*")) == before
    assert exported(tmp_path, [*STORY, a_trial(run_id="more")]).written == ["more"]


def test_runs_of_servers_and_of_files_are_not_mixed(tmp_path: Path) -> None:
    exported(tmp_path, STORY)
    with pytest.raises(CannotExport, match="holds runs from files, but these are from servers: name another"):
        export(tmp_path, {}, lambda due: [], source="servers")
    assert len(rows_of(tmp_path, "trials")) == 2


def test_a_data_set_of_another_version_is_written_again_as_a_whole(tmp_path: Path) -> None:
    two = [a_trial(run_id="a"), a_trial(run_id="b")]
    exported(tmp_path, two)
    manifest = tmp_path / "current" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"semantics_version": 3', '"semantics_version": 2'))
    with pytest.raises(CannotExport, match="by another version of streamer: export all runs once"):
        exported(tmp_path, two, "a*")
    assert exported(tmp_path, two).written == ["a", "b"]
    manifest.write_text("{")
    with pytest.raises(CannotExport, match="damaged"):
        exported(tmp_path, two)


@pytest.mark.parametrize("table", ["trials", "tasks"])
def test_rows_that_are_damaged_or_gone_are_named(tmp_path: Path, table: str) -> None:
    exported(tmp_path, [a_trial(run_id="a")])
    [rows] = (tmp_path / "current" / table).rglob("rows.parquet")
    if table == "trials":
        rows.write_bytes(rows.read_bytes()[:100])
    else:
        rows.unlink()
    with pytest.raises(CannotExport, match="rows of run a in "):
        exported(tmp_path, [a_trial(run_id="a"), a_trial(run_id="b")])
    assert [row["run_id"] for row in rows_of(tmp_path, "runs")] == ["a"]


def test_two_units_of_one_metric_are_no_unit(tmp_path: Path) -> None:
    def a_run_in(run_id: str, unit: str) -> list[Event]:
        metrics = {"lat": {"direction": "lower", "unit": unit}}
        return [a_plan(run_id=run_id, metrics=metrics), a_trial(run_id=run_id, metrics={"lat": 5.0})]

    exported(tmp_path, a_run_in("r", "seconds"))

    def unit() -> bytes:
        schema = pq.read_schema(tmp_path / "current/trials/~none.parquet")
        return bytes(schema.field("metrics/lat").metadata[b"unit"])

    assert unit() == b"seconds"
    exported(tmp_path, [*a_run_in("r", "seconds"), *a_run_in("q", "ms")])
    assert unit() == b""


def test_views_of_an_export_stay_with_its_generation(tmp_path: Path) -> None:
    exported(tmp_path, [a_trial(run_id="a", input_tokens=1)])
    before = (tmp_path / "views.sql").read_text()
    exported(tmp_path, [a_trial(run_id="a", input_tokens=2)])
    now = (tmp_path / "views.sql").read_text()
    assert "read_parquet('generation-1/trials/**/*.parquet'" in before
    assert "read_parquet('generation-2/trials/**/*.parquet'" in now
    assert pq.read_table(tmp_path / "generation-1" / "trials")["input_tokens"].to_pylist() == [1]


def test_a_frame_of_a_file_counts_up_to_a_line_and_warns_of_what_is_no_event(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"\n".join([*lines([a_trial(task_id=f"t{n}") for n in range(5)]), b"no event"]))
    with pytest.warns(UserWarning, match="1 line rejected"):
        assert len(frames.trials(file)) == 5
    assert len(frames.trials(file, as_of="2")) == 3


EXPORTING = """
import sys
from pathlib import Path
from tests.operate.test_dataset import exported, killing_story
for number in range(1, 1000):
    exported(Path(sys.argv[1]), killing_story(number))
    print(number, flush=True)
"""


def killing_story(number: int) -> list[Event]:
    """Every run says in each table which story it is from."""
    return [
        a_trial(run_id=f"run-{run}", task_id=f"t{task}", revision=number, input_tokens=number)
        for run in range(3)
        for task in range(2)
    ]


def test_a_reader_sees_the_old_or_the_new_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    random = Random(7)
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", EXPORTING, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline(), "one export is whole"
            time.sleep(random.random() / 3)
            writer.send_signal(signal.SIGKILL)
        tokens = {row["input_tokens"] for row in rows_of(tmp_path, "trials")}
        sums = {row["tokens"]["input"] for row in rows_of(tmp_path, "runs")}  # type: ignore[index]
        assert len(tokens) == 1, "all rows are of one story"
        assert sums == {2 * tokens.copy().pop()}  # type: ignore[operator]
    exported(tmp_path, killing_story(1_000))
    assert len(list(tmp_path.glob("generation-*"))) <= 2


def test_the_command_writes_files_of_events_and_says_what_it_did(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"\n".join([*lines(STORY), b"no event"]))
    out = tmp_path / "out"
    done = streamer("export", out, "--from", file)
    assert done.returncode == 1
    assert done.stderr.startswith(b"line 4: not_json")
    assert done.stdout == f"1 run written, 0 runs unchanged, 0 runs removed: {out / 'current'}\n".encode()
    assert b"0 runs written, 1 run unchanged" in streamer("export", out, "--from", file).stdout
    none = streamer("export", out, "--from", file, "--runs", "nightly-*")
    assert (none.returncode, none.stdout.startswith(b"0 runs written")) == (1, True)
    assert b"no run matches nightly-*" in none.stderr
    (other := tmp_path / "other").write_bytes(b"no event")
    both = streamer("export", out, "--from", file, "--from", other).stderr.decode().splitlines()
    assert [line.partition(": not_json")[0] for line in both] == [f"{file}, line 4", f"{other}, line 1"]


def test_runs_of_a_stack_are_exported_when_they_change_and_go_when_they_are_deleted(
    stack: Online, tmp_path: Path
) -> None:
    publish(stack.settings, [*a_run("ex-1"), *a_run("ex-2")])
    wait_until_published(stack)
    command = ("export", tmp_path / "out", "--runs", "ex-*")
    assert b"2 runs written" in streamer(*command, environment=stack.environment).stdout
    trials = frames.trials("ex-1", settings=stack.settings)
    mine = [row for row in rows_of(tmp_path / "out", "trials") if row["run_id"] == "ex-1"]
    assert trials.arrow.to_pylist() == mine
    with StateReader(stack.settings) as reader:
        [agent, _] = reader.agents("ex-1")
        assert [trial.digest for trial in reader.trials("ex-1")] == [row["digest"] for row in mine]
    published = frames.agents("ex-1", settings=stack.settings).arrow.to_pylist()
    assert [row["digest"] for row in published if row["agent_model"] == agent.agent_model] == [agent.digest]
    publish(stack.settings, [a_trial(run_id="ex-1", task_id="more"), a_deletion(run_id="ex-2", revision=99)])
    wait_until_published(stack)
    again = streamer(*command, environment=stack.environment)
    assert b"1 run written, 0 runs unchanged, 1 run removed" in again.stdout
    assert {row["run_id"] for row in rows_of(tmp_path / "out", "trials")} == {"ex-1"}


READING = '''
import json, sys
import duckdb, pandas, polars
database, of = duckdb.connect(), "current/trials"
database.execute(open("views.sql").read())
by_case = database.sql("""select "metrics/F1", "metrics/f1 (2)" from trials where run_id = 'case'""")
by_sql = database.sql("select count(*), sum(cost_usd), max(finished_at)::varchar from trials")
by_polars = polars.scan_parquet(f"{of}/**/*.parquet").select(polars.len(), polars.sum("cost_usd"))
by_pandas = pandas.read_parquet(of)
print(json.dumps({
    "duckdb": by_sql.fetchall()[0],
    "views": [database.sql(f"select count(*) from {table}").fetchall()[0][0] for table in sys.argv[1:]],
    "by case": by_case.fetchall(),
    "polars": by_polars.collect().row(0),
    "pandas": [len(by_pandas), float(by_pandas["cost_usd"].sum())],
}))
'''


@pytest.mark.peer
def test_duckdb_polars_and_pandas_read_the_data_set(tmp_path: Path) -> None:
    packages = "duckdb==2.0.1", "polars==2.1.0", "pandas==3.1.1", "pyarrow==26.0.1"
    environment = peer_environment(*packages, with_base=False)
    more = [a_trial(run_id="run-2", task_id=str(cost), cost_usd=cost) for cost in (1.5, 2.0)]
    in_any_case = a_trial(run_id="case", metrics={"F1": 0.25, "f1": 0.5})
    exported(tmp_path, [*STORY, *more, in_any_case])
    said = json.loads(run_in_peer(environment, "python", "-c", READING, *TABLES, cwd=tmp_path).stdout)
    assert said["duckdb"] == [5, 3.5, "2026-01-02 03:05:05+00"]
    assert said["polars"] == said["pandas"] == [5, 3.5]
    assert said["by case"] == [[0.25, 0.5]]
    assert said["views"] == [len(rows_of(tmp_path, table)) for table in TABLES]
