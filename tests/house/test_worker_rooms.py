"""The worker's import contracts stop a violation planted in a copy of the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT

FAUST = "Faust and mode are imported in the worker's Faust room alone"
ROOMS = "The worker's rooms: assembly, process, recovery, processing, Faust"
CIRCLES = "No circle among the worker's modules"

PLANTS = [
    (FAUST, "worker/processing/planted.py", "import faust"),
    (FAUST, "worker/app.py", "from faust.types import TP"),
    (FAUST, "worker/process/planted.py", "from mode import Service"),
    (FAUST, "client/planted.py", "import mode.utils.queues"),
    (ROOMS, "worker/processing/planted.py", "import streamer.worker.process.metrics"),
    (ROOMS, "worker/processing/planted.py", "import streamer.worker.recovery.epoch"),
    (ROOMS, "worker/recovery/planted.py", "import streamer.worker.process.topics"),
    (ROOMS, "worker/faust/planted.py", "import streamer.worker.processing.partition"),
    (ROOMS, "worker/process/planted.py", "import streamer.worker.app"),
    (ROOMS, "worker/a_new_room/planted.py", ""),
    (CIRCLES, "worker/limits.py", "import streamer.worker.faust.stores"),
    (CIRCLES, "worker/faust/topic_partition.py", "import streamer.worker.faust.event_consumer"),
]
"""Contract, file under streamer/, and the line to plant there."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the contracts speak of."""
    for name in ("streamer", "schemas"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(tree: Path) -> str:
    """What lint-imports says of a tree, the copy before the installed packages."""
    command = (
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    )
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert "Contracts" in done.stdout, done.stdout + done.stderr
    return done.stdout


def test_the_copy_keeps_the_contracts(tree: Path) -> None:
    said = lint_imports(tree)
    assert [f"{name} KEPT" in said for name in (FAUST, ROOMS, CIRCLES)] == [True] * 3, said


@pytest.mark.parametrize(("contract", "path", "line"), PLANTS)
def test_a_planted_import_breaks_its_contract(tree: Path, contract: str, path: str, line: str) -> None:
    file = tree / "streamer" / path
    if not file.parent.exists():
        file.parent.mkdir()
        (file.parent / "__init__.py").touch()
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(f"{before}\n{line}\n", encoding="utf-8")
    said = lint_imports(tree)
    assert f"{contract} BROKEN" in said, said
