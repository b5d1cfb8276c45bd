"""Where the shared real data lies."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared_data() -> Path:
    """The folder of real data beside the repository; without it the test is skipped, loudly."""
    if not DATA.is_dir():
        pytest.skip("SKIPPED LOUDLY: the real data folder ../shared/data is not beside this checkout")
    return DATA
