"""Where the real data lies: packed in tests/data, unpacked once for each version of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ARCHIVES = REPOSITORY / "tests" / "data"
UNPACKED = REPOSITORY / "build" / "test-data"


@cache
def shared_data() -> Path:
    """The folder of real data, with one folder per harness; tests/data/README.md says what is in it."""
    archives = sorted(ARCHIVES.glob("*.tar.xz"))
    version = hashlib.sha256(b"".join(archive.read_bytes() for archive in archives)).hexdigest()[:16]
    folder = UNPACKED / version
    if not folder.is_dir():
        _unpack(archives, folder)
    return folder


def _unpack(archives: list[Path], folder: Path) -> None:
    """Unpack beside the folder, then rename: several test processes may do this at the same time."""
    UNPACKED.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=UNPACKED))
    for archive in archives:
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            packed.extractall(partial)
    try:
        os.rename(partial, folder)
    except OSError:  # another process was faster
        shutil.rmtree(partial)
