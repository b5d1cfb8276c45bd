"""docs/notebook.md says what is the case: its examples run in order, with packages from PyPI."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import orjson
import pytest

from tests.house.repository import ROOT
from tests.support.events import Event, a_plan, a_trial
from tests.support.peers import peer_environment, run_in_peer

PAGE = ROOT / "docs" / "notebook.md"
PACKAGES = (
    *("duckdb==2.0.1", "polars==2.1.0", "pandas==3.1.1", "pyarrow==26.0.1", "matplotlib==3.11.1"),
    *("numpy>=1.26", "genai-prices>=0.0.30"),
)
EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
)
AGENTS = {"terminus": (0.6, 0.03), "codex": (0.75, 0.05)}
MESSAGES = ("AssertionError: 3 of 7 tests failed", "TimeoutError: no result within 600 s")


def a_day(run_id: str, seed: int) -> list[Event]:
    """Two agents, twice at each of 24 tasks; the hardest task is never passed."""
    random, events = Random(seed), list[Event]()
    metrics = {"patch_lines": {"direction": "lower", "unit": "lines"}}
    agents = [f"{agent}:gpt-5" for agent in AGENTS]
    events.append(
        a_plan(
            run_id=run_id, benchmark="invented", tasks=24, attempts=2, metrics=metrics, agent_models=agents
        )
    )
    for task in range(24):
        for attempt in (1, 2):
            for agent, (skill, price) in AGENTS.items():
                passed = random.random() < skill + 0.4 - task / 24 and task < 23
                events.append(
                    a_trial(
                        run_id=run_id,
                        task_id=f"task-{task:02}",
                        attempt=attempt,
                        agent=agent,
                        resolved=passed,
                        cost_usd=round(price * random.uniform(0.5, 2), 4),
                        duration_seconds=float(random.randrange(20, 600)),
                        message=None if passed else random.choice(MESSAGES),
                        metrics={"patch_lines": float(random.randrange(1, 90))},
                    )
                )
    return events


@pytest.mark.peer
def test_every_answer_is_printed_as_the_page_says(tmp_path: Path) -> None:
    assert len(EXAMPLES) == PAGE.read_text("utf-8").count("```python") == 11
    for seed, run_id in enumerate(("monday", "tuesday", "wednesday")):
        (tmp_path / f"{run_id}.ndjson").write_bytes(b"\n".join(map(orjson.dumps, a_day(run_id, seed))))
    mark = "print('-' * 8, flush=True)\n"
    (tmp_path / "page.py").write_text(mark.join(code for code, _ in EXAMPLES))
    environment = peer_environment(*PACKAGES)
    done = run_in_peer(environment, "python", "page.py", cwd=tmp_path, variables={"PYTHONPATH": str(ROOT)})
    assert done.stdout.split("-" * 8 + "\n") == [output for _, output in EXAMPLES]
