"""The plug-in in harbor itself: a job with a scripted agent, published live, against harbor's own totals."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, build_opener

import pytest

from streamer.operate.local import remove_discovery, write_discovery
from streamer.operate.local.processes import free_port
from streamer.operate.unfinished import COMMANDS, Unfinished, unfinished_in
from streamer.schemas.base import canonical_json
from streamer.schemas.events import INFRASTRUCTURE_FAILURES
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, slot_of
from streamer.sources.harbor import AGENT_FAILURES
from streamer.sources.tail.session import ServerCopy, ServerError, tail
from tests.client.publish.publishing import events
from tests.hooks.test_hooks import newest
from tests.house.repository import ROOT
from tests.sources.builders import Event, converted, trials_of, write_json
from tests.sources.harbor import summaries
from tests.sources.inspect import the_log
from tests.sources.inspect.running import TASKS, Inspect, scores_of
from tests.support.events import folded
from tests.support.eventually import eventually
from tests.support.installation import bare_environment
from tests.support.peers import COMMAND_SECONDS, packed_product, run_in_peer
from tests.support.tailing import converted_digests, digests_of
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.peer

CLAUDE = "anthropic/claude-sonnet-4-20250514"
SCRIPTED = {"import_path": "record:Scripted", "model_name": CLAUDE, "override_timeout_sec": 0.5}
JOB = {
    "job_name": "live",
    "datasets": [{"path": "tasks"}],
    "environment": {"import_path": "record:Environment"},
    "agents": [SCRIPTED, {"import_path": "record:Silent"}],
    "retry": {"max_retries": 2, "include_exceptions": ["ConnectionError"], "min_wait_sec": 0.05},
}

NOWHERE = "127.0.0.1:9"
"""An address where no broker listens."""


def kept(home: Path) -> list[Event]:
    """The events on the disk."""
    files = home.rglob("*.spill.ndjson")
    lines = (line for file in files for line in file.read_text().splitlines(keepends=True))
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Our wheel, and the scripted agents, as harbor imports them."""
    site = packed_product(tmp_path_factory.mktemp("wheel"))
    paths = f"{site}:{ROOT / 'tests' / 'sources' / 'harbor'}"
    return {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "HARBOR_TELEMETRY": "0"}


def prepared(harbor: Path, home: Path, variables: dict[str, str], **job: Any) -> None:
    """Write the tasks and the configuration of a job."""
    run_in_peer(harbor, "python", "-c", "import record; record.make_tasks()", cwd=home, variables=variables)
    write_json(home / "job.json", JOB | job)


def run_job(harbor: Path, home: Path, variables: dict[str, str], *options: str) -> tuple[Path, str]:
    """Let harbor's own command run a job; its directory, and what was printed."""
    prepared(harbor, home, variables)
    command = ("harbor", "run", "--config", "job.json", "--yes", "--quiet", *options)
    done = run_in_peer(harbor, *command, cwd=home, variables=variables)
    return home / "jobs" / "live", done.stdout + done.stderr


def plugged_in(settings: Settings) -> dict[str, str]:
    """Turn the plug-in on, with this broker."""
    return {
        "STREAMER_HARBOR": "1",
        "STREAMER_BOOTSTRAP": settings.bootstrap,
        "STREAMER_NAMESPACE": settings.namespace,
        "STREAMER_EMBEDDED": "true",
    }


def test_a_live_job_is_what_convert_says_and_its_totals_are_harbors(
    harbor: Path, variables: dict[str, str], tmp_path: Path, settings: Settings
) -> None:
    job, _ = run_job(harbor, tmp_path, variables | plugged_in(settings), "--plugin", "streamer")
    published = events(settings)
    assert newest(published) == newest(converted(job)[0])
    starts = Counter(slot_of(event) for event in published if event["type"] == "trial_started")
    assert starts == Counter({slot_of(event) for event in trials_of(published)})
    stats = json.loads((job / "result.json").read_text())["stats"]
    totals = totals_of(published)
    assert totals == {name: stats[name] for name in totals}
    assert rewards_of(published) == rewards_in(stats) != {}
    passed = sum(part["resolved"] for part in summaries(published).values())
    assert passed == rewards_in(stats)["reward"][1.0]


def totals_of(events: list[Event]) -> dict[str, Any]:
    """The numbers of a job that harbor counts too, under its names."""
    trials = newest(trials_of(events)).values()
    fields = ("input_tokens", "cache_read_tokens", "output_tokens", "cost_usd")
    new_input, cached, output, cost = (sum(trial.get(name, 0) for trial in trials) for name in fields)
    return {
        "n_completed_trials": sum(part["trials"] for part in summaries(events).values()),
        "n_errored_trials": sum(trial["failure_mode"] != "unset" for trial in trials),
        "n_input_tokens": new_input + cached,
        "n_cache_tokens": cached,
        "n_output_tokens": output,
        "cost_usd": cost,
    }


def rewards_in(stats: dict[str, Any]) -> dict[str, Counter[float]]:
    """Metric to how often harbor counted each value, over all agents."""
    result: dict[str, Counter[float]] = {}
    for of_eval in stats["evals"].values():
        for name, values in of_eval["reward_stats"].items():
            metric = "reward" if name in ("reward", "accuracy") else f"reward/{name}"
            for value, trials in values.items():
                result.setdefault(metric, Counter())[float(value)] += len(trials)
    return result


def rewards_of(events: list[Event]) -> dict[str, Counter[float]]:
    result: dict[str, Counter[float]] = {}
    for trial in newest(trials_of(events)).values():
        for metric, value in trial.get("metrics", {}).items():
            result.setdefault(metric, Counter())[value] += 1
    return result


def test_a_job_ends_well_where_no_broker_answers_and_its_events_wait_on_the_disk(
    harbor: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    to = {"STREAMER_BOOTSTRAP": NOWHERE, "STREAMER_HARBOR": "1", "STREAMER_DATA_DIR": str(tmp_path / "d")}
    job, _ = run_job(harbor, tmp_path, variables | to, "--plugin", "streamer")
    assert newest(kept(tmp_path / "d")) == newest(converted(job)[0])


def test_harbor_lists_the_plug_in_and_it_says_when_it_publishes_nothing(
    harbor: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    listed = run_in_peer(harbor, "harbor", "plugins", "list", cwd=tmp_path, variables=variables)
    assert "streamer" in listed.stdout
    nowhere = variables | {"STREAMER_DISCOVERY": str(tmp_path / "none.json")}
    job, said = run_job(harbor, tmp_path, nowhere, "--plugin", "streamer")
    assert "streamer does not publish this job" in said
    assert len(trials_of(converted(job)[0])) == 28


def test_every_type_in_harbors_own_table_of_failures_is_known(harbor: Path, tmp_path: Path) -> None:
    """R33: the infrastructure's are those whose rewards harbor does not count."""
    program = (
        "import json; from harbor.models.trial.error_policy import ERROR_POLICIES as policies;"
        "print(json.dumps({name: policy.has_valid_reward for name, policy in policies.items()}))"
    )
    counts = json.loads(run_in_peer(harbor, "python", "-c", program, cwd=tmp_path).stdout)
    assert {name for name, valid in counts.items() if not valid} == INFRASTRUCTURE_FAILURES["harbor"].keys()
    assert {name for name, valid in counts.items() if valid} == AGENT_FAILURES


# -----------------------------------------------------------------------------
# A job that is stopped, and resumed.


RESUMED = {
    "datasets": [{"path": "coins"}],
    "agents": [{"import_path": "record:Stuck"}],
    "n_attempts": 2,
    "n_concurrent_trials": 2,
}
"""Ten trials. In each process six of them end, and the next ones go on until they are stopped."""


def starts_in_ledger(home: Path) -> int:
    return sum(file.read_text().count('"started":') for file in (home / "data").rglob("*.ndjson"))


def stop_in_the_middle(harbor: Path, home: Path, variables: dict[str, str], *options: str) -> Path:
    """Let a job run until it is stuck, and stop it with Ctrl-C; its directory."""
    prepared(harbor, home, variables, **RESUMED)
    job = home / "jobs" / "live"
    running = subprocess.Popen(
        [str(harbor / "bin" / "harbor"), "run", "--config", "job.json", "--yes", "--quiet", *options],
        cwd=home,
        env=bare_environment(home) | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(
            lambda: (len([*job.glob("*/result.json")]), starts_in_ledger(home)) == (6, 8),
            "six results, and two trials that go on and are published",
            COMMAND_SECONDS,
        )
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(COMMAND_SECONDS)
    return job


@pytest.mark.parametrize("plugin", [("--plugin", "streamer"), ()], ids=["with the plug-in", "without"])
def test_a_resumed_job_is_what_convert_says(
    harbor: Path, variables: dict[str, str], tmp_path: Path, settings: Settings, plugin: tuple[str, ...]
) -> None:
    """`harbor job resume` deletes the trials that were stopped, and runs them under other names."""
    settings = settings.model_copy(update={"data_dir": tmp_path / "data"})
    to = variables | plugged_in(settings) | {"STREAMER_DATA_DIR": str(settings.data_dir)}
    job = stop_in_the_middle(harbor, tmp_path, to, "--plugin", "streamer")
    stopped = {trial.name for trial in job.iterdir() if trial.is_dir()}
    run_in_peer(harbor, "harbor", "job", "resume", "-p", "jobs/live", *plugin, cwd=tmp_path, variables=to)
    assert len(stopped - {trial.name for trial in job.iterdir()}) == 2
    if not plugin:
        tail(settings, job, ConvertOptions(), threading.Event(), print, lambda _: None, once=True)
    published = events(settings)
    assert len(trials_of(converted(job)[0])) == 10
    assert sum(event["type"] == "trial_retracted" for event in published) == 2
    assert digests_of(published) == converted_digests(job)


def test_harbor_runs_again_only_what_is_left(harbor: Path, variables: dict[str, str], tmp_path: Path) -> None:
    """R33. Of two infrastructure failures, one has an error type that a passed trial has, too."""
    job, _ = run_job(harbor, tmp_path, variables)
    first, second, third = sorted(job.glob("*/result.json"))[:3]
    rewrite(first, error="RateLimitError", rewards=None)
    rewrite(second, error="VerifierTimeoutError", rewards=None)
    rewrite(third, error="VerifierTimeoutError", rewards={"reward": 1.0})
    left = left_in(job)
    listed = {trial.shard for trial in left.trials}
    assert {first.parent.name, second.parent.name} <= listed
    assert third.parent.name not in listed
    before = {trial.name for trial in job.iterdir() if trial.is_dir()}
    for line in COMMANDS["harbor"](left, "jobs/live").lines:
        program, *arguments = shlex.split(line)
        done = [program, *arguments] if program == "rm" else [str(harbor / "bin" / program), *arguments]
        subprocess.run(done, cwd=tmp_path, env=bare_environment(tmp_path) | variables, check=True, timeout=99)
    after = {trial.name for trial in job.iterdir() if trial.is_dir()}
    assert before - after == listed
    assert len(after) == len(before)


def rewrite(result: Path, *, error: str, rewards: dict[str, float] | None) -> None:
    """Give a trial another end, in harbor's own file."""
    content: Event = json.loads(result.read_text())
    content["exception_info"] = {
        "exception_type": error,
        "exception_message": "",
        "exception_traceback": "",
        "occurred_at": "2026-01-01T00:00:00",
    }
    content["verifier_result"] = None if rewards is None else {"rewards": rewards}
    content.pop("reward_valid", None)
    result.write_text(json.dumps(content))


def left_in(*paths: Path) -> Unfinished:
    """What is left to run, by the files of a harness."""
    events = converted(*paths)[0]
    return unfinished_in(folded(events)[0].run(events[0]["run_id"]).state)


# -----------------------------------------------------------------------------
# `harbor serve`, which takes no plug-ins: its data directory, and its HTTP interface.


SERVER_KEY = "a-key-of-this-test"


@pytest.fixture(scope="module")
def server(
    harbor: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The address and the data directory of a server that ran a job."""
    home = tmp_path_factory.mktemp("server")
    more = variables | {"HARBOR_API_KEY": SERVER_KEY}
    prepared(harbor, home, variables, datasets=[{"path": str(home / "tasks")}])
    port = free_port()
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(harbor / "bin" / "harbor"), "serve", "--data-dir", "data", "--port", str(port)],
            cwd=home,
            env=bare_environment(home) | more,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: f":{port}" in (home / "log").read_text(), "the server", COMMAND_SECONDS)
        command = ("run", "--server", address, "--config", "job.json", "--yes", "--quiet", "--watch")
        run_in_peer(harbor, "harbor", *command, cwd=home, variables=more, check=False)  # 1: trials had errors
        yield address, home / "data"
    finally:
        process.terminate()
        process.wait(COMMAND_SECONDS)


def test_a_server_followed_by_its_address_or_its_files_is_one_run_with_its_own_totals(
    server: tuple[str, Path], tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R34."""
    address, data = server
    settings = settings.model_copy(update={"data_dir": tmp_path / "data"})
    with pytest.raises(ServerError, match=r"401\. Set HARBOR_API_KEY"):
        ServerCopy(address, tmp_path).update()
    monkeypatch.setenv("HARBOR_API_KEY", SERVER_KEY)
    tail(settings, address, ConvertOptions(), threading.Event(), print, lambda _: None, once=True)
    published = events(settings)
    assert digests_of(published) == converted_digests(data)
    request = Request(f"{address}/jobs", headers={"Authorization": f"Bearer {SERVER_KEY}"})
    with build_opener().open(request) as said:
        (job,) = json.load(said)["items"]
    assert {event["run_id"] for event in published} == {job["id"]}
    assert [event["status"] for event in published if event["type"] == "run_finished"] == ["completed"]
    latest = newest(trials_of(published)).values()
    rewards = rewards_of(published)
    assert len(latest) == job["rollouts"]["n_total"] - job["n_retries"] == 28
    for name in ("reward/style", "reward/correctness"):
        theirs = job["rewards"][name.removeprefix("reward/")]
        assert (rewards[name].total(), mean_of(rewards[name])) == (theirs["count"], theirs["mean"])
    main = [job["rewards"][name] for name in ("reward", "accuracy")]
    count = sum(one["count"] for one in main)
    assert rewards["reward"].total() == count
    mean = sum(one["count"] * one["mean"] for one in main) / count
    assert mean_of(rewards["reward"]) == pytest.approx(mean)


def mean_of(values: Counter[float]) -> float:
    return sum(value * count for value, count in values.items()) / values.total()


# -----------------------------------------------------------------------------
# inspect_ai itself, with our hook: what it publishes, and what it never does to an eval.


def hook_to(settings: Settings, home: Path) -> dict[str, str]:
    """Turn the hook on, with this broker; events wait below the home."""
    return plugged_in(settings) | {
        "STREAMER_INSPECT": "1",
        "STREAMER_PARTITIONS": str(settings.partitions),
        "XDG_DATA_HOME": str(home / "data"),
    }


def in_order(result: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return sorted((event for event in result if event["type"] in kinds), key=canonical_json)


def test_the_hook_publishes_what_convert_makes_of_the_log(inspect_ai: Inspect, settings: Settings) -> None:
    said = inspect_ai.eval(
        *("--no-fail-on-error", "--sample-shuffle", "3"),
        hook=hook_to(settings, inspect_ai.home),
        arithmetic_broken="4/2",
    )
    assert "hooks enabled: 1" in said
    published = events(settings)
    kinds = ("run_started", "trial_result", "run_finished")
    assert in_order(published, *kinds) == in_order(converted(inspect_ai.logs)[0], *kinds)
    assert len(in_order(published, "trial_result")) == 18
    starts = in_order(published, "trial_started")
    assert len({(start["task_id"], start["attempt"]) for start in starts}) == len(starts) == 18
    results = {(e["task_id"], e["attempt"]): e for e in in_order(published, "trial_result")}
    for start in starts:
        result = results[start["task_id"], start["attempt"]]
        assert start["started_at"] <= result["finished_at"]
        assert start["revision"] < result["revision"]
        assert (start["agent"], start["model"]) == (result["agent"], result["model"])


def test_a_retry_of_an_eval_is_the_same_run_and_corrects_it(inspect_ai: Inspect, settings: Settings) -> None:
    hook = hook_to(settings, inspect_ai.home)
    inspect_ai.eval("--max-samples", "2", hook=hook, arithmetic_broken="4/2")
    failed = the_log(inspect_ai.logs)
    inspect_ai.run("eval-retry", str(failed), "--log-dir", "logs", hook=hook)
    published = events(settings)
    assert len({event["run_id"] for event in published}) == 1
    assert [event["status"] for event in published if event["type"] == "run_finished"] == ["error", "success"]
    latest: dict[tuple[str, int], dict[str, Any]] = {}
    for event in sorted(in_order(published, "trial_result"), key=lambda event: event["revision"]):
        latest[event["task_id"], event["attempt"]] = event
    [retry] = set(inspect_ai.logs.iterdir()) - {failed}
    expected = {(e["task_id"], e["attempt"]): e for e in in_order(converted(retry)[0], "trial_result")}
    assert latest == expected


@pytest.mark.parametrize(
    "option", ["--no-fail-on-error", "--max-samples=2"], ids=["to its end", "broken off"]
)
def test_inspect_runs_again_what_is_left_and_nothing_else(inspect_ai: Inspect, option: str) -> None:
    """R31: samples that have numbers alone are done."""
    inspect_ai.eval(option, arithmetic_broken="4/2")
    log = the_log(inspect_ai.logs)
    left = left_in(log)
    listed = {(trial.task_id, trial.attempt) for trial in left.trials}
    assert ("4", 2) in listed
    assert (len(listed) == 1) == (option == "--no-fail-on-error")
    [line] = COMMANDS["inspect"](left, str(log)).lines
    inspect_ai.run(*shlex.split(line)[1:], "--log-dir", "logs")
    [retry] = set(inspect_ai.logs.iterdir()) - {log}
    assert left_in(log, retry).trials == []
    revisions = [
        {(e["task_id"], e["attempt"]): e["revision"] for e in trials_of(converted(one)[0])}
        for one in (log, retry)
    ]
    assert {slot for slot, revision in revisions[1].items() if revisions[0].get(slot) != revision} == listed


def test_an_eval_set_that_retries_ends_as_inspect_says(inspect_ai: Inspect, settings: Settings) -> None:
    """R34. The set retries at once, in the same call, and deletes the log of the try that failed."""
    inspect_ai.run(
        *("eval-set", TASKS.name, "--log-dir", "logs", "--max-samples", "1"),
        hook=hook_to(settings, inspect_ai.home),
        arithmetic_broken_once=inspect_ai.home / "broken once",
    )
    [log] = inspect_ai.logs.glob("*.eval")
    published = events(settings)
    assert [event["status"] for event in in_order(published, "run_finished")] == ["success"]
    live, of_log = summaries(published), summaries(converted(log)[0])
    digests = [{name: one["digest"] for name, one in result.items()} for result in (live, of_log)]
    assert digests[0] == digests[1]
    [summary] = live.values()
    assert (summary["trials"], summary["failure_modes"].get("RuntimeError")) == (18, None)


def test_without_a_broker_the_evals_events_wait_on_the_disk(inspect_ai: Inspect, settings: Settings) -> None:
    away = settings.model_copy(update={"bootstrap": NOWHERE})
    said = inspect_ai.eval("--epochs", "1", hook=hook_to(away, inspect_ai.home))
    assert scores_of(the_log(inspect_ai.logs))["graded"]["accuracy"] > 0
    assert len(trials_of(kept(inspect_ai.home / "data"))) == 6, said


async def test_when_the_stack_ends_before_the_eval_its_events_wait_on_the_disk(
    inspect_ai: Inspect, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = inspect_ai.home / "running.json"
    monkeypatch.setenv("STREAMER_DISCOVERY", str(stack))
    write_discovery({"pid": os.getpid(), "started_at": time.time(), "bootstrap": NOWHERE})
    hook = {"STREAMER_DISCOVERY": str(stack), "STREAMER_INSPECT": "", "XDG_DATA_HOME": str(inspect_ai.home)}
    longer = 8  # s: than the hook's answer holds, whether it is on
    options = ("--log-dir", "logs", "--epochs", "1")
    running = inspect_ai.start("eval", TASKS.name, *options, hook=hook, arithmetic_seconds=longer)

    def types() -> Counter[str]:
        return Counter(event["type"] for event in kept(inspect_ai.home))

    await eventually(lambda: "trial_started" in types(), "a start on the disk", COMMAND_SECONDS)
    remove_discovery()
    said, _ = running.communicate(timeout=COMMAND_SECONDS)
    assert (types()["trial_result"], types()["run_finished"]) == (6, 1), said


def test_a_hook_that_is_off_imports_nothing_of_ours_but_the_question(inspect_ai: Inspect) -> None:
    said = inspect_ai.python(
        "import sys; from inspect_ai.hooks._hooks import get_all_hooks; [hook] = get_all_hooks();"
        "print(hook.enabled()); print(sorted(n for n in sys.modules if n.startswith('streamer')))"
    )
    off, modules = said.splitlines()
    assert off == "False"
    allowed = ("", ".hooks", ".hooks.inspect", ".schemas", ".schemas.base", ".settings")
    assert set(re.findall(r"[\w.]+", modules)) == {f"streamer{name}" for name in allowed}
