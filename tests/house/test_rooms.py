"""The tree is the diagram: few rooms, and modules that are read from top to bottom.

Two gates once cut the tree into slips: 300 lines a module, and one test file for each module. These hold the
opposite: rooms, modules and functions have a size to aim at, and tests stand in the folder of their room.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import Counter
from pathlib import Path

from tests.house.repository import ROOT, pyproject, tracked_files

PACKAGE = ROOT / "streamer"
MODULES = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(PACKAGE)]
TESTS = [path for path in tracked_files() if path.is_relative_to(ROOT / "tests") and path.suffix == ".py"]

MOST_ROOMS = 12
MOST_MODULES = 145
MOST_IN_A_FOLDER = 13
MOST_LINES = 900
MEDIAN_LINES = range(300, 501)
MOST_IMPORT_PERCENT = 7.1
MOST_TEST_MODULES = 156

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


def test_tests_stand_in_the_folder_of_their_room_and_none_in_the_product() -> None:
    rooms = {path.parent.name for path in MODULES if path.parent.parent == PACKAGE}
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in TESTS if path.parent != ROOT / "tests"}
    assert folders <= rooms | NOT_A_ROOM
    assert [path.name for path in MODULES if re.match(r"test_|.*_test\.", path.name)] == []
    assert len([path for path in TESTS if path.name.startswith("test_")]) <= MOST_TEST_MODULES


PAGE = "docs/architecture.md"
"""Draws the tree."""

TREE = re.compile(r"^```\n(streamer/\n.*?)^```$", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?P<indent> *)(?P<name>[\w.]+/?)(?: +(?P<says>\S.*))?$")


def drawn() -> list[tuple[str, str]]:
    """(path, description) of each line of the tree on the page."""
    result = TREE.findall((ROOT / PAGE).read_text("utf-8"))
    assert len(result) == 1, f"{PAGE} draws {len(result)} trees that begin with streamer/"
    lines, above = [], ""
    for text in result[0].splitlines():
        match = LINE.match(text)
        assert match, f"{PAGE}: {text!r} is not `name description`"
        above = match["name"] if not match["indent"] else above
        lines.append(((above if match["indent"] else "") + match["name"], match["says"] or ""))
    return lines


def there() -> set[str]:
    """Top folders that hold Python or the documents, and every package and module right under streamer/."""
    result = {"docs/", "schemas/"}
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        if path.suffix == ".py" and len(parts) > 1:
            result.add(f"{parts[0]}/")
            if parts[0] == "streamer":
                result.add("/".join(parts[:2]) + ("/" if len(parts) > 2 else ""))
    return result - {"streamer/__init__.py"}


def test_the_drawn_tree_has_and_describes_every_package_and_root_module_once_and_nothing_else() -> None:
    assert sorted(path for path, _ in drawn()) == sorted(there())
    assert [path for path, says in drawn() if not says] == ["streamer/"]


def test_the_tree_of_streamer_stands_in_the_order_of_the_layers() -> None:
    """So that a package imports only what stands above it."""
    layers: list[str] = pyproject()["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {name: number for number, layer in enumerate(reversed(layers)) for name in layer.split(" | ")}
    paths = [path for path, _ in drawn() if path.startswith("streamer/")][1:]
    floors = [floor[path.removeprefix("streamer/").removesuffix("/").removesuffix(".py")] for path in paths]
    assert floors == sorted(floors)
