"""Make logs.tar.gz again: logs that inspect_ai 0.3.285 itself wrote on mockllm, without a network.

Run it in an empty directory whose path may be published, since it stands in tracebacks. PATH names an
environment with inspect_ai: `PATH=.../bin:$PATH python record.py`. arithmetic.py has the tasks. It makes

- finished/: an eval that has ended, shuffled; one sample has an error, three ran into their token limit;
- json/: the same eval, converted to `.json` by inspect_ai;
- growing/: an eval while it runs; grown/: the same log at its end;
- retried/: an eval that an error stopped, and its retry.

With an older version it makes logs-VERSION.tar.gz: VERSION/, an eval that has ended, with one error.
"""
# mypy: ignore-errors

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

TASKS = Path(__file__).with_name("arithmetic.py")
ENVIRONMENT = {"STREAMER_INSPECT": "0", "INSPECT_DISPLAY": "none"}


def inspect(*arguments, check=True, **variables):
    environment = os.environ | ENVIRONMENT | {name.upper(): str(value) for name, value in variables.items()}
    return subprocess.run(["inspect", *arguments], check=check, env=environment)


def members(folder):
    logs = list(Path(folder).glob("*.eval"))
    return zipfile.ZipFile(logs[0]).namelist() if logs else []


def grow():
    """Copy the log while the eval runs: when samples of two writes are in it."""
    environment = os.environ | ENVIRONMENT | {"ARITHMETIC_SECONDS": "0.6"}
    options = ["--log-dir", "grown", "--max-samples", "2", "--log-buffer", "2"]
    with subprocess.Popen(["inspect", "eval", "arithmetic.py", *options], env=environment) as running:
        while "_journal/summaries/2.json" not in members("grown"):
            time.sleep(0.05)
        shutil.copytree("grown", "growing")
        running.wait()


def pack(archive_name):
    with tarfile.open(archive_name, "w:gz") as archive:
        for path in sorted(path for path in Path().glob("*/*") if path.suffix in (".eval", ".json")):
            info = tarfile.TarInfo(str(path))
            info.size, info.mtime = path.stat().st_size, int(path.stat().st_mtime)
            archive.addfile(info, io.BytesIO(path.read_bytes()))


def main():
    shutil.copy(TASKS, "arithmetic.py")
    if (installed := version("inspect-ai")) != "0.3.285":
        options = ["--model", "mockllm/model", "--log-dir", installed, "--no-fail-on-error"]
        inspect("eval", "arithmetic.py", *options, arithmetic_broken="4/2")
        pack(f"logs-{installed}.tar.gz")
        return
    shuffled = ["--log-dir", "finished", "--no-fail-on-error", "--sample-shuffle", "3"]
    inspect("eval", "arithmetic.py", *shuffled, arithmetic_broken="4/2")
    inspect("log", "convert", "finished", "--to", "json", "--output-dir", "json")
    grow()
    options = ["--log-dir", "retried", "--max-samples", "2"]
    inspect("eval", "arithmetic.py", *options, check=False, arithmetic_broken="4/2")
    [failed] = Path("retried").glob("*.eval")
    time.sleep(1)  # the name of a log has its second
    inspect("eval-retry", str(failed), "--log-dir", "retried")
    pack("logs.tar.gz")


if __name__ == "__main__":
    main()
