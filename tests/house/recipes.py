"""Recipes of CONTRIBUTING.md, followed in a copy of the product: the code on the page is what is applied."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.house.repository import ROOT, ran

PAGE = ROOT / "CONTRIBUTING.md"
STEP = re.compile(
    r"^\d+\. In `([\w/]+\.py)`.*?at the end of (?:`(\w+)`|the (\w+)).*?^   ```python\n(.*?)^   ```",
    re.DOTALL | re.MULTILINE,
)
MODULE, IMPORTS = "module", "imports"
"""Places of a file that have no name of their own."""


class Step(NamedTuple):
    """One step of a recipe: `code` goes to the end of `place`, in the file at `path`.

    `place` is a class, a function that returns a dict, or a tuple, list or dict of that name; or MODULE or
    IMPORTS.
    """

    path: str
    place: str
    code: str


def section(title: str) -> str:
    _, result, rest = PAGE.read_text("utf-8").partition(f"\n## {title}\n")
    assert result, f"CONTRIBUTING.md has no section `{title}`"
    return rest.partition("\n## ")[0]


def steps(title: str) -> list[Step]:
    """The steps of the recipe; every indented python block belongs to one."""
    text = section(title)
    found = STEP.findall(text)
    result = [Step(path, name or place, textwrap.dedent(code)) for path, name, place, code in found]
    assert len(result) == text.count("\n   ```python"), "a block without file and place"
    assert result, f"no step in section `{title}`"
    return result


def copied(tree: Path, names: Iterable[str] = ("streamer",)) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "data", "recorded")
    for name in names:
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    return tree


def follow(tree: Path, recipe: Iterable[Step]) -> None:
    for step in recipe:
        file = tree / step.path
        file.write_text(with_code(file.read_text("utf-8"), step), encoding="utf-8")


def with_code(source: str, step: Step) -> str:
    body = ast.parse(source).body
    if step.place == MODULE:
        return f"{source}\n\n{step.code}"
    if step.place == IMPORTS:
        last = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)][-1]
        column, line = last.col_offset, last.end_lineno
    else:
        [node] = [node for node in body if step.place in names_of(node)]
        column, line = _end_of(node)
    lines = source.splitlines(keepends=True)
    lines.insert(line or 0, textwrap.indent(step.code, " " * column))
    return "".join(lines)


def _end_of(node: Any) -> tuple[int, int]:
    """Column and line of the last part of a class, or of a tuple, list or dict, assigned or returned."""
    if isinstance(node, ast.ClassDef):
        return node.body[-1].col_offset, node.body[-1].end_lineno or 0
    value = node.body[-1].value if isinstance(node, ast.FunctionDef) else node.value
    stored: Any = next(part for part in ast.walk(value) if isinstance(part, ast.Tuple | ast.List | ast.Dict))
    if isinstance(stored, ast.Dict):
        return (stored.keys[-1] or stored.values[-1]).col_offset, stored.values[-1].end_lineno or 0
    return stored.elts[-1].col_offset, stored.elts[-1].end_lineno


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def python_files(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in (tree / "streamer").rglob("*.py")}


def touched(tree: Path, before: Mapping[str, bytes]) -> set[str]:
    after = python_files(tree)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def environment(tree: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(tree)}


def run_python(tree: Path, program: str) -> str:
    return ran(sys.executable, "-c", program, cwd=tree, env=os.environ | environment(tree)).stdout


def run_make(tree: Path, command: list[str]) -> None:
    """Run a `make` command in the copy, with the interpreter of this test and nothing installed."""
    program = [*command, "STAMP=", f"BIN={Path(sys.executable).parent}"]
    ran(*program, cwd=tree, env=os.environ | environment(tree))
