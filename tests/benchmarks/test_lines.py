"""Lines of code and imports, counted in made-up files by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.lines import Count, count_javascript, count_python, report, rooms, scripts
from benchmarks.mutants import Finder, KnownTest, caught_by, chosen_for
from tests.house.repository import ROOT

MODULE = '''"""Line 1 of the docstring,

and line 3."""

# A comment.
import os
from collections import (  # this import has four lines,
    # a comment among them
    Counter,
)

LIMIT = 3  # code
"""What LIMIT is."""

TEXT = """
# no comment

"""


class Box:
    """Holds things."""

    def __init__(self) -> None:
        """Make it."""
        import json

        self.things = Counter(
            json.loads("[1, 2]"),
        )
        self.where = os.sep; self.most = LIMIT
'''

SCRIPT = """// Says hello.
import { log } from "./log.js";

/* A comment
   of two lines. */
log("hello"); // code
/* short */ log("again");
/* A comment alone. */
"""


def test_docstrings_comments_and_blank_lines_are_no_code() -> None:
    """Code: LIMIT, four lines of TEXT, class, def, three lines of `things`, two statements in one line."""
    assert count_python(MODULE) == Count(code=11, imports=6, lines=31, statements=14)


def test_an_empty_file_has_nothing() -> None:
    assert count_python("") == Count()
    assert Count().cells() == [0, 0, 0, 0, "0.0 %", 0]


def test_comments_of_javascript_are_left_out() -> None:
    assert count_javascript(SCRIPT) == 3


def test_rooms_are_folders_and_modules_and_the_total_is_their_sum(tmp_path: Path) -> None:
    for name in ("streamer/box/one.py", "streamer/box/deep/two.py", "streamer/text.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(MODULE)
    (tmp_path / "streamer/web/static/js").mkdir(parents=True)
    (tmp_path / "streamer/web/static/js/hello.js").write_text(SCRIPT)
    one = count_python(MODULE)
    assert dict(rooms(tmp_path)) == {"box": one + one, "text": one}
    assert report(tmp_path).splitlines() == [
        "room   code  imports  both  all lines  imports %  statements",
        "-----  ----  -------  ----  ---------  ---------  ----------",
        "box    22    12       34    62         19.4 %     28",
        "text   11    6        17    31         19.4 %     14",
        "total  33    18       51    93         19.4 %     42",
        "",
        "JavaScript         code",
        "-----------------  ----",
        "web/static/js      3",
        "web/report_static  0",
        "total              3",
    ]


def test_this_tree_has_code_in_every_room_and_javascript() -> None:
    result = dict(rooms(ROOT))
    assert {"folding", "terminal", "text", "worker"} < result.keys()
    for name, count in result.items():
        assert name == "__init__" or 0 < count.imports < count.code < count.lines
    assert all(count > 0 for _, count in scripts(ROOT))


# -----------------------------------------------------------------------------
# Mutants: one small fault each, in the sample by their text alone, against the tests of their function.


FAULTY = '''LIMIT = 3


class Box:
    def fits(self, size: int) -> bool:
        """Not 3 or more."""
        if size < LIMIT and not self.full():
            self.sizes[size] = size + 1
            return True
        raise ValueError(f"{size - 1} is too large")
'''


def test_each_fault_is_one_change_of_what_is_computed() -> None:
    mutants = Finder("box.py", FAULTY).mutants
    changes = [(mutant.function, mutant.old, mutant.new) for mutant in mutants]
    assert changes == [
        ("", "3", "4"),
        ("Box.fits", "size < LIMIT and not self.full()", "(size < LIMIT or not self.full())"),
        ("Box.fits", "size < LIMIT", "(size <= LIMIT)"),
        ("Box.fits", "size < LIMIT", "(size >= LIMIT)"),
        ("Box.fits", "not self.full()", "(self.full())"),
        ("Box.fits", "self.sizes[size] = size + 1", "pass"),
        ("Box.fits", "size + 1", "(size - 1)"),
        ("Box.fits", "1", "2"),
        ("Box.fits", "True", "False"),
    ]
    lower = {mutant.key(7) for mutant in Finder("box.py", f"import os\n\n{FAULTY}").mutants}
    assert lower == {mutant.key(7) for mutant in mutants}
    assert lower.isdisjoint(mutant.key(8) for mutant in mutants)


def test_a_mutant_meets_the_tests_of_its_function_and_falls_or_survives(tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text("def limit():\n    return 3\n")
    (tmp_path / "test_box.py").write_text(
        "import box, pytest\n@pytest.mark.quick\ndef test_a(): assert box.limit() == 3\n"
        "@pytest.mark.quick\ndef test_b(): assert box.limit()\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = quick\npythonpath = .\n")
    [mutant] = Finder("box.py", (tmp_path / "box.py").read_text()).mutants
    exact, weak = (KnownTest(f"test_box.py::test_{name}", 0.1, frozenset({"box.py:limit"})) for name in "ab")
    assert "test_a" in caught_by(mutant, tmp_path, [weak, exact])
    assert caught_by(mutant, tmp_path, [weak]) == caught_by(mutant, tmp_path, []) == ""
    assert chosen_for(mutant, [replace(exact, functions=frozenset({"box.py:other"}))]) == [exact.name]
    assert (tmp_path / "box.py").read_text() == "def limit():\n    return 3\n"
