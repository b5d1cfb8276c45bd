"""How much code there is, room by room: `python -m benchmarks.lines [TREE]`.

TREE is a checkout of this repository; the default is the one that holds this file. The table says for each
room of `streamer/`:

- `code`: lines that hold code. Blank lines, comments and docstrings are left out. A docstring is any
  statement that is only a string. A blank line inside another string is part of the code.
- `imports`: lines of import statements, apart from `code`. An import over several lines counts all of them.
- `imports %`: the share of the imports in all lines of the files.
- `statements`: nodes of the syntax tree that are statements. They do not depend on how the code is wrapped.

JavaScript stands in a table of its own: lines that are neither blank nor a comment.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import table

PACKAGE = "streamer"
SCRIPTS = ("web/static/js", "web/report_static")
"""Folders of JavaScript, below the package."""

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that make no line a line of code."""


@dataclass
class Count:
    """What was counted in some Python files; `lines` are all of theirs."""

    code: int = 0
    imports: int = 0
    lines: int = 0
    statements: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.code + other.code,
            self.imports + other.imports,
            self.lines + other.lines,
            self.statements + other.statements,
        )

    def cells(self) -> list[object]:
        """The cells of its row, behind the name."""
        share = f"{100 * self.imports / self.lines if self.lines else 0:.1f} %"
        return [self.code, self.imports, self.code + self.imports, self.lines, share, self.statements]


HEAD = ["room", "code", "imports", "both", "all lines", "imports %", "statements"]


def count_python(source: str) -> Count:
    """Count the lines of one Python file."""
    nodes = list(ast.walk(ast.parse(source)))
    imports = _lines_of(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    docstrings = _lines_of(node for node in nodes if _is_docstring(node))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    return Count(len(code - docstrings - imports), len(imports), len(source.splitlines()), statements)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _lines_of(nodes: Iterable[ast.AST]) -> set[int]:
    return {
        line
        for node in nodes
        if isinstance(node, ast.stmt)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def count_javascript(source: str) -> int:
    """Count the lines of one JavaScript file that are neither blank nor a comment."""
    count, in_comment = 0, False
    for line in map(str.strip, source.splitlines()):
        if in_comment or line.startswith("/*"):
            _, ended, behind = line.partition("*/")
            in_comment = not ended
            line = behind.strip()
        count += bool(line) and not line.startswith("//")
    return count


def rooms(tree: Path) -> Iterator[tuple[str, Count]]:
    """The rooms of the package by name, folders and modules alike, with their counts."""
    package = tree / PACKAGE
    for path in sorted(package.iterdir()):
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path] * (path.suffix == ".py")
        if files:
            yield path.stem, sum((count_python(file.read_text("utf-8")) for file in files), Count())


def scripts(tree: Path) -> Iterator[tuple[str, int]]:
    """The folders of JavaScript, with their counts."""
    for name in SCRIPTS:
        files = sorted((tree / PACKAGE / name).rglob("*.js"))
        yield name, sum(count_javascript(file.read_text("utf-8")) for file in files)


def report(tree: Path) -> str:
    """Both tables, each with a row for all."""
    counted, written = dict(rooms(tree)), dict(scripts(tree))
    python: list[Sequence[object]] = [HEAD, *([name, *count.cells()] for name, count in counted.items())]
    python.append(["total", *sum(counted.values(), Count()).cells()])
    javascript: list[Sequence[object]] = [["JavaScript", "code"], *written.items()]
    javascript.append(["total", sum(written.values())])
    return f"{table(python)}\n\n{table(javascript)}"


def main() -> None:
    """Print the tables of a tree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("tree", metavar="TREE", nargs="?", type=Path, default=here, help="a checkout")
    tree: Path = parser.parse_args().tree
    if not (tree / PACKAGE).is_dir():
        parser.error(f"{tree} holds no folder {PACKAGE}/; give the root of a checkout")
    print(report(tree))


if __name__ == "__main__":
    main()
