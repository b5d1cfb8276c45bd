"""A disk that is really full: a small file system in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path, size_bytes: int) -> Iterator[Path]:
    """An empty file system of that size; only root on Linux can mount one."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("SKIPPED LOUDLY: only root on Linux can mount a small disk")
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)
