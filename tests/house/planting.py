"""Plant a violation in a scratch copy of the product, and read what the checks say of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.house.repository import ROOT, tracked_files

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Plant:
    """One line, and the file that it is appended to, by which the import contract `rule` must break."""

    rule: str
    path: str
    line: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".")


class ScratchCopy:
    """The product and its pyproject.toml in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._untouched: dict[Path, bytes | None] = {}
        for path in tracked_files():
            name = path.relative_to(ROOT)
            if name.parts[0] == "streamer" or str(name) == "pyproject.toml":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / name)

    def plant(self, path: str, text: str) -> int:
        """Append text to a file, and say in which line it begins; a new folder becomes a package."""
        file = self.folder / path
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            self._write(file.parent / "__init__.py", b'"""Planted."""\n')
        before = file.read_bytes() if file.exists() else b""
        self._write(file, before + f"\n{text}\n".encode())
        return before.count(b"\n") + 2

    def restore(self) -> None:
        for file, contents in self._untouched.items():
            if contents is None:
                file.unlink()
            else:
                file.write_bytes(contents)
        for folder in {file.parent for file in self._untouched}:
            if not any(folder.iterdir()):
                folder.rmdir()
        self._untouched.clear()

    def _write(self, file: Path, contents: bytes) -> None:
        self._untouched.setdefault(file, file.read_bytes() if file.exists() else None)
        file.write_bytes(contents)

    def lint_imports(self) -> str:
        """What `lint-imports` prints on the copy, its lines joined; empty if all contracts hold."""
        done = self._run("lint-imports", "--no-cache")
        return "" if done.returncode == 0 else " ".join(done.stdout.split())

    def ruff(self, *paths: str) -> list[str]:
        """The lines of `ruff check` on these files of the copy, with the repository's own configuration."""
        done = self._run("ruff", "check", "--no-cache", "--output-format", "concise", *paths)
        return [line for line in done.stdout.splitlines() if ".py:" in line]

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1), f"{program} did not run:\n{done.stdout}{done.stderr}"
        return done
