"""inspect_ai itself, with our hook: what it publishes, and what it never does to an eval."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from streamer.schemas.wire import canonical_json
from streamer.settings import Settings, remove_discovery, write_discovery
from tests.publish.publishing import events
from tests.sources.builders import converted
from tests.sources.inspect import the_log
from tests.sources.inspect.running import INSPECT, TASKS, Inspect, scores_of
from tests.support.eventually import eventually
from tests.support.peers import COMMAND_SECONDS

pytestmark = pytest.mark.peer

NOWHERE = "127.0.0.1:9"
"""An address where no broker listens."""


def hook_to(settings: Settings, home: Path) -> dict[str, str]:
    """Turn the hook on, with this broker; events wait below the home."""
    return {
        "STREAMER_INSPECT": "1",
        "STREAMER_BOOTSTRAP": settings.bootstrap,
        "STREAMER_NAMESPACE": settings.namespace,
        "STREAMER_EMBEDDED": "true",
        "STREAMER_PARTITIONS": str(settings.partitions),
        "XDG_DATA_HOME": str(home / "data"),
    }


def kept(home: Path) -> list[str]:
    """The types of the events on the disk."""
    files = home.rglob("*.spill.ndjson")
    lines = (line for file in files for line in file.read_text().splitlines(keepends=True))
    return [json.loads(line)["type"] for line in lines if line.endswith("\n")]


def in_order(found: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return sorted((event for event in found if event["type"] in kinds), key=canonical_json)


def test_the_hook_publishes_the_events_that_convert_makes_of_the_log(
    inspect_ai: Inspect, settings: Settings
) -> None:
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


def test_without_a_broker_the_eval_goes_on_and_its_events_wait_on_the_disk(
    inspect_ai: Inspect, settings: Settings
) -> None:
    away = settings.model_copy(update={"bootstrap": NOWHERE})
    said = inspect_ai.eval("--epochs", "1", hook=hook_to(away, inspect_ai.home))
    assert scores_of(the_log(inspect_ai.logs))["graded"]["accuracy"] > 0
    waiting = [path for path in (inspect_ai.home / "data").rglob("*") if path.is_file()]
    assert sum(path.read_bytes().count(b"trial_result") for path in waiting) == 6, said


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
    await eventually(lambda: "trial_started" in kept(inspect_ai.home), "a start on the disk", COMMAND_SECONDS)
    remove_discovery()
    said, _ = running.communicate(timeout=COMMAND_SECONDS)
    found = kept(inspect_ai.home)
    assert (found.count("trial_result"), found.count("run_finished")) == (6, 1), said


def test_the_hook_is_off_without_the_variable_and_without_a_stack(inspect_ai: Inspect) -> None:
    said = inspect_ai.eval("--epochs", "1", hook={"XDG_DATA_HOME": str(inspect_ai.home / "data")})
    assert "Publishes the results" not in said
    assert not (inspect_ai.home / "data" / "streamer").exists()


def test_a_hook_that_is_off_imports_nothing_of_ours_but_the_question(inspect_ai: Inspect) -> None:
    said = inspect_ai.python(
        "import sys; from inspect_ai.hooks._hooks import get_all_hooks; [hook] = get_all_hooks();"
        "print(hook.enabled()); print(sorted(n for n in sys.modules if n.startswith('streamer')))"
    )
    off, modules = said.splitlines()
    assert off == "False"
    assert set(re.findall(r"[\w.]+", modules)) == {
        "streamer",
        "streamer.hooks",
        "streamer.hooks.inspect",
        "streamer.settings",
    }


def test_the_environment_has_the_version_of_inspect_that_we_name(inspect_ai: Inspect) -> None:
    assert (
        f"inspect-ai=={inspect_ai.python('import inspect_ai as i; print(i.__version__)').strip()}" == INSPECT
    )
