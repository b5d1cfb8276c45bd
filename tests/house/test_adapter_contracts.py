"""Kafka and Redis have one adapter each: an import of their libraries elsewhere breaks a contract."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, tracked_files

KAFKA = "Only the Kafka adapter and the worker's Faust room know aiokafka"
REDIS = "Only the Redis adapter knows redis-py"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product and its contracts, in a folder of their own."""
    for path in tracked_files():
        name = path.relative_to(ROOT)
        if name.parts[0] in ("streamer", "schemas") or str(name) == "pyproject.toml":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, tmp_path / name)
    return tmp_path


def lint_imports(folder: Path) -> str:
    """What `lint-imports` prints there, its lines joined."""
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program, "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("contract", "module", "line"),
    [
        (KAFKA, "streamer/client/publish.py", "from aiokafka.errors import KafkaError"),
        (KAFKA, "streamer/embedded/proxy.py", "import aiokafka"),
        (KAFKA, "streamer/worker/app.py", "import aiokafka"),
        (REDIS, "streamer/web/hub.py", "import redis"),
        (REDIS, "streamer/worker/app.py", "from redis.asyncio import Redis"),
        (REDIS, "streamer/kafka/log.py", "import redis"),
    ],
)
def test_an_import_beside_the_adapter_breaks_its_contract(
    copy: Path, contract: str, module: str, line: str
) -> None:
    with (copy / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    assert f"{contract} BROKEN" in lint_imports(copy)


def test_without_such_an_import_both_contracts_are_kept(copy: Path) -> None:
    said = lint_imports(copy)
    assert f"{KAFKA} KEPT" in said
    assert f"{REDIS} KEPT" in said
