"""Fixtures that tests of several connectors share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.builders import unpacked
from tests.sources.every_eval_ever import unpack_evaluations
from tests.sources.harbor import unpack_jobs
from tests.sources.inspect import unpack_logs, unpack_older_logs
from tests.sources.swe_bench import unpack_runs
from tests.support.data import shared_data

collect_ignore_glob = ["*/record.py", "*/arithmetic.py"]
"""They need the harness itself, which runs them in an environment of its own."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real run directories of fc-eval."""
    folder = unpacked(shared_data() / "formulacode" / "runs.tar.gz", tmp_path_factory.mktemp("runs"))
    (home,) = {path.parent.parent for path in folder.rglob("fc.lock")}
    return home


@pytest.fixture(scope="session")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded logs of inspect_ai."""
    return unpack_logs(tmp_path_factory.mktemp("inspect"))


@pytest.fixture(scope="session")
def older_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded logs of older versions of inspect_ai."""
    return unpack_older_logs(tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="session")
def real(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real run directories of each harness."""
    return {
        "terminal-bench": shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5",
        "orchestrator": shared_data() / "terminal_bench" / "runs" / "20250902_orchestrator_qwen-3-coder-480B",
        "scylla": shared_data() / "scylla" / "dryrun",
        "fc-eval": runs / "fc-two-attempts",
        "fc-eval, rough": runs / "fc-rough",
        "fc-eval, all": runs,
        "harbor": unpack_jobs(tmp_path_factory.mktemp("harbor")) / "kinds",
        "swe-bench": unpack_runs(tmp_path_factory.mktemp("swe-bench")),
        "swe-bench, logs": unpack_runs(tmp_path_factory.mktemp("logs")) / "logs/run_evaluation/nightly",
        "every-eval-ever": unpack_evaluations(tmp_path_factory.mktemp("every-eval-ever")),
    }
