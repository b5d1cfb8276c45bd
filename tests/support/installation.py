"""The wheel of the tracked files, in virtual environments that know nothing of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from tests.house.repository import ROOT, tracked_files

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
INSTALL_SECONDS = 300
COMMAND_SECONDS = 90


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the tracked files: the checkout stays as it is.

    Args:
        folder: an empty one, which gets the copy and the wheel.
    """
    for path in tracked_files():
        name = path.relative_to(ROOT)
        if name.parts[0] == "streamer" or str(name) in ("pyproject.toml", "README.md", "LICENSE"):
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / "source" / name)
    run_pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(folder / "source"))
    [wheel] = folder.glob("*.whl")
    return wheel


def install(folder: Path, wheel: Path, extra: str | None = None) -> Installation:
    """A new virtual environment with the wheel, one of its extras or none, and the pinned versions."""
    venv.create(folder, clear=True, with_pip=False)
    made = Installation(folder)
    expected = f"{wheel}[{extra}]" if extra else str(wheel)
    pins = str(ROOT / "constraints.txt")
    options = ("--no-compile", "--constraint", pins)  # what is imported is compiled then; the rest never
    run_pip("--python", str(made.program("python")), "install", *options, expected)
    return made


@dataclass(frozen=True)
class Installation:
    """One virtual environment."""

    folder: Path

    def program(self, name: str) -> Path:
        """The path of an installed program."""
        return self.folder / "bin" / name

    @property
    def packages(self) -> set[str]:
        """Names of the installed distributions, ours among them."""
        return {result.name for result in distributions(path=[str(self._site)])}

    def bytes_installed(self, *, bytecode: bool) -> int:
        """The size of all installed files, with or without what Python compiles from them."""
        files = (path for path in self._site.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files if bytecode or path.suffix != ".pyc")

    def run(
        self, *command: object, cwd: Path, environment: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        """Run an installed program to its end; it must end with 0."""
        name, *arguments = map(str, command)
        done = subprocess.run(
            [str(self.program(name)), *arguments],
            cwd=cwd,
            env=bare_environment(cwd) | dict(environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    @property
    def _site(self) -> Path:
        [site] = self.folder.glob("lib/python*/site-packages")
        return site


def bare_environment(home: Path) -> dict[str, str]:
    """Variables of a user who has set nothing and whose files lie under `home`."""
    return {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8"}


def run_pip(*arguments: str, seconds: float = INSTALL_SECONDS) -> None:
    """Run pip to its end; it must end with 0."""
    # What lies on PYTHONPATH would count as installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*PIP, *arguments], env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"pip {' '.join(arguments)}\n{done.stdout}{done.stderr}"
