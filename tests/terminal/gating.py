"""Files of two runs for `streamer gate`, and programs for its `--on-verdict`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.folding.matched import ORDER, the_plan, trial
from tests.support.events import Event, a_trial
from tests.terminal.calling import ndjson


def run_of(run: str, agent: str, passed: int, of: int = 20, **fields: Any) -> list[Event]:
    """A plan, and so many trials of its queue; the first so many of them passed."""
    done = [trial(run, agent, task, n < passed, **fields) for n, task in enumerate(ORDER[:of])]
    return [the_plan(run), *done]


def ten(run: str, passed: int, **fields: Any) -> list[Event]:
    """Ten tasks, of which the first so many are passed."""
    return [a_trial(run_id=run, task_id=f"t{n:02}", resolved=n < passed, **fields) for n in range(10)]


def written(folder: Path, name: str, events: Iterable[Event]) -> Path:
    file = folder / name
    file.write_bytes(ndjson(list(events)))
    return file


def on_verdict(code: str) -> str:
    return f'{sys.executable} -c "{code}"'
