"""A run directory with everything that a trial may leave, hostile things among it, and its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.events import a_plan, a_trial

RUN = "files-run"
HOSTILE = "<img src=x onerror=document.title='owned'>\u202e"
SECRET = "outside the run"

TRAJECTORY = {
    "schema_version": "ATIF-v1.5",
    "steps": [
        {"step_id": 1, "source": "user", "message": "make the tests pass"},
        {
            "step_id": 2,
            "source": "agent",
            "message": f"I look {HOSTILE}",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": "bash", "arguments": {"keystrokes": "pytest\n"}}
            ],
            "observation": {
                "results": [{"source_call_id": "c", "content": "Traceback (most recent call last):\nboom"}]
            },
        },
        {"step_id": 3, "source": "agent", "message": "done"},
    ],
}
CAST = (
    '{"version": 2, "width": 60, "height": 10}\n[0.1, "o", "recorded words\\r\\n"]\n[0.2, "o", "</script>"]\n'
)
FILES = {
    "trajectory.json": json.dumps(TRAJECTORY),
    "agent.log": f"\x1b[31mred\x1b[0m plain\n{HOSTILE}\n\x1b]0;title\x07end\n",
    "fix.patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n",
    "agent.cast": CAST,
}
LINK = "https://logs.example/trial?a=1&b=2"
REFUSED = {
    "link": "link.log",
    "folder": "folder/outside.txt",
    "binary": "core.log",
    "gone": "gone.log",
    "directory": "sub",
}


def make_run(folder: Path) -> Path:
    """The directory of the run; returns the one above it, which a user names."""
    trial = folder / "runs" / RUN / "task-1" / "task-1.1-of-1.files-run"
    trial.mkdir(parents=True)
    (folder / "runs" / RUN / "run_metadata.json").write_text(json.dumps({"run_id": RUN}))
    (folder / "runs" / RUN / "tb.lock").write_text("{}")
    (trial / "results.json").write_text(json.dumps({"task_id": "task-1", "is_resolved": False}))
    for name, content in FILES.items():
        (trial / name).write_text(content)
    (folder / "outside.txt").write_text(SECRET)
    (trial / "link.log").symlink_to(folder / "outside.txt")
    (trial / "folder").symlink_to(folder)
    (trial / "core.log").write_bytes(b"\x7fELF\0\0")
    (trial / "sub").mkdir()
    return folder / "runs"


def events() -> list[dict[str, Any]]:
    """A plan, one trial with all files, and more that failed alike."""
    home = "task-1/task-1.1-of-1.files-run"
    places = [*FILES, *REFUSED.values()]
    artifacts = [{"name": name, "path": f"{home}/{name}"} for name in places]
    artifacts.append({"name": "elsewhere", "url": LINK})
    first = a_trial(
        run_id=RUN,
        task_id="task-1",
        resolved=False,
        failure_mode="agent_timeout",
        message=f"Timeout after 300 s {HOSTILE}\nsecond line",
        artifacts=artifacts,
        trial_name="task-1.1-of-1.files-run",
        labels={"language": "c"},
        started_at="2026-01-02T03:00:00Z",
        finished_at="2026-01-02T03:05:00Z",
    )
    more = [
        a_trial(
            run_id=RUN,
            task_id=f"task-{number}",
            agent="other" if number % 2 else "terminus",
            resolved=number == 9,
            failure_mode="unset" if number == 9 else "agent_timeout",
            message=None if number == 9 else f"Killed after {number} s in /tmp/run-{number}/x.py",
            finished_at=f"2026-01-02T03:0{number}:00Z",
        )
        for number in range(2, 10)
    ]
    return [a_plan(run_id=RUN, tasks=9, attempts=1), first, *more]
