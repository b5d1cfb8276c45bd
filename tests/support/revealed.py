"""The types that a strict type checker knows of a user's expressions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.house.repository import ROOT


def revealed(folder: Path, head: str, expressions: Sequence[str]) -> list[str]:
    """The type of each expression, as mypy writes it, in a file of the user that begins with `head`."""
    (folder / "user.py").write_text("\n".join([head, *(f"reveal_type({one})" for one in expressions), ""]))
    options = ["--strict", "--follow-imports", "silent", "--cache-dir", str(folder / "cache")]
    command = [sys.executable, "-m", "mypy", *options, "user.py"]
    done = subprocess.run(
        command, cwd=folder, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert (done.returncode, len(types)) == (0, len(expressions)), done.stdout
    return types
