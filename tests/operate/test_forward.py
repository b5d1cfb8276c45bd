"""Summaries in MLflow and in an OpenTelemetry Collector, as those two say themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from streamer.client.readers import StateReader
from streamer.operate.forward import BadName, Change, evaluations, numbers_of, renamed
from streamer.operate.local.processes import free_port
from tests.operate.verifying import publish
from tests.support.cli import COMMAND, streamer
from tests.support.events import a_deletion, a_plan, a_retraction, a_trial, summarised
from tests.support.installation import bare_environment
from tests.support.online import Online, online
from tests.support.peers import collector, peer_environment
from tests.support.worker_process import wait_for

MLFLOW = "mlflow==3.17.2"
STOP_SECONDS = 60
SERVER_SECONDS = 300.0
RUN = "night/'ly|1"
AGENT = {"agent": "own:er", "model": "gpt-5", "run_id": RUN}

# -----------------------------------------------------------------------------
# Numbers and names.


def test_numbers_are_those_of_the_boards_and_an_unknown_one_is_missing() -> None:
    said = summarised([a_plan(tasks=4), a_trial(resolved=True, metrics={"steps": 3.0})])
    [agent] = [one for one in said.values() if one["type"] == "agent_model_summary"]
    numbers = numbers_of(agent)
    assert (numbers["accuracy"], numbers["metrics/steps"], numbers["trials"]) == (1.0, 3.0, 1.0)
    assert numbers.keys().isdisjoint({"mean_speedup", "total_cost", "impl_rate"})


def test_a_name_of_the_convention_can_be_another_and_nothing_else_can() -> None:
    assert renamed(["gen_ai.evaluation.result=eval"])["gen_ai.evaluation.result"] == "eval"
    for wrong in ("no.such=x", "gen_ai.agent.name", "gen_ai.agent.name="):
        with pytest.raises(BadName, match=r"one of: gen_ai\.evaluation\.result"):
            renamed([wrong])


def test_a_deleted_agent_is_one_event_without_a_score() -> None:
    [event] = evaluations(Change("r", "a%3Ab:m", None, None, 1), "", renamed(["streamer.run.id=run"]))
    assert event == {
        "gen_ai.agent.name": "a:b",
        "gen_ai.request.model": "m",
        "run": "r",
        "streamer.namespace": "",
        "streamer.deleted": True,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mlflow",), "name the runs to watch, or say --all"),
        (("otlp", "--all", "--otlp-name", "x=y"), "'x=y' renames nothing that is sent"),
    ],
)
def test_wrong_use_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = streamer("forward", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


# -----------------------------------------------------------------------------
# The other sides, on loopback.


@pytest.fixture(scope="module")
def stack(embedded_broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    with online(tmp_path_factory.mktemp("forward"), embedded_broker, "embedded", worker=True) as result:
        yield result


@contextmanager
def serving(log: Path, command: list[object], cwd: Path, url: str) -> Iterator[None]:
    """A server of another project, from when it answers to the end of the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env=bare_environment(cwd),
            stdout=out,
            stderr=out,
            process_group=0,
        )
    try:
        wait_for(lambda: answers(url) or process.poll() is not None, f"an answer at {url}", SERVER_SECONDS)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(STOP_SECONDS)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def forwarding(stack: Online, log: Path, *arguments: str) -> Iterator[Path]:
    """`streamer forward` as a process; gives the file of what it says."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "forward", *arguments], env=os.environ | stack.environment, stdout=out, stderr=out
        )
    try:
        yield log
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def the_agent(stack: Online, trials: int, **expected: Any) -> dict[str, Any]:
    """The summary of the run's one agent, once it has so many trials and these values."""
    found: dict[str, Any] = {}

    def is_there() -> bool:
        with StateReader(stack.settings) as reader:
            agents = [one.model_dump(mode="json") for one in reader.agents(RUN)]
        found.update(agents[0] if agents else {})
        return found.get("trials") == trials and all(found[name] == value for name, value in expected.items())

    wait_for(is_there, f"{trials} trials with {expected}")
    return found


def trial(number: int, *, resolved: bool, **fields: Any) -> dict[str, Any]:
    return a_trial(task_id=f"t{number}", resolved=resolved, metrics={"steps": number}, **AGENT, **fields)


PLAN = a_plan(run_id=RUN, tasks=4, benchmark="tb", display_name="Nightly")
FINISHED = {"type": "run_finished", "run_id": RUN, "status": "completed"}
SECRET = "s3cr3t"


@pytest.mark.peer
@pytest.mark.timeout(900)
def test_mlflow_has_live_steps_corrections_after_the_end_and_deletions(
    stack: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = peer_environment(MLFLOW, with_base=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "unused")  # --url comes first
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    store = ("--backend-store-uri", "sqlite:///mlflow.db", "--artifacts-destination", tmp_path / "files")
    command = [mlflow / "bin" / "mlflow", "server", "--port", port, "--workers", "1", *store]
    with serving(tmp_path / "server.log", command, tmp_path, f"{url}/health"):
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=url)

        def runs(view: int = 3) -> dict[str, Any]:
            there = client.get_experiment_by_name("nightlies")
            found = client.search_runs([there.experiment_id], run_view_type=view) if there else []
            return {run.info.run_name: run for run in found}

        def value(name: str) -> Any:
            run = runs().get("own:er:gpt-5")
            return run and run.data.metrics.get(name)

        secret = url.replace("http://", f"http://user:{SECRET}@")
        given = ("mlflow", RUN, "--experiment", "nightlies", "--url", secret)
        with forwarding(stack, tmp_path / "log", *given):
            publish(stack.settings, [PLAN, trial(1, resolved=True), a_trial(run_id="other")])
            wait_for(lambda: value("trials") == 1, "the first trial in MLflow")
            publish(stack.settings, [trial(2, resolved=False), FINISHED])
            wait_for(lambda: value("trials") == 2 and value("accuracy") == 0.5, "the second")
            wait_for(lambda: {run.info.status for run in runs().values()} == {"FINISHED"}, "the end")
            publish(stack.settings, [trial(2, resolved=True, revision=2)])
            wait_for(lambda: value("accuracy") == 1.0, "a correction after the end")
            publish(stack.settings, [a_retraction(task_id="t1", revision=5, **AGENT)])
            wait_for(lambda: value("trials") == 1, "a retraction after the end")
        agent = runs()["own:er:gpt-5"]
        parent = runs()["Nightly"]
        assert set(runs()) == {"own:er:gpt-5", "Nightly"}
        assert agent.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert parent.data.metrics["progress/done"] == 1
        summary = the_agent(stack, 1)
        sent = numbers_of(summary)
        assert {name: agent.data.metrics[name] for name in sent} == sent
        history = client.get_metric_history(agent.info.run_id, "trials")
        assert [(point.step, point.value) for point in history][-1] == (2, 1.0)
        assert [point.step for point in history] == sorted(point.step for point in history)
        publish(stack.settings, [trial(3, resolved=False)])  # nobody follows now
        the_agent(stack, 2)
        done = streamer("forward", *given, "--once", environment=stack.environment)
        assert done.returncode == 0, done.stderr
        assert value("trials") == 2
        points = len(client.get_metric_history(agent.info.run_id, "trials"))
        assert streamer("forward", *given, "--once", environment=stack.environment).returncode == 0
        assert len(client.get_metric_history(agent.info.run_id, "trials")) == points
        with forwarding(stack, tmp_path / "again.log", *given):
            publish(stack.settings, [a_deletion(run_id=RUN, revision=10)])
            wait_for(lambda: runs(1) == {}, "no run left in MLflow")
            publish(stack.settings, [trial(4, resolved=True, revision=11)])
            wait_for(lambda: value("trials") == 1 and len(runs(1)) == 2, "the run again")
    said = [(tmp_path / name).read_text().splitlines() for name in ("log", "again.log")]
    assert [lines[:-1] for lines in said] == [["sending to MLflow; Ctrl-C ends it"]] * 2


CONFIGURATION = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: "{out}", flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [otlp], exporters: [file]}}}}
"""


def received(out: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """Name, time and attributes of each event that the collector wrote."""
    events = []
    for line in out.read_text().splitlines() if out.exists() else ():
        for resource in json.loads(line)["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                for record in scope["logRecords"]:
                    attributes = {
                        one["key"]: next(iter(one["value"].values())) for one in record["attributes"]
                    }
                    events.append((record["eventName"], int(record["timeUnixNano"]), attributes))
    return events


@pytest.mark.peer
@pytest.mark.timeout(900)
def test_a_collector_has_each_number_and_what_it_missed_comes_when_it_is_back(
    stack: Online, tmp_path: Path
) -> None:
    program, port, out = collector(), free_port(), tmp_path / "events.json"
    configuration = tmp_path / "collector.yaml"
    configuration.write_text(CONFIGURATION.format(port=port, out=out))
    url = f"http://user:{SECRET}@127.0.0.1:{port}"
    given = ("otlp", "otlp-run", "--url", url, "--otlp-name", "gen_ai.evaluation.result=eval.result")
    own = {"run_id": "otlp-run", "agent": "a", "model": "m"}
    command: list[object] = [program, "--config", f"file:{configuration}"]

    def scores(name: str) -> list[Any]:
        key = "gen_ai.evaluation.score.value"
        return [said.get(key) for _, _, said in received(out) if said.get("gen_ai.evaluation.name") == name]

    with forwarding(stack, tmp_path / "log", *given) as log:
        publish(stack.settings, [a_trial(task_id="t1", resolved=True, **own)])
        wait_for(lambda: "takes no results" in log.read_text(), "that nobody listens", 90)
        with serving(tmp_path / "collector.log", command, tmp_path, f"http://127.0.0.1:{port}/"):
            wait_for(lambda: scores("accuracy")[-1:] == [1.0], "what waited", 90)
            ended = {"type": "run_finished", "run_id": "otlp-run", "status": "completed"}
            publish(stack.settings, [a_trial(task_id="t2", resolved=False, **own), ended])
            wait_for(lambda: scores("accuracy")[-1:] == [0.5], "the second trial", 60)
            publish(stack.settings, [a_trial(task_id="t2", resolved=True, revision=2, **own)])
            wait_for(lambda: scores("accuracy")[-1:] == [1.0], "a correction after the end", 60)
            publish(stack.settings, [a_deletion(run_id="otlp-run", revision=9)])
            wait_for(
                lambda: any("streamer.deleted" in said for *_, said in received(out)), "the deletion", 60
            )
    assert SECRET not in log.read_text()
    assert "OTLP takes results again" in log.read_text()
    events = received(out)
    assert {name for name, *_ in events} == {"eval.result"}
    versions = [
        (at, int(said["streamer.epoch"]), int(said["streamer.state_version"]))
        for _, at, said in events
        if said.get("gen_ai.evaluation.name") == "accuracy"
    ]
    assert versions == sorted(versions)
    last = [said for *_, said in events if said.get("gen_ai.evaluation.name") == "accuracy"][-1]
    assert (last["gen_ai.agent.name"], last["gen_ai.request.model"]) == ("a", "m")
    assert (last["streamer.run.id"], last["streamer.trials"]) == ("otlp-run", "2")
    grades = [said for *_, said in events if said.get("gen_ai.evaluation.name") == "grade"]
    assert grades[-1]["gen_ai.evaluation.score.label"]
