"""A module's tests stand under its name.

The tests of streamer/ROOM/NAME.py are in tests/ROOM/test_NAME.py, and those of a room in its test_ROOM.py.
A room within a room has no folder of its own: worker/recovery/repair.py has tests/worker/test_repair.py.
If the name alone says too little, its room stands before it: test_formulacode_score.py.

A doctest counts as the module's tests. A module that hardly decides anything needs no tests: constants,
protocols, models, a call handed on. The few others stand in `SHOWN_ELSEWHERE`, with the tests that show what
they do.
"""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import pytest

from tests.house.repository import ROOT, tracked_files

FEW_DECISIONS = 2
"""A module with more branches than these needs tests."""

SHOWN_ELSEWHERE = {
    "streamer/cli/rebuild.py": "tests/ops/test_rebuild.py",
    "streamer/watch/live_screen.py": "tests/watch/test_run_screen.py",
}
"""Module -> the tests that show what it does, on whole commands, screens or workers. Keep this list short."""

PACKAGE = ROOT / "streamer"
MODULES = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(PACKAGE)]
BRANCHES = (ast.If, ast.IfExp, ast.While, ast.ExceptHandler, ast.match_case, ast.BoolOp)


def name_of(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


def places(module: Path) -> list[Path]:
    """Where the tests of a module may be."""
    *rooms, name = module.relative_to(PACKAGE).with_suffix("").parts
    if name == "__init__":
        name = rooms[-1] if rooms else PACKAGE.name
    folder = ROOT.joinpath("tests", *rooms[:1])
    return [folder / f"test_{words}.py" for words in (name, *(f"{room}_{name}" for room in rooms[1:]))]


def decisions(source: str) -> int:
    """How many branches the code has; those around imports for types do not count."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.comprehension):
            found += len(node.ifs)
        elif isinstance(node, BRANCHES):
            found += not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return found


def has_doctest(source: str) -> bool:
    return bool(doctest.DocTestParser().get_examples(source))


def needs_tests(module: Path) -> bool:
    """True if nothing in the module itself is reason enough to have no tests of its own."""
    source = module.read_text("utf-8")
    return decisions(source) > FEW_DECISIONS and not has_doctest(source)


def test_a_modules_tests_stand_under_its_name() -> None:
    missing = {
        name_of(module): [name_of(place) for place in places(module)]
        for module in MODULES
        if name_of(module) not in SHOWN_ELSEWHERE
        and not any(place.exists() for place in places(module))
        and needs_tests(module)
    }
    assert missing == {}, "write one of the files that are named for each module, or a doctest"


@pytest.mark.parametrize(("module", "tests"), SHOWN_ELSEWHERE.items())
def test_a_module_that_is_shown_elsewhere_has_no_tests_under_its_name(module: str, tests: str) -> None:
    path = ROOT / module
    assert path.exists(), "take it off the list SHOWN_ELSEWHERE: it is gone"
    assert (ROOT / tests).exists(), "name the tests that show it now"
    assert needs_tests(path), "take it off the list SHOWN_ELSEWHERE: it needs no tests"
    assert not any(place.exists() for place in places(path)), "take it off the list: it has tests"


def test_decisions_are_counted() -> None:
    source = """
if TYPE_CHECKING:
    import a
def f(x):
    try:
        return [y for y in x if y] if x else None
    except ValueError:
        pass
    while x and x:
        match x:
            case 1:
                pass
"""
    assert decisions(source) == 6


@pytest.mark.parametrize(
    ("module", "tests"),
    [
        ("streamer/text.py", ["tests/test_text.py"]),
        ("streamer/web/hub.py", ["tests/web/test_hub.py"]),
        ("streamer/cli/__init__.py", ["tests/cli/test_cli.py"]),
        ("streamer/worker/faust/app.py", ["tests/worker/test_app.py", "tests/worker/test_faust_app.py"]),
    ],
)
def test_the_place_of_a_modules_tests_follows_from_its_own(module: str, tests: list[str]) -> None:
    assert [name_of(place) for place in places(ROOT / module)] == tests
