"""A run directory with everything that a trial may leave, hostile things among it, and its events."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.events import Event, a_plan, a_trial

RUN = "files-run"
HOSTILE = "<img src=x onerror=document.title='owned'>\u202e"
SECRET = "outside the run"

OUTPUT = {"source_call_id": "c", "content": "Traceback (most recent call last):\nboom"}
CALL = {"tool_call_id": "c", "function_name": "bash", "arguments": {"keystrokes": "pytest\n"}}
LOOKING = {"message": f"I look {HOSTILE}", "tool_calls": [CALL], "observation": {"results": [OUTPUT]}}
TRAJECTORY = {
    "schema_version": "ATIF-v1.5",
    "steps": [
        {"step_id": 1, "source": "user", "message": "make the tests pass"},
        {"step_id": 2, "source": "agent", **LOOKING},
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
TRIAL = "task-1/task-1.1-of-1.files-run"
REFUSED = ("link.log", "folder/outside.txt", "core.log", "gone.log", "sub")
"""A link, a file behind a link, one that is no text, one that is gone, and a directory."""


def make_run(folder: Path) -> Path:
    """The directory of the run; returns the one above it, which a user names."""
    run = folder / "runs" / RUN
    trial = run / TRIAL
    trial.mkdir(parents=True)
    (run / "run_metadata.json").write_text(json.dumps({"run_id": RUN}))
    (run / "tb.lock").write_text("{}")
    (trial / "results.json").write_text(json.dumps({"task_id": "task-1", "is_resolved": False}))
    for name, content in FILES.items():
        (trial / name).write_text(content)
    (folder / "outside.txt").write_text(SECRET)
    (trial / "link.log").symlink_to(folder / "outside.txt")
    (trial / "folder").symlink_to(folder)
    (trial / "core.log").write_bytes(b"\x7fELF\0\0")
    (trial / "sub").mkdir()
    return folder / "runs"


def events() -> list[Event]:
    """A plan, one trial with all files, and more that failed alike."""
    artifacts = [{"name": name, "path": f"{TRIAL}/{name}"} for name in (*FILES, *REFUSED)]
    artifacts.append({"name": "elsewhere", "url": LINK})
    times = {"started_at": "2026-01-02T03:00:00Z", "finished_at": "2026-01-02T03:05:00Z"}
    said = {"message": f"Timeout after 300 s {HOSTILE}\nsecond line", "labels": {"language": "c"}}
    failed = {"run_id": RUN, "resolved": False, "failure_mode": "agent_timeout"}
    more = [
        failed
        | {
            "task_id": f"task-{number}",
            "agent": "other" if number % 2 else "terminus",
            "message": f"Killed after {number} s in /app/run-{number}/x.py",
            "finished_at": f"2026-01-02T03:0{number}:00Z",
        }
        for number in range(2, 10)
    ]
    more[-1] |= {"resolved": True, "failure_mode": "unset", "message": None}
    first = a_trial(**failed, **times, **said, artifacts=artifacts, trial_name="task-1.1-of-1.files-run")
    return [a_plan(run_id=RUN, tasks=9, attempts=1), first, *(a_trial(**fields) for fields in more)]
