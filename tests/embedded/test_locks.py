"""One process at a time, and the second is told who is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.embedded.errors import EmbeddedError
from streamer.embedded.locks import locked


def test_a_second_process_is_told_who_has_the_lock(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", "The data directory"),
        pytest.raises(EmbeddedError, match=r"The data directory .* is in use by process \d+"),
        locked(tmp_path / "lock", "The data directory"),
    ):
        pass
    with locked(tmp_path / "lock", "The data directory"):
        pass
