"""Other projects' packages from PyPI, each in a virtual environment that is made once per machine.

A test with a peer carries the marker `peer`. Where the packages cannot be installed, it fails and shows what
pip said: a peer that is not there has not been tested.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from filelock import FileLock

from tests.house.repository import pyproject
from tests.support.installation import bare_environment, build_wheel, run_pip

INSTALL_SECONDS = 420
"""A peer may have a hundred dependencies."""

COMMAND_SECONDS = 120


def peer_environment(*requirements: str, with_base: bool = True) -> Path:
    """The folder of a virtual environment with these packages, made now if this machine has none yet.

    Args:
        requirements: with exact versions, as `inspect-ai==0.3.285`.
        with_base: with the dependencies of our base too, for peers that call our code.
    """
    wanted = [*requirements, *(pyproject()["project"]["dependencies"] if with_base else ())]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join([version, *wanted]).encode()).hexdigest()[:12]
    name = requirements[0].replace("==", "-")
    home = Path(platformdirs.user_cache_dir("streamer-tests")) / "peers"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / f"{name}-python{version}-{digest}"
    with FileLock(f"{folder}.lock"):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=False)
            run_pip("--python", str(folder / "bin" / "python"), "install", *wanted, seconds=INSTALL_SECONDS)
            (folder / "complete").touch()
    return folder


def packed_product(folder: Path) -> Path:
    """A folder for PYTHONPATH with our wheel unpacked, so that its entry points are found.

    Args:
        folder: an empty one.
    """
    target = folder / "site"
    run_pip("install", "--no-deps", "--target", str(target), str(build_wheel(folder)))
    return target


def run_in_peer(
    environment: Path, *command: object, cwd: Path, variables: Mapping[str, str] = {}, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program of a peer's environment to its end; with `check` it must end with 0."""
    name, *arguments = map(str, command)
    done = subprocess.run(
        [str(environment / "bin" / name), *arguments],
        cwd=cwd,
        env=bare_environment(cwd) | dict(variables),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done
