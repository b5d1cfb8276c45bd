"""Lines of code and imports, counted in made-up files by hand."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.lines import Count, count_javascript, count_python, report, rooms, scripts
from benchmarks.mutants import SAMPLE, Finder
from benchmarks.mutants import report as report_of_mutants
from tests.house.repository import ROOT, ran

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


BOX = """
from functools import cache

class Box:
    def largest(self, sizes):
        return max((size for size in sizes if size < self.limit()), default=0)

    @staticmethod
    @cache
    def limit():
        return 3

    def unused(self):
        return 1
"""
TESTS_OF_BOX = """
from box import Box

def test_a_box_has_a_limit(): assert Box().limit() in (3, 4)
def test_the_largest_that_fits(): assert Box().largest([1, 2, 3]) == 2
"""


def test_a_mutant_meets_the_tests_that_enter_its_function_and_no_file_changes(tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text(BOX)
    (tmp_path / "test_box.py").write_text(TESTS_OF_BOX)
    sample = [asdict(mutant) for mutant in Finder("box.py", BOX).mutants]
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    variables = os.environ | {SAMPLE: str(tmp_path / "sample.json"), "PYTHONPATH": str(ROOT)}
    ran(*command, "-p", "benchmarks.mutants", "test_box.py", cwd=tmp_path, env=variables)
    results = json.loads((tmp_path / "sample.json").read_text())
    assert [(one["new"], one["caught"].partition("::")[2], one["tests"]) for one in results] == [
        ("(size <= self.limit())", "test_the_largest_that_fits", 1),
        ("(size >= self.limit())", "test_the_largest_that_fits", 1),
        ("1", "", 1),
        ("4", "test_the_largest_that_fits", 2),
        ("2", "", 0),
    ]
    assert (tmp_path / "box.py").read_text() == BOX
    assert "box.py:Box.unused (0 tests): return 1\n    1 -> 2" in report_of_mutants(results)
