"""The tree is the diagram: few rooms, and modules that are read from top to bottom.

Two gates once cut the tree into slips: 300 lines a module, and one test file for each module. These hold the
opposite: rooms, modules and functions have a size to aim at, and tests stand in the folder of their room.
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path

from tests.house.repository import ROOT, tracked_files

PACKAGE = ROOT / "streamer"
MODULES = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(PACKAGE)]
TESTS = [path for path in tracked_files() if path.is_relative_to(ROOT / "tests") and path.suffix == ".py"]

MOST_ROOMS = 12
MOST_MODULES = 145
MOST_IN_A_FOLDER = 13
MOST_LINES = 900
MEDIAN_LINES = range(300, 501)
MOST_IMPORT_PERCENT = 7.1
MOST_TEST_MODULES = 224

NOT_A_ROOM = {"benchmarks", "conformance", "data", "faults", "fuzz", "golden", "house", "security", "support"}
"""Folders of tests that are about the whole, or about what is beside it."""

SMALL = 150
MOST_SMALL = 24
"""Modules below SMALL lines: heads of packages, programs run by `-m`, and few others."""


def lines_of(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_there_are_few_rooms_one_level_deep_and_few_modules() -> None:
    deep = [str(path.relative_to(ROOT)) for path in MODULES if len(path.relative_to(PACKAGE).parts) > 3]
    assert deep == []
    rooms = {path.relative_to(PACKAGE).parts[0] for path in MODULES if path.parent != PACKAGE}
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)
    assert len(MODULES) <= MOST_MODULES


def test_a_folder_is_seen_at_a_glance() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES)
    assert {folder: count for folder, count in counts.items() if count > MOST_IN_A_FOLDER} == {}


def test_a_module_is_read_in_one_sitting() -> None:
    lines = {str(path.relative_to(ROOT)): lines_of(path) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    assert int(statistics.median(lines.values())) in MEDIAN_LINES
    assert len([name for name, count in lines.items() if count < SMALL]) <= MOST_SMALL


def test_imports_take_a_small_share_of_the_lines() -> None:
    """Docstrings do not count, so that shorter ones break nothing."""
    imports = docstrings = total = 0
    for path in MODULES:
        source = path.read_text("utf-8")
        total += len(source.splitlines())
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Import() | ast.ImportFrom():
                    imports += (node.end_lineno or node.lineno) - node.lineno + 1
                case ast.Expr(value=ast.Constant(value=str())):
                    docstrings += (node.end_lineno or node.lineno) - node.lineno + 1
    assert 100 * imports / (total - docstrings) <= MOST_IMPORT_PERCENT


def test_no_module_only_hands_on() -> None:
    """A module that defines nothing is a head of a package or a program, or it should not exist."""
    handing = ast.Import | ast.ImportFrom | ast.Expr
    others = [path for path in MODULES if path.name not in {"__init__.py", "__main__.py"}]
    bodies = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")).body for path in others}
    assert [name for name, body in bodies.items() if all(isinstance(node, handing) for node in body)] == []


def test_no_module_of_the_product_looks_like_a_test() -> None:
    assert [
        path.name for path in MODULES if path.name.startswith("test_") or path.stem.endswith("_test")
    ] == []


def test_tests_stand_in_the_folder_of_their_room() -> None:
    rooms = {path.parent.name for path in MODULES if path.parent.parent == PACKAGE}
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in TESTS if path.parent != ROOT / "tests"}
    assert folders <= rooms | NOT_A_ROOM


def test_there_are_few_test_modules() -> None:
    assert len([path for path in TESTS if path.name.startswith("test_")]) <= MOST_TEST_MODULES
