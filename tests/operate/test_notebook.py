"""docs/notebook.md says what is the case: its examples run in order, with packages from PyPI."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.support.peers import peer_environment, run_in_peer

PAGE = ROOT / "docs" / "notebook.md"
PACKAGES = (
    *("duckdb==2.0.1", "polars==2.1.0", "pandas==3.1.1", "pyarrow==26.0.1", "matplotlib==3.11.1"),
    *("numpy>=1.26", "genai-prices>=0.0.30"),
)
EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
)


@pytest.mark.peer
def test_every_answer_is_printed_as_the_page_says(tmp_path: Path) -> None:
    assert len(EXAMPLES) == PAGE.read_text("utf-8").count("```python") == 13
    mark = "print('-' * 8, flush=True)\n"
    (tmp_path / "page.py").write_text(mark.join(code for code, _ in EXAMPLES))
    environment = peer_environment(*PACKAGES)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # where `streamer` is
    variables = {"PYTHONPATH": str(ROOT), "PATH": path}
    done = run_in_peer(environment, "python", "page.py", cwd=tmp_path, variables=variables)
    assert done.stdout.split("-" * 8 + "\n") == [output for _, output in EXAMPLES]
