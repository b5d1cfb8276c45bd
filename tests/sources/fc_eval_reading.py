"""Reading of fc-eval's run directories that several tests share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.sources.builders import Event, trials_of

SUB_TRIAL = re.compile(r"\.agent-(\d+)-")


def trial_directories(run: Path) -> list[Path]:
    """Directories with an agent's own result: the sub-trials, or the trials where there are none."""
    result = [file.parent for file in run.glob("*/*/results.json")]
    subs = [path for path in result if SUB_TRIAL.search(path.name)]
    return subs or result


def by_trial(events: list[Event]) -> dict[tuple[Any, ...], Event]:
    result = {(e["task_id"], e["attempt"], e.get("agent_index")): e for e in trials_of(events)}
    assert len(result) == len(trials_of(events))
    return result


def label_of(event: Event) -> str:
    return f"{event['agent']}:{event['model']}"
