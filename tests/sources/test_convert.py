"""Connectors that other packages bring as entry points, installed for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.base import AUTO
from streamer.sources.convert import HARNESSES, SOURCES, sources_for
from tests.house.repository import ROOT
from tests.sources.builders import a_result, a_run, write_json
from tests.support.cli import streamer
from tests.support.installation import run_pip

RECIPE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Add a harness")[2]
CONNECTOR = RECIPE.partition("```python\n")[2].partition("```")[0]
"""The connector that the recipe shows."""


ENTRY = {"tiny": "Tiny"}


def install(
    site: Path, module: str = CONNECTOR, package: str = "tiny_bench", entries: dict[str, str] = ENTRY
) -> Path:
    """Put a package of one module with these entry points (name to object) where pip would."""
    info = f"{package}-1.0.dist-info"
    lines = "".join(f"{name} = {package}:{result}\n" for name, result in entries.items())
    files = {
        f"{package}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[streamer.sources]\n{lines}",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    for name, content in files.items():
        write_json(site / name, content)
    return site


def convert(site: Path, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Run the command with the site's packages; it ends with this code."""
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    result = streamer("convert", *arguments, environment={"PYTHONPATH": path})
    assert result.returncode == code, result.stderr
    return result


def events_of(result: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def tiny_run(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    (run / "plan.tiny").write_text("a b")
    (run / "results.tiny").write_text("a yes\nb no\n")
    return run


@pytest.mark.parametrize("harness", ["tiny", "auto"])
def test_an_installed_connector_converts_its_runs(site: Path, tiny_run: Path, harness: str) -> None:
    """Its package is installed as users do."""
    wheel = site.parent / "tiny_bench-1.0-py3-none-any.whl"
    shutil.move(shutil.make_archive(str(wheel), "zip", install(site.parent / "packed")), wheel)
    run_pip("install", "--no-index", "--no-deps", "--target", str(site), str(wheel))
    plan, *trials = events_of(convert(site, "--harness", harness, tiny_run.parent))
    assert plan == {"type": "run_started", "run_id": "first", "harness": "tiny", "tasks": ["a", "b"]}
    assert {trial["task_id"]: trial["resolved"] for trial in trials} == {"a": True, "b": False}


def test_an_installed_connector_may_tell_of_trials_that_have_begun(site: Path, tiny_run: Path) -> None:
    """It yields them beside the results; one that has a result is left out."""
    more = """
        for task in ("a", "c"):
            yield Parsed(path / task, {"type": "trial_started", "task_id": task, "revision": 1})
"""
    events = events_of(convert(install(site, CONNECTOR.rstrip() + more), tiny_run))
    starts = [event for event in events if event["type"] == "trial_started"]
    assert starts == [{"type": "trial_started", "run_id": "first", "task_id": "c", "revision": 1}]


def test_what_the_recipes_connector_cannot_read_is_named(site: Path, tiny_run: Path) -> None:
    (tiny_run / "results.tiny").write_text("a yes\nb\n")
    result = convert(install(site), tiny_run, code=1)
    assert "results.tiny: line 2 is not `task yes|no`" in result.stderr.decode()
    assert len(events_of(result)) == 2


def test_the_recipe_names_the_entry_point_that_is_installed_here() -> None:
    assert '[project.entry-points."streamer.sources"]\ntiny = "tiny_bench:Tiny"' in RECIPE


def test_its_name_is_among_the_choices_without_it_being_loaded(site: Path) -> None:
    result = convert(install(site, "raise SystemExit('was imported')"), "--help")
    assert f"{SOURCES[-1].name}|tiny]".encode() in b"".join(result.stdout.split())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Else = 1", "cannot be loaded: AttributeError"),
        ("class Tiny:\n    def __init__(self, x): ...", "cannot be loaded: TypeError"),
        ("class Tiny:\n    name = 'tiny'", "is not a connector: it has no method detect, plan, trials"),
        (CONNECTOR.replace('"tiny"', '"other"'), "is left out: its object has the name 'other'"),
    ],
    ids=["import", "attribute", "constructor", "methods", "name"],
)
def test_a_broken_one_stops_no_other(site: Path, tmp_path: Path, module: str, reason: str) -> None:
    install(site, module)
    runs = a_run(tmp_path / "runs" / "run1", [a_result()]).parent
    result = convert(site, runs, runs / "run1")
    assert len(events_of(result)) == 2
    (line,) = [line for line in result.stderr.decode().splitlines() if "tiny" in line]
    assert line.startswith(f"connector 'tiny' (tiny_bench:Tiny of tiny_bench) {reason}")
    (line,) = convert(site, "--harness", "tiny", runs, code=1).stderr.decode().splitlines()
    assert f"(tiny_bench:Tiny of tiny_bench) {reason}" in line


@pytest.mark.parametrize(
    ("method", "right", "wrong"),
    [
        *((name, f"def {name}(self", f"def {name}(self, nothing") for name in ("detect", "plan", "trials")),
        ("plan", "return RunPlan(path.name, ", "dict("),
        ("trials", "Parsed(file, event", "dict(event"),
        ("trials", "Parsed(file, event", "Parsed(str(file), event"),
    ],
)
def test_one_that_fails_on_a_run_is_named_and_what_does_not_need_it_comes(
    site: Path, tiny_run: Path, method: str, right: str, wrong: str
) -> None:
    assert right in CONNECTOR
    install(site, CONNECTOR.replace(right, wrong))
    a_run(tiny_run.parent / "run1", [a_result()])
    result = convert(site, tiny_run.parent, code=int(method != "detect"))
    trials = [event["run_id"] for event in events_of(result) if event["type"] == "trial_result"]
    assert trials == (["first", "first", "run1"] if method == "plan" else ["run1"])
    lines = result.stderr.decode().splitlines()
    assert sum(f"fails in {method}" in line and "tiny_bench" in line for line in lines) == 1


def test_a_search_that_takes_long_says_what_it_is_doing(site: Path, tiny_run: Path) -> None:
    slow = "Tiny.detect = lambda self, path: time.sleep(2.0) or fast(self, path)"
    module = f"{CONNECTOR}\nimport time\nfast = Tiny.detect\n{slow}\n"
    result = convert(install(site, module), "--harness", "tiny", tiny_run)
    assert f"looking for runs in {tiny_run}: 0 trials so far" in result.stderr.decode()


def test_a_name_of_ours_cannot_be_taken(site: Path, tmp_path: Path) -> None:
    install(site, entries={"scylla": "Tiny", "auto": "Tiny"})
    result = convert(site, a_run(tmp_path / "runs" / "run1", [a_result()]).parent)
    clashes = [line for line in result.stderr.decode().splitlines() if "connector with that name" in line]
    assert sorted(line.split("'")[1] for line in clashes) == ["auto", "scylla"]


def test_a_name_that_two_packages_give_belongs_to_neither(site: Path, tiny_run: Path) -> None:
    for package in ("tiny_bench", "small_bench"):
        install(site, package=package)
    result = convert(site, "--harness", "tiny", tiny_run, code=1)
    assert result.stdout == b""
    assert b"small_bench:Tiny of small_bench, tiny_bench:Tiny of tiny_bench" in result.stderr
    assert b"uninstall one" in result.stderr


def test_without_any_the_error_of_an_unknown_harness_lists_ours(site: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {})
    assert b"'harbor'" in convert(site, "--harness", "tiny", tmp_path, code=2).stderr


def test_every_connector_of_ours_is_asked_in_its_order_unless_one_is_named() -> None:
    assert tuple(sources_for(AUTO)[: len(SOURCES)]) == SOURCES
    for source in SOURCES:
        assert list(sources_for(source.name)) == [source]
    assert len(set(HARNESSES)) == len(HARNESSES)
