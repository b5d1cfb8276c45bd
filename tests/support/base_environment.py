"""An interpreter that sees the product and what its base needs, and no extra: no installation, only links."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import ROOT, pyproject

DEADLINE_SECONDS = 60


def base_distributions() -> set[str]:
    """Names of the base's dependencies on this platform, transitive ones too."""
    result: set[str] = set()
    waiting = list(map(Requirement, pyproject()["project"]["dependencies"]))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        expected = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if expected and name not in result:
            result.add(name)
            waiting += map(Requirement, requires(name) or ())
    return result


class BaseEnvironment:
    """Runs Python with the base alone.

    Args:
        folder: an empty one, for the links.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "streamer").symlink_to(ROOT / "streamer")
        for name in sorted(base_distributions()):
            for file in distribution(name).files or ():
                first = file.parts[0]
                if first not in ("..", "__pycache__") and not (folder / first).exists():
                    (folder / first).symlink_to(Path(str(distribution(name).locate_file(first))))

    def python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        return subprocess.run(
            [sys.executable, "-S", "-c", program, *arguments],
            env=clean | {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )

    def streamer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.python("from streamer.terminal import main; main()", *arguments)
