"""How many planted faults the quick tests of statistics and folding catch.

    python -m benchmarks.mutants [--sample N] [--seed N] [--out FILE]

A mutant is a function with one small fault: another comparison, operator or constant, a condition turned
round, or a statement left out. Each meets the tests that enter its function, cheapest first, until one fails.

One run of pytest does it all, and changes no file. It runs every test once and notes which functions of the
sample it enters. Then a forked process for each mutant puts the fault into the loaded function.

The sample depends on the seed and the text of the functions alone. So two checkouts share the mutants of all
functions that they share, whatever their lines are numbered. A mutant that only times out counts as caught.

What stands outside of functions has no mutants: constants, and the tables of a summary's fields.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.common import table

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("statistics", "folding")
TESTS = ["tests/statistics", "tests/folding", "tests/golden"]
PYTEST = ["-q", "-n", "0", "-m", "quick", "-p", "no:cacheprovider", "--hypothesis-seed", "0", "--tb", "no"]
SAMPLE = "MUTANTS_OF_BENCHMARKS"
"""Environment variable: the file with the sample, to which the results go."""
MOST_SECONDS = 20.0
"""Processor time for the tests of one mutant, as the correct package takes it; the cheapest come first."""
PATIENCE = 120.0
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
        function: its qualified name.
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
    """Collects the mutants of all functions. Text, annotations, imports and raised errors have none."""

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
        if self._scope[-1:] != ["<locals>"]:
            return
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        old = self._source[begin:end].decode()
        texts = (self._path, ".".join(self._scope[:-1]), self._statement, old, new)
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


# -----------------------------------------------------------------------------
# This module as a plugin of pytest: which tests enter a function, and whether they notice a fault in it.


class Functions:
    """The loaded functions of some modules, whose code can be replaced."""

    def __init__(self, sample: Iterable[Mutant]) -> None:
        self.names: dict[str, set[str]] = defaultdict(set)
        for mutant in sample:
            self.names[mutant.path].add(outermost(mutant))
        self._caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]

    def replace(self, path: str, source: bytes | ast.Module) -> None:
        """Give the functions of one module the code that they have in another source of it."""
        compiled = codes_in(compile(source, path, "exec", dont_inherit=True))
        codes = {code.co_qualname: code for code in compiled if code.co_qualname in self.names[path]}
        loaded = (one for one in gc.get_objects() if isinstance(one, FunctionType))
        for one in loaded:
            old = one.__code__
            if old.co_qualname in codes and old.co_filename.endswith(f"/{path}"):
                one.__code__ = codes[old.co_qualname].replace(co_filename=old.co_filename)

    def forget(self) -> None:
        """Empty the caches of all functions of the package."""
        packages = {path.partition("/")[0].removesuffix(".py") for path in self.names}
        for cache in self._caches:
            if str(getattr(cache, "__module__", "")).partition(".")[0] in packages:
                cache.cache_clear()


def outermost(mutant: Mutant) -> str:
    """The qualified name of the function or method that holds the mutant's function."""
    return mutant.function.partition(".<locals>")[0]


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions and classes in a code."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_in(one)


def recording(source: str, names: set[str]) -> ast.Module:
    """The module, with functions that add their name to `builtins.entered` first."""
    tree = ast.parse(source)

    def visit(body: Sequence[ast.stmt], scope: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, (*scope, node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = ".".join((*scope, node.name))
                if name in names:
                    [note] = ast.parse(f"__import__('builtins').entered.add({name!r})").body
                    node.body.insert(0, note)

    visit(tree.body, ())
    return ast.fix_missing_locations(tree)


failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that fails, or whose fixtures do."""
    if report.failed:
        failed.append(report.nodeid)


@dataclass(frozen=True)
class KnownTest:
    """A test with what it took and the functions that it enters."""

    item: pytest.Item
    seconds: float
    functions: frozenset[str]


def learned(items: Sequence[pytest.Item], functions: Functions, sources: dict[str, str]) -> list[KnownTest]:
    """All tests, cheapest first. They must pass."""
    import builtins

    for path, names in functions.names.items():
        functions.replace(path, recording(sources[path], names))
    tests = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        builtins.entered = set()  # type: ignore[attr-defined]
        functions.forget()
        began = time.process_time()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        took = time.process_time() - began
        tests.append(KnownTest(item, took, frozenset(builtins.entered)))  # type: ignore[attr-defined]
    if failed:
        pytest.exit(f"The tests fail without any fault. Mend them first: {failed}", returncode=1)
    for path in functions.names:
        functions.replace(path, sources[path].encode())
    return sorted(tests, key=lambda test: test.seconds)


def chosen_for(mutant: Mutant, tests: Iterable[KnownTest]) -> list[pytest.Item]:
    """The tests that enter its function, as many as the time allows."""
    items: list[pytest.Item] = []
    spent = 0.0
    for test in tests:
        if outermost(mutant) in test.functions:
            spent += test.seconds
            if spent > MOST_SECONDS and items:
                break
            items.append(test.item)
    return items


def caught_by(mutant: Mutant, items: list[pytest.Item], functions: Functions, source: str) -> str:
    """The test that catches the mutant, "time", or nothing."""
    if not items:
        return ""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        raw = source.encode()
        try:
            items[0].config.pluginmanager.unregister(name="terminalreporter")
            functions.replace(mutant.path, raw[: mutant.begin] + mutant.new.encode() + raw[mutant.end :])
            functions.forget()
            for item, following in zip(items, [*items[1:], None], strict=True):
                item._initrequest()  # type: ignore[attr-defined]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if failed:
                    break
        except BaseException as error:
            failed.append(repr(error))
        os.write(writing, "".join(failed[:1]).encode()[:1000])
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + PATIENCE
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
            return "time"
        time.sleep(0.01)
    with os.fdopen(reading, "rb") as result:
        return "its process died" if ended[1] else result.read().decode()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of the tests alone: learn from them, then run the mutants of the sample."""
    file = Path(os.environ[SAMPLE])
    sample = [Mutant(**mutant) for mutant in json.loads(file.read_text("utf-8"))]
    functions = Functions(sample)
    sources = {path: Path(path).read_text("utf-8") for path in functions.names}
    tests = learned(session.items, functions, sources)
    rows = []
    for mutant in sample:
        items = chosen_for(mutant, tests)
        caught = caught_by(mutant, items, functions, sources[mutant.path])
        rows.append(asdict(mutant) | {"caught": caught, "tests": len(items)})
        sys.__stderr__.write(f"{len(rows):4} {caught or 'SURVIVES'}\n")  # type: ignore[union-attr]
    file.write_text(json.dumps(rows, indent=1), "utf-8")
    return True


def main() -> None:
    """Run the sample, and print the score of each room and the mutants that survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=120, help="mutants (120)")
    parser.add_argument("--seed", type=int, default=7, help="of the sample (7)")
    parser.add_argument("--out", type=Path, help="where the results go as JSON")
    options = parser.parse_args()
    sample = sorted(mutants_of(ROOT), key=lambda mutant: mutant.key(options.seed))[: options.sample]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        file = Path(folder, "mutants.json")
        file.write_text(json.dumps([asdict(mutant) for mutant in sample]), "utf-8")
        command = [sys.executable, "-m", "pytest", *PYTEST, "-p", "benchmarks.mutants", *TESTS]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {SAMPLE: str(file)})
        if done.returncode:
            sys.exit(done.returncode)
        rows = json.loads(file.read_text("utf-8"))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1), "utf-8")
    print(report(rows))


def report(results: list[dict[str, Any]]) -> str:
    """The score of each room, then each mutant that survives."""
    rows: list[list[object]] = [["room", "mutants", "caught", "score"]]
    for room in (*ROOMS, ""):
        caught = [bool(one["caught"]) for one in results if one["path"].startswith(f"streamer/{room}")]
        rows.append([room or "total", len(caught), sum(caught), f"{sum(caught) / max(1, len(caught)):.0%}"])
    lines = [
        "{path}:{function} ({tests} tests): {statement}\n    {old} -> {new}".format(**one)
        for one in results
        if not one["caught"]
    ]
    return "\n".join([table(rows), "", "Survivors:", *lines])


if __name__ == "__main__":
    main()
