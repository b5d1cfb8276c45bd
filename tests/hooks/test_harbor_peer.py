"""The plug-in in harbor itself: a job with a scripted agent, published live, against harbor's own totals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.base import slot_of
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from tests.hooks.test_harbor import newest
from tests.house.repository import ROOT
from tests.publish.publishing import make_topics, settings_of
from tests.sources.builders import Event, converted, trials_of
from tests.sources.harbor import summaries
from tests.support.peers import packed_product, run_in_peer

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


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Our wheel, and the scripted agents, as harbor imports them."""
    site = packed_product(tmp_path_factory.mktemp("wheel"))
    paths = f"{site}:{ROOT / 'tests' / 'sources' / 'harbor'}"
    return {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "HARBOR_TELEMETRY": "0"}


def run_job(harbor: Path, home: Path, variables: dict[str, str], *options: str) -> tuple[Path, str]:
    """Let harbor's own command run a job; its directory, and what was printed."""
    run_in_peer(harbor, "python", "-c", "import record; record.make_tasks()", cwd=home, variables=variables)
    (home / "job.json").write_text(json.dumps(JOB))
    command = ("harbor", "run", "--config", "job.json", "--yes", "--quiet", *options)
    done = run_in_peer(harbor, *command, cwd=home, variables=variables)
    return home / "jobs" / "live", done.stdout + done.stderr


@pytest.fixture
def live(
    harbor: Path, variables: dict[str, str], tmp_path: Path, embedded_broker: str, namespace: str
) -> tuple[Path, list[Event]]:
    """The directory of a job that ran with the plug-in, and the events that reached the broker."""
    settings = make_topics(settings_of(embedded_broker, namespace))
    to = {"STREAMER_BOOTSTRAP": embedded_broker, "STREAMER_NAMESPACE": namespace, "STREAMER_HARBOR": "1"}
    job, _ = run_job(harbor, tmp_path, variables | to, "--plugin", "streamer")
    records = read_topic(settings, Names(namespace).trial_events)
    return job, [json.loads(record.value or b"") for record in records]


def test_a_live_job_is_what_convert_says_and_its_totals_are_harbors(live: tuple[Path, list[Event]]) -> None:
    job, events = live
    assert newest(events) == newest(converted(job)[0])
    starts = Counter(slot_of(event) for event in events if event["type"] == "trial_started")
    assert set(starts) == {slot_of(event) for event in trials_of(events)}
    assert sorted({starts[slot] for slot in starts}) == [1, 3]  # `flaky` was tried three times
    stats = json.loads((job / "result.json").read_text())["stats"]
    assert totals_of(events) == totals_in(stats)
    assert rewards_of(events) == rewards_in(stats) != {}


def totals_of(events: list[Event]) -> dict[str, Any]:
    """What our summaries say of the events: all numbers of a job that harbor counts too."""
    trials = list(newest(trials_of(events)).values())
    sums = [{name: part[name] for name in ("trials", "resolved")} for part in summaries(events).values()]
    cached = sum(trial.get("cache_read_tokens", 0) for trial in trials)
    return {
        "trials": sum(part["trials"] for part in sums),
        "errored": sum(trial["failure_mode"] != "unset" for trial in trials),
        "rewarded 1": sum(part["resolved"] for part in sums),
        "input tokens": sum(trial.get("input_tokens", 0) for trial in trials) + cached,
        "cached tokens": cached,
        "output tokens": sum(trial.get("output_tokens", 0) for trial in trials),
        "cost in USD": sum(trial.get("cost_usd", 0) for trial in trials),
    }


def totals_in(stats: dict[str, Any]) -> dict[str, Any]:
    """The same of harbor's own JobStats; a trial passed if its main reward is 1."""
    passed = sum(len(trials) for (_, _, value), trials in rewarded(stats).items() if value == 1)
    return {
        "trials": stats["n_completed_trials"],
        "errored": stats["n_errored_trials"],
        "rewarded 1": passed,
        "input tokens": stats["n_input_tokens"],
        "cached tokens": stats["n_cache_tokens"],
        "output tokens": stats["n_output_tokens"],
        "cost in USD": stats["cost_usd"],
    }


def rewarded(stats: dict[str, Any]) -> dict[tuple[str, str, float], list[str]]:
    """Eval, main reward's name and value to the trials."""
    return {
        (eval_key, name, float(value)): trials
        for eval_key, of_eval in stats["evals"].items()
        for name, values in of_eval["reward_stats"].items()
        for value, trials in values.items()
        if name in ("reward", "accuracy")
    }


def rewards_in(stats: dict[str, Any]) -> dict[str, Counter[float]]:
    """Metric to how often harbor counted each value, over all agents."""
    found: dict[str, Counter[float]] = {}
    for of_eval in stats["evals"].values():
        for name, values in of_eval["reward_stats"].items():
            metric = "reward" if name in ("reward", "accuracy") else f"reward/{name}"
            for value, trials in values.items():
                found.setdefault(metric, Counter())[float(value)] += len(trials)
    return found


def rewards_of(events: list[Event]) -> dict[str, Counter[float]]:
    found: dict[str, Counter[float]] = {}
    for trial in newest(trials_of(events)).values():
        for metric, value in trial.get("metrics", {}).items():
            found.setdefault(metric, Counter())[value] += 1
    return found


def test_a_job_ends_well_where_no_broker_answers_and_its_events_wait_on_the_disk(
    harbor: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    to = {
        "STREAMER_BOOTSTRAP": "127.0.0.1:1",
        "STREAMER_HARBOR": "1",
        "STREAMER_DATA_DIR": str(tmp_path / "d"),
    }
    job, _ = run_job(harbor, tmp_path, variables | to, "--plugin", "streamer")
    waiting = [
        json.loads(line)
        for file in (tmp_path / "d").rglob("*.spill.ndjson")
        for line in file.read_text().splitlines()
    ]
    assert newest(waiting) == newest(converted(job)[0])


def test_harbor_lists_the_plug_in_and_it_says_when_it_publishes_nothing(
    harbor: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    listed = run_in_peer(harbor, "harbor", "plugins", "list", cwd=tmp_path, variables=variables)
    assert "streamer" in listed.stdout
    nowhere = variables | {"STREAMER_DISCOVERY": str(tmp_path / "none.json")}
    job, said = run_job(harbor, tmp_path, nowhere, "--plugin", "streamer")
    assert "streamer publishes nothing of this job" in said
    assert len(trials_of(converted(job)[0])) == 28
