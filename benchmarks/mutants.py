"""How many planted faults the quick tests of statistics and folding catch.

    python -m benchmarks.mutants [--sample N] [--seed N] [--out FILE] [TREE]

A mutant is the package with one small fault: another comparison, operator or constant, a condition turned
round, or a statement left out. Each runs in a copy of TREE (a checkout; default this one) against the tests
that enter its function, cheapest first, until one fails. A first run of all tests learns which those are.

The sample depends on the seed and the text of the functions alone. So two trees share the mutants of all
functions that they share, whatever their lines are numbered. A mutant that only times out counts as caught.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copy2
from types import CodeType, FrameType
from typing import Any

import pytest

from benchmarks.common import table

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("statistics", "folding")
TESTS = ["tests/statistics", "tests/folding", "tests/golden"]
PYTEST = ["-q", "-n", "0", "-m", "quick", "-p", "no:cacheprovider", "--hypothesis-seed", "0", "--tb", "line"]
MOST_SECONDS = 40.0
"""Tests of one mutant, by what they took on the correct package; the cheapest tests come first."""
PATIENCE = 600
"""Seconds until a mutant counts as one that never ends."""

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True)
class Mutant:
    """One fault: `old` at some place of a function becomes `new`.

    Attributes:
        path: of the module, below the root.
        function: its qualified name; empty for the body of the module.
        statement: text of the statement around it; for one with a body, only its head.
        occurrence: 0 for the first place of the function with the same texts.
        begin, end: offsets in the source of the module, in bytes.
    """

    path: str
    function: str
    statement: str
    old: str
    new: str
    occurrence: int
    begin: int
    end: int

    def key(self, seed: int) -> str:
        """Its place in the sample; lines above and below do not change it."""
        parts = (seed, self.path, self.function, self.statement, self.old, self.new, self.occurrence)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


class Finder(ast.NodeVisitor):
    """Collects the mutants of a module. Text, annotations, imports and raised errors have none."""

    def __init__(self, path: str, source: str) -> None:
        self.mutants: list[Mutant] = []
        self._path, self._source = path, source.encode()
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._statement = ""
        self._seen: Counter[tuple[str, ...]] = Counter()
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement = ast.unparse(node).partition("\n")[0]
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.JoinedStr() | ast.Assert():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._scope += [node.name] if isinstance(node, ast.ClassDef) else [node.name, "<locals>"]
                for child in node.body:
                    self.visit(child)
                del self._scope[-1 if isinstance(node, ast.ClassDef) else -2 :]
                return
            case ast.AnnAssign():
                if node.value is not None:
                    self.visit(node.value)
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
        for new in changes_of(node):
            self._add(node, new)
        self.generic_visit(node)

    def _add(self, node: Any, new: str) -> None:
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        old = self._source[begin:end].decode()
        scope = self._scope[:-1] if self._scope[-1:] == ["<locals>"] else self._scope
        texts = (self._path, ".".join(scope), self._statement, old, new)
        self.mutants.append(Mutant(*texts, self._seen[texts], begin, end))
        self._seen[texts] += 1


def changes_of(node: ast.AST) -> Iterator[str]:
    """The texts that may replace a node."""
    match node:
        case ast.Compare(ops=[operator]):
            for other in COMPARISONS[type(operator)]:
                yield f"({ast.unparse(ast.Compare(node.left, [other()], node.comparators))})"
        case ast.BinOp() if type(node.op) in OPERATORS and not is_text(node):
            yield f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))})"
        case ast.BoolOp():
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other_op, node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool()):
            yield repr(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield repr(number + 1)
        case ast.IfExp():
            yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
        case ast.AugAssign() if type(node.op) in OPERATORS:
            yield "pass"
            yield ast.unparse(ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value))
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Continue():
            yield "break"


def is_text(node: ast.BinOp) -> bool:
    """Whether an operand is a literal text."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def mutants_of(tree: Path) -> list[Mutant]:
    """All mutants of the rooms."""
    files = [file for room in ROOMS for file in sorted((tree / "streamer" / room).rglob("*.py"))]
    return [
        mutant
        for file in files
        for mutant in Finder(file.relative_to(tree).as_posix(), file.read_text("utf-8")).mutants
    ]


def copied(tree: Path, target: Path) -> None:
    """Copy all files of a checkout that git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=tree, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (tree / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(tree / name, target / name)
    subprocess.run(["git", "init", "--quiet"], cwd=target, check=True)
    copy2(__file__, target / "benchmarks" / "mutants.py")


# -----------------------------------------------------------------------------
# Which tests enter a function. This module is a plugin of pytest in the copy.

entered: dict[str, set[CodeType]] = {}
seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the code objects that a test enters, with its fixtures."""
    codes = entered.setdefault(item.nodeid, set())

    def trace(frame: FrameType, event: str, argument: object) -> None:
        codes.add(frame.f_code)

    began = time.perf_counter()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        seconds[item.nodeid] = time.perf_counter() - began


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests with their seconds and the functions that each enters, as `path:function`."""
    rooms = tuple(f"streamer/{room}/" for room in ROOMS)
    here = f"{session.config.rootpath.resolve()}/"
    tests = {}
    for test, codes in entered.items():
        names = {f"{code.co_filename.removeprefix(here)}:{code.co_qualname}" for code in codes}
        tests[test] = [seconds[test], sorted(name for name in names if name.startswith(rooms))]
    Path("entered.json").write_text(json.dumps(tests), "utf-8")


@dataclass(frozen=True)
class KnownTest:
    """A test with what it took and the functions that it enters."""

    name: str
    seconds: float
    functions: frozenset[str]


def learned(copy: Path) -> list[KnownTest]:
    """All tests, cheapest first. They must pass."""
    run = outcome_of(copy, "-p", "benchmarks.mutants", *TESTS, patience=6 * PATIENCE)
    if run is None or run.returncode:
        raise SystemExit(f"The tests fail without any fault. Mend them first:\n{run and run.stdout[-3000:]}")
    tests = json.loads((copy / "entered.json").read_text("utf-8"))
    known = [KnownTest(name, took, frozenset(functions)) for name, (took, functions) in tests.items()]
    return sorted(known, key=lambda test: test.seconds)


def outcome_of(copy: Path, *arguments: str, patience: float) -> subprocess.CompletedProcess[str] | None:
    """Run pytest in the copy; None if it does not end."""
    command = [sys.executable, "-m", "pytest", *PYTEST, *arguments]
    try:
        return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return None


def chosen_for(mutant: Mutant, tests: list[KnownTest]) -> list[str]:
    """The tests that enter its function; for a fault outside functions, those that enter the module."""
    key = f"{mutant.path}:{mutant.function}"
    chosen = [test for test in tests if key in test.functions]
    chosen = chosen or [
        test for test in tests if any(one.startswith(f"{mutant.path}:") for one in test.functions)
    ]
    names, spent = [], 0.0
    for test in chosen:
        spent += test.seconds
        if spent > MOST_SECONDS:
            break
        names.append(test.name)
    return names


def caught_by(mutant: Mutant, copy: Path, tests: list[KnownTest]) -> str:
    """What caught the mutant: the line of pytest that names the failed test, "time" or nothing."""
    module = copy / mutant.path
    source = module.read_bytes()
    names = chosen_for(mutant, tests)
    try:
        module.write_bytes(source[: mutant.begin] + mutant.new.encode() + source[mutant.end :])
        compile(module.read_bytes(), mutant.path, "exec")
        run = outcome_of(copy, "-x", *names, patience=PATIENCE) if names else None
    finally:
        module.write_bytes(source)
    if not names or (run and run.returncode == 0):
        return ""
    failures = run.stdout.splitlines() if run else []
    return next(
        (line for line in failures if line.startswith(("FAILED", "ERROR"))), "an error" if run else "time"
    )


def main() -> None:
    """Run the sample, and print the score of each room and the mutants that survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=80, help="mutants (80)")
    parser.add_argument("--seed", type=int, default=7, help="of the sample (7)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "mutants.json", help="results (build/mutants.json)"
    )
    parser.add_argument("tree", metavar="TREE", nargs="?", type=Path, default=ROOT, help="a checkout")
    options = parser.parse_args()
    sample = sorted(mutants_of(options.tree), key=lambda mutant: mutant.key(options.seed))[: options.sample]
    results: list[tuple[Mutant, str]] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copied(options.tree, Path(folder))
        tests = learned(Path(folder))
        for mutant in sample:
            results.append((mutant, caught_by(mutant, Path(folder), tests)))
            print(f"{len(results):4} {results[-1][1] or 'SURVIVES'}", file=sys.stderr, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(mutant) | {"caught": caught} for mutant, caught in results]
    options.out.write_text(json.dumps(rows, indent=1), "utf-8")
    print(report(results))


def report(results: list[tuple[Mutant, str]]) -> str:
    """The score of each room, then each mutant that survives."""
    rows: list[list[object]] = [["room", "mutants", "caught", "score"]]
    for room in (*ROOMS, ""):
        caught = [bool(by) for mutant, by in results if mutant.path.startswith(f"streamer/{room}")]
        rows.append([room or "total", len(caught), sum(caught), f"{sum(caught) / max(1, len(caught)):.0%}"])
    lines = [
        f"{mutant.path}:{mutant.function}: {mutant.statement}\n    {mutant.old} -> {mutant.new}"
        for mutant, by in results
        if not by
    ]
    return "\n".join([table(rows), "", "Survivors:", *lines])


if __name__ == "__main__":
    main()
