"""Lines of code and imports, counted in made-up files by hand."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lines import Count, count_javascript, count_python, report, rooms, scripts
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
