"""The environment of inspect_ai is what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.inspect.conftest import INSPECT
from tests.support.peers import run_in_peer

pytestmark = pytest.mark.peer


def test_the_environment_has_the_version_of_inspect_that_we_name(inspect_ai: Path, tmp_path: Path) -> None:
    said = run_in_peer(
        inspect_ai, "python", "-c", "import inspect_ai as i; print(i.__version__)", cwd=tmp_path
    )
    assert f"inspect-ai=={said.stdout.strip()}" == INSPECT
