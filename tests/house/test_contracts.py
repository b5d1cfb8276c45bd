"""Every import contract and every ban of pyproject.toml stops a violation planted in a scratch copy."""

from __future__ import annotations

import fnmatch
import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.house.repository import ROOT, pyproject, tracked_files

BIN = Path(sys.executable).parent

TOOLS = pyproject()["tool"]
CONTRACTS: list[dict[str, Any]] = TOOLS["importlinter"]["contracts"]
NAMES = [contract["name"] for contract in CONTRACTS]
LAYERS, CORE, STATISTICS, FOLDING, FAUST, WORKER, SOURCES, CIRCLES, KAFKA, REDIS, BASE = NAMES
CORE_CONTRACT = CONTRACTS[1]
BANNED: dict[str, dict[str, str]] = TOOLS["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
EXEMPT = [edge for edge, rules in TOOLS["ruff"]["lint"]["per-file-ignores"].items() if "TID251" in rules]


class Plant(NamedTuple):
    """One line, and the file that it is appended to, by which the import contract `rule` must break."""

    rule: str
    path: str
    line: str


PLANTS = [
    Plant(LAYERS, "streamer/statistics/planted.py", "import streamer.folding.score"),
    Plant(LAYERS, "streamer/folding/score/planted.py", "import streamer.settings"),
    Plant(LAYERS, "streamer/folding/fold.py", "import streamer.settings"),
    Plant(LAYERS, "streamer/storage/planted.py", "import streamer.client"),
    Plant(LAYERS, "streamer/client/planted.py", "import streamer.worker"),
    Plant(LAYERS, "streamer/client/planted.py", "import streamer.operate.health"),
    Plant(LAYERS, "streamer/views/planted.py", "import streamer.operate.health"),
    Plant(LAYERS, "streamer/operate/planted.py", "import streamer.sources.tail"),
    Plant(LAYERS, "streamer/sources/base.py", "import streamer.web"),
    Plant(LAYERS, "streamer/web/planted.py", "import streamer.terminal"),
    Plant(LAYERS, "streamer/schemas/planted.py", "import streamer.statistics"),
    Plant(STATISTICS, "streamer/statistics/final.py", "import streamer.schemas"),
    Plant(STATISTICS, "streamer/statistics/pairs.py", "import streamer.text"),
    Plant(FOLDING, "streamer/folding/score/formulacode.py", "import streamer.folding.slots"),
    Plant(FOLDING, "streamer/folding/groups.py", "import streamer.folding.plan"),
    Plant(FOLDING, "streamer/folding/state.py", "import streamer.folding.run"),
    Plant(FAUST, "streamer/worker/agents.py", "import faust"),
    Plant(FAUST, "streamer/worker/process.py", "from mode import Service"),
    Plant(FAUST, "streamer/client/planted.py", "import mode.utils.queues"),
    Plant(WORKER, "streamer/worker/partition.py", "import streamer.worker.process"),
    Plant(WORKER, "streamer/worker/publisher.py", "import streamer.worker.recovery"),
    Plant(WORKER, "streamer/worker/recovery.py", "import streamer.worker.process"),
    Plant(WORKER, "streamer/worker/transport.py", "import streamer.worker.partition"),
    Plant(WORKER, "streamer/worker/agents.py", "import streamer.worker.process"),
    Plant(SOURCES, "streamer/sources/files.py", "import streamer.sources.harbor"),
    Plant(SOURCES, "streamer/sources/scylla.py", "import streamer.sources.harbor"),
    Plant(SOURCES, "streamer/sources/convert.py", "import streamer.sources.tail"),
    Plant(KAFKA, "streamer/client/publisher.py", "from aiokafka.errors import KafkaError"),
    Plant(KAFKA, "streamer/operate/local/broker.py", "import aiokafka"),
    Plant(KAFKA, "streamer/worker/agents.py", "import aiokafka"),
    Plant(REDIS, "streamer/web/protocols/live.py", "import redis"),
    Plant(REDIS, "streamer/worker/agents.py", "from redis.asyncio import Redis"),
    Plant(REDIS, "streamer/storage/log.py", "import redis"),
    Plant(BASE, "streamer/settings.py", "import numpy"),
    Plant(BASE, "streamer/statistics/exact.py", "import streamer.statistics.distribution"),
    Plant(BASE, "streamer/sources/tail/planted.py", "from streamer.folding.prices import PriceTable"),
    Plant(BASE, "streamer/terminal/query.py", "from streamer.statistics.distribution import Distribution"),
    Plant(BASE, "streamer/terminal/operate.py", "from rocksdict import Rdict"),
]
"""Violations that the report names by file and line; `core_plants` derives those of the core. Add yours."""

ALONE = [
    Plant(LAYERS, "streamer/a_new_room/planted.py", ""),
    Plant(WORKER, "streamer/worker/a_new_module.py", ""),
    Plant(FOLDING, "streamer/folding/a_new_module.py", ""),
    Plant(SOURCES, "streamer/sources/a_new_harness.py", ""),
    Plant(CIRCLES, "streamer/terminal/boards.py", "import streamer.terminal.query"),
    Plant(CIRCLES, "streamer/statistics/exact.py", "import streamer.statistics.distribution"),
    Plant(CIRCLES, "streamer/worker/tables.py", "import streamer.worker.transport"),
    Plant(CIRCLES, "streamer/views/columns.py", "import streamer.views.tables"),
]
"""Violations of which the report names no line, so that each is planted in a copy that has no other."""

CLOCK_CHANCE_AND_FILES = {
    "TID251": [
        "from datetime import datetime\nAT = datetime.now()",
        "import datetime as dt\nAT = dt.datetime.now(dt.UTC)",
        "from time import time",
        "from numpy.random import default_rng",
        "from importlib.resources import files",
    ],
    "DTZ005": ["from datetime import datetime\nAT = datetime.now()"],
    "DTZ006": ["from datetime import datetime\nAT = datetime.fromtimestamp(0)"],
    "DTZ011": ["from datetime import date\nTODAY = date.today()"],
    "PTH123": ['TEXT = open("a-file").read()'],
    "TID252": ["from . import numbers"],
}
"""Ruff's rule, and lines that a core module must not contain."""


class ScratchCopy:
    """The product and its pyproject.toml in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._untouched: dict[Path, bytes | None] = {}
        for path in tracked_files():
            name = path.relative_to(ROOT)
            if name.parts[0] == "streamer" or str(name) == "pyproject.toml":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / name)

    def plant(self, path: str, text: str) -> int:
        """Append text to a file, and say in which line it begins; a new folder becomes a package."""
        file = self.folder / path
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            self._write(file.parent / "__init__.py", b'"""Planted."""\n')
        before = file.read_bytes() if file.exists() else b""
        self._write(file, before + f"\n{text}\n".encode())
        return before.count(b"\n") + 2

    def restore(self) -> None:
        for file, contents in self._untouched.items():
            if contents is None:
                file.unlink()
            else:
                file.write_bytes(contents)
        for folder in {file.parent for file in self._untouched}:
            if not any(folder.iterdir()):
                folder.rmdir()
        self._untouched.clear()

    def _write(self, file: Path, contents: bytes) -> None:
        self._untouched.setdefault(file, file.read_bytes() if file.exists() else None)
        file.write_bytes(contents)

    def lint_imports(self) -> str:
        """What `lint-imports` prints on the copy, its lines joined; empty if all contracts hold."""
        done = self._run("lint-imports", "--no-cache")
        return "" if done.returncode == 0 else " ".join(done.stdout.split())

    def ruff(self, *paths: str) -> list[str]:
        """The lines of `ruff check` on these files of the copy, with the repository's own configuration."""
        done = self._run("ruff", "check", "--no-cache", "--output-format", "concise", *paths)
        return [line for line in done.stdout.splitlines() if ".py:" in line]

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1), f"{program} did not run:\n{done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> ScratchCopy:
    return ScratchCopy(tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def scratch(copy: ScratchCopy) -> Iterator[ScratchCopy]:
    yield copy
    copy.restore()


def core_plants() -> list[Plant]:
    rooms = itertools.cycle(CORE_CONTRACT["source_modules"])
    return [
        Plant(CORE, core_file(room), f"import {module}")
        for module, room in zip(CORE_CONTRACT["forbidden_modules"], rooms, strict=False)
    ]


def core_file(module: str) -> str:
    """The file of a core module itself, or a new file in its package."""
    path = module.replace(".", "/")
    return f"{path}/planted.py" if (ROOT / path).is_dir() else f"{path}.py"


def test_the_untouched_copy_keeps_every_contract_and_every_rule(scratch: ScratchCopy) -> None:
    assert {plant.rule for plant in [*PLANTS, *ALONE]} | {CORE} == set(NAMES)
    assert scratch.lint_imports() == ""
    assert scratch.ruff(".") == []


@pytest.mark.parametrize("contract", [name for name in NAMES if name != CIRCLES])
def test_every_planted_import_breaks_its_contract_and_is_named(scratch: ScratchCopy, contract: str) -> None:
    plants = [plant for plant in [*PLANTS, *core_plants()] if plant.rule == contract]
    lines = [scratch.plant(plant.path, plant.line) for plant in plants]
    report = scratch.lint_imports()
    assert f"{contract} BROKEN" in report
    parts = re.split(r" -{10,}", report)  # a contract's name is underlined, and what breaks it follows
    result = next(after for before, after in itertools.pairwise(parts) if before.endswith(f" {contract}"))
    modules = [plant.path.removesuffix(".py").replace("/", ".") for plant in plants]
    named = [
        rf"{re.escape(module)} -> \S+ \((l\.\d+, )*l\.{line}\b"
        for module, line in zip(modules, lines, strict=True)
    ]
    assert [plant for plant, name in zip(plants, named, strict=True) if not re.search(name, result)] == []


@pytest.mark.parametrize("plant", ALONE, ids=lambda plant: f"{plant.path}: {plant.line}")
def test_a_planted_circle_or_room_breaks_its_contract(scratch: ScratchCopy, plant: Plant) -> None:
    scratch.plant(plant.path, plant.line)
    assert f"{plant.rule} BROKEN" in scratch.lint_imports()


def test_a_forbidden_import_behind_another_module_breaks_the_contract_too(scratch: ScratchCopy) -> None:
    scratch.plant("streamer/planted_helper.py", "import time")
    scratch.plant("streamer/statistics/planted.py", "import streamer.planted_helper")
    assert f"{CORE} BROKEN" in scratch.lint_imports()


@pytest.mark.parametrize(
    ("rule", "lines"),
    [(rule, lines) for rule, plants in CLOCK_CHANCE_AND_FILES.items() for lines in plants],
    ids=lambda value: value.splitlines()[-1],
)
def test_a_planted_line_breaks_its_rule(scratch: ScratchCopy, rule: str, lines: str) -> None:
    scratch.plant("streamer/score/planted.py", f'"""Planted."""\n\n{lines}')
    assert any(f" {rule} " in line for line in scratch.ruff("streamer/score/planted.py"))


@pytest.mark.parametrize("name", BANNED)
def test_every_banned_name_is_stopped_in_the_core(scratch: ScratchCopy, name: str) -> None:
    root = name.partition(".")[0]
    scratch.plant("streamer/folding/planted.py", f"import {root}\n\nPLANTED = {name}")
    result = scratch.ruff("streamer/folding/planted.py")
    assert any(f"TID251 `{name}` is banned: {BANNED[name]['msg']}" in line for line in result)


CORE_FILES = [*map(core_file, CORE_CONTRACT["source_modules"])]


@pytest.mark.parametrize("path", [*CORE_FILES, "streamer/planted.py", "streamer/a_new_room/planted.py"])
def test_the_bans_hold_in_all_that_is_not_named_an_edge(scratch: ScratchCopy, path: str) -> None:
    scratch.plant(path, "import time")
    assert any(" TID251 `time`" in line for line in scratch.ruff(path))


def test_every_exemption_from_the_bans_names_something_that_exists() -> None:
    """An edge that no longer exists must not keep its exemption."""
    names = [str(path.relative_to(ROOT)) for path in tracked_files() if path.suffix == ".py"]
    alternatives = [part for pattern in EXEMPT for part in expanded(pattern)]
    assert [part for part in alternatives if not fnmatch.filter(names, part)] == []


def expanded(pattern: str) -> list[str]:
    """`a/{b,c}/**` as `a/b/**` and `a/c/**`."""
    before, _, rest = pattern.partition("{")
    names, _, after = rest.partition("}")
    return [before + name + after for name in names.split(",")]
