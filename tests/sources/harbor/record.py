"""Make jobs.tar.gz again: jobs that harbor itself ran, with a scripted environment and scripted agents.

Needs Python 3.12 and `pip install harbor==0.25.0`, neither of which the tests need. Run it in an empty
directory: `python record.py` leaves jobs.tar.gz there. Paths of the machine are replaced in it, files
that no connector reads (exception texts, manifests) are left out, and the harness's logs are emptied.

`python record.py coins` runs the one job `coins`, with any version from 0.1.28 on: jobs-VERSION.tar.gz.
"""
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

os.environ["HARBOR_TELEMETRY"] = "0"

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.factory import EnvironmentFactory
from harbor.job import Job
from harbor.models.environment_type import EnvironmentType
from harbor.models.job.config import JobConfig

with contextlib.suppress(ImportError):  # versions before 0.2 have neither
    from harbor.agents.installed.base import NonZeroAgentExitCodeError
    from harbor.environments.capabilities import EnvironmentCapabilities

HERE = Path.cwd().resolve()
SEEN: Counter[str] = Counter()
CLAUDE = "anthropic/claude-sonnet-4-20250514"

REWARDS = {
    "easy": ("reward.txt", "1\n"),
    "half": ("reward.txt", "0.5"),
    "many": ("reward.json", '{"correctness": 1, "style": 0.25}'),
    "named": ("reward.json", '{"accuracy": 1.0}'),
    "both": ("reward.json", '{"reward": 1, "style": 0.5}'),
    "steps": ("reward.txt", "1"),
    "unrewarded": None,
}
IN_TRACEBACK = re.compile(r'File \\"/[^"]*/(?=[^"/]*")')
"""The directories of a file that a traceback names."""

COINS = {"coin-1": "11111", "coin-2": "10110", "coin-3": "01000", "coin-4": "00000", "coin-5": "00010"}
"""Rewards of five attempts at each task."""


class Environment(BaseEnvironment):
    """Runs nothing; what the verifier leaves is scripted by the task's name."""

    @staticmethod
    def type():
        return "scripted"

    is_mounted = supports_gpus = can_disable_internet = False

    @property
    def capabilities(self):
        return EnvironmentCapabilities()

    def _validate_definition(self): ...

    async def start(self, force_build):
        if self.environment_name == "unbuilt":
            raise RuntimeError("no such image")

    async def stop(self, delete): ...
    async def upload_file(self, source_path, target_path): ...
    async def upload_dir(self, source_dir, target_dir): ...
    async def download_file(self, source_path, target_path): ...

    async def download_dir(self, source_dir, target_dir):
        if "verifier" not in str(source_dir):
            return
        name = self.environment_name
        agent = json.loads((self.trial_paths.trial_dir / "config.json").read_text()).get("agent", {})
        number = SEEN.update([f"{name} {agent}"]) or SEEN[f"{name} {agent}"]
        coin = COINS[name][(number - 1) % 5] if name in COINS else "0"
        reward = REWARDS.get(name, ("reward.txt", coin))
        if reward:
            Path(target_dir, reward[0]).write_text(reward[1])

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        return ExecResult(stdout="/app\n", stderr="", return_code=0)


class Scripted(BaseAgent):
    """Tells tokens, a cost and a trajectory, then ends as the task's name says."""

    @staticmethod
    def name():
        return "scripted"

    def version(self):
        return "1.2"

    async def setup(self, environment): ...

    async def run(self, instruction, environment, context):
        context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens = 1000, 400, 50
        context.cost_usd = 0.125
        steps = [
            {"step_id": 1, "source": "system", "message": "be good"},
            {"step_id": 2, "source": "user", "message": instruction},
            {"step_id": 3, "source": "agent", "message": "first"},
            {"step_id": 4, "source": "agent", "message": "second"},
        ]
        agent = {"name": self.name(), "version": self.version(), "model_name": self.model_name}
        trajectory = {"schema_version": "ATIF-v1.8", "session_id": "s", "agent": agent, "steps": steps}
        (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory))
        await self.end(environment.environment_name)

    async def end(self, task):
        if task == "slow":
            await asyncio.sleep(30)
        if task == "exits":
            raise NonZeroAgentExitCodeError("exit code 3")
        if task == "crash":
            raise RuntimeError("boom")
        if task == "flaky":
            SEEN.update(["flaky"])
            if SEEN["flaky"] < 3:
                raise ConnectionError("no route")


class Silent(Scripted):
    """Tells nothing of itself."""

    @staticmethod
    def name():
        return "silent"

    async def run(self, instruction, environment, context): ...


class Stuck(Silent):
    """Ends six times, then no more."""

    async def run(self, instruction, environment, context):
        SEEN.update(["stuck"])
        await asyncio.sleep(0 if SEEN["stuck"] <= 6 else 600)


def a_task(home, name, toml="", steps=()):
    task = Path(home, name)
    for folder in ("environment", "tests"):
        (task / folder).mkdir(parents=True)
    (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (task / "tests" / "test.sh").write_text("#!/bin/sh\n")
    (task / "task.toml").write_text(
        'version = "1.0"\n' + toml + "".join(f'[[steps]]\nname = "{step}"\n' for step in steps)
    )
    for step in steps:
        (task / "steps" / step).mkdir(parents=True)
    for place in [task / "steps" / step for step in steps] or [task]:
        (place / "instruction.md").write_text("do it\n")


async def a_job(name, tasks, agents, **config):
    settings = {
        "job_name": name,
        "datasets": [{"path": tasks}],
        "environment": {"import_path": "record:Environment"},
        "agents": agents,
        "quiet": True,
        **config,
    }
    if not hasattr(Job, "create"):  # before 0.2; it takes no environment of somebody else either
        EnvironmentFactory._ENVIRONMENT_MAP[EnvironmentType.DOCKER] = Environment
        settings["environment"] = {}
        settings["orchestrator"] = {"quiet": settings.pop("quiet")}
        return await Job(JobConfig.model_validate(settings)).run()
    return await (await Job.create(JobConfig.model_validate(settings))).run()


async def stuck_and_cancelled():
    """The directory of a job while two trials run for ever; and after it was cancelled."""
    running = asyncio.create_task(
        a_job("cancelled", "coins", [{"import_path": "record:Stuck"}], n_attempts=2, n_concurrent_trials=2)
    )
    while SEEN["stuck"] < 8:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    shutil.copytree("jobs/cancelled", "jobs/running")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def pack(name):
    kept = {"config.json", "lock.json", "result.json", "trajectory.json", "reward.txt", "reward.json"}
    logs = {"job.log", "trial.log"}
    with tarfile.open(name, "w:gz") as archive:
        for path in sorted(p for p in Path("jobs").rglob("*") if p.name in kept | logs or p.is_dir()):
            info = archive.gettarinfo(path, str(path.relative_to("jobs")))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if path.is_dir():
                archive.addfile(info)
                continue
            text = "" if path.name in logs else path.read_text()
            text = IN_TRACEBACK.sub(r'File \\"', text.replace(str(HERE), "/bench"))
            content = text.encode()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def make_tasks():
    for name in {*REWARDS, "hard", "slow", "exits", "crash", "flaky", "unbuilt"} - {"steps"}:
        a_task("tasks", name)
    a_task("tasks", "renamed", '[task]\nname = "acme/renamed"\n')
    a_task("tasks", "steps", steps=("one", "two"))
    for name in COINS:
        a_task("coins", name)


def main():
    make_tasks()
    scripted = {"import_path": "record:Scripted", "model_name": CLAUDE, "override_timeout_sec": 0.5}
    silent = {"import_path": "record:Silent"}
    if "coins" in sys.argv[1:]:
        agents = [scripted | {"model_name": "gpt-5"}, {"name": "nop"}]
        asyncio.run(a_job("coins", "coins", agents, n_attempts=5))
        return pack(f"jobs-{version('harbor')}.tar.gz")
    retry = {"max_retries": 2, "include_exceptions": ["ConnectionError"], "min_wait_sec": 0.05}
    asyncio.run(a_job("kinds", "tasks", [scripted, silent], retry=retry))
    scripted |= {"model_name": "gpt-5"}
    asyncio.run(a_job("coins", "coins", [scripted, {"name": "nop"}], n_attempts=5))
    asyncio.run(stuck_and_cancelled())
    return pack("jobs.tar.gz")


if __name__ == "__main__":
    sys.modules["record"] = sys.modules["__main__"]
    main()
