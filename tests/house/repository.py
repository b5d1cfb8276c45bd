"""What is in the repository."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def tracked_files() -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def direct_dependencies() -> list[str]:
    """Requirements of the project and of its extras, as pyproject.toml writes them; none names itself."""
    project = pyproject()["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return [line for line in lines if not line.startswith(f"{project['name']}[")]


def ran(
    *command: object, cwd: Path = ROOT, seconds: float = 300, **more: Any
) -> subprocess.CompletedProcess[str]:
    """A command after its end, which must be with 0."""
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=seconds, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
