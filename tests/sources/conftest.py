"""Fixtures that tests of several connectors share."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.sources.inspect import unpack_logs
from tests.support.data import shared_data


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real run directories of fc-eval."""
    folder = tmp_path_factory.mktemp("runs")
    with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (home,) = {path.parent.parent for path in folder.rglob("fc.lock")}
    return home


@pytest.fixture(scope="session")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded logs of inspect_ai."""
    return unpack_logs(tmp_path_factory.mktemp("inspect"))
