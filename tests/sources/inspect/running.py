"""Runs `inspect eval` on mockllm in its own environment, with our hook or without."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.sources.inspect import read_header
from tests.support.installation import bare_environment
from tests.support.peers import COMMAND_SECONDS

INSPECT = "inspect-ai==0.3.285"
"""The version that the connector and the hook are tested with."""

TASKS = Path(__file__).with_name("arithmetic.py")


@dataclass(frozen=True)
class Inspect:
    """inspect_ai, and our product beside it.

    Attributes:
        environment: a virtual environment with inspect_ai.
        product: a folder with our installed wheel.
        home: where evals run; their logs are in its folder `logs`.
    """

    environment: Path
    product: Path
    home: Path

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def variables(self, hook: Mapping[str, str] | None) -> dict[str, str]:
        """The environment of a process; `hook`: settings of the hook, None to turn it off."""
        settings = {"STREAMER_INSPECT": "0"} if hook is None else dict(hook)
        return {
            **bare_environment(self.home),
            "PATH": f"{self.environment / 'bin'}:{os.defpath}",
            "PYTHONPATH": str(self.product),
            "INSPECT_DISPLAY": "plain",
            "STREAMER_DISCOVERY": str(self.home / "no stack.json"),
            **settings,
        }

    def start(
        self, *options: str, hook: Mapping[str, str] | None = None, **variables: object
    ) -> subprocess.Popen[str]:
        """Start `inspect` with these arguments."""
        if not (self.home / TASKS.name).exists():
            shutil.copy(TASKS, self.home)
        given = {name.upper(): str(value) for name, value in variables.items()}
        return subprocess.Popen(
            [str(self.environment / "bin" / "python"), "-m", "inspect_ai", *options],
            cwd=self.home,
            env=self.variables(hook) | given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, hook: Mapping[str, str] | None = None, **variables: object) -> str:
        """Run `inspect` to its end, and give what it said."""
        running = self.start(*options, hook=hook, **variables)
        said, _ = running.communicate(timeout=COMMAND_SECONDS)
        return said

    def eval(self, *options: str, hook: Mapping[str, str] | None = None, **variables: object) -> str:
        """Run the tasks of arithmetic.py."""
        return self.run("eval", TASKS.name, "--log-dir", "logs", *options, hook=hook, **variables)

    def python(self, program: str, *arguments: object) -> str:
        """What a program prints that may import inspect_ai."""
        command = [str(self.environment / "bin" / "python"), "-c", program, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.home, env=self.variables(None), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def scores_of(log: Path) -> dict[str, dict[str, Any]]:
    """Name of each score to the values of its metrics, as inspect_ai wrote them into the log."""
    scores = read_header(log)["results"]["scores"]
    return {
        score["name"]: {name: metric["value"] for name, metric in score["metrics"].items()}
        for score in scores
    }
