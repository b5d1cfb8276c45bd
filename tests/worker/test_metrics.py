"""Gauges say how the worker stands, and the alerts name what it exports."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from streamer.worker.metrics import STUCK_SECONDS, Metrics, WorkerMoment, healthy, ready
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.exported import ALERTS, STATUS, named_in_alerts, samples, value


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    document = yaml.safe_load(ALERTS.read_text("utf-8"))
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_gauges_say_how_the_worker_stands() -> None:
    metrics = Metrics(2)
    metrics.status = WorkerMoment(0.0, STATUS, False, True)
    result = {
        (sample.name, sample.labels.get("partition")): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }
    expected = {
        ("streamer_partition_lag_events", "1"): 7,
        ("streamer_partition_catching_up", "0"): 0,
        ("streamer_partition_catching_up", "1"): 1,
        ("streamer_redis_unsent_keys", None): 3,
        ("streamer_redis_away", None): 1,
        ("streamer_redis_refused_values_total", None): 5,
        ("streamer_redis_outdated_runs", None): 1,
        ("streamer_ready", None): 0,
    }
    assert result | expected == result


# -----------------------------------------------------------------------------
# /healthz, /readyz and /metrics of a live worker; the alerts name only what it exports; its JSON log.


SECRET = "s3cr3t"


def ask(port: int, path: str) -> tuple[int, str]:
    """Status (0: nobody answers) and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.slow
def test_a_live_worker_answers_exports_what_the_alerts_name_and_logs_json(
    tmp_path: Path, redis_server: RedisServer, embedded_broker: str, namespace: str
) -> None:
    port = free_port()
    redis_url = redis_server.url.replace("redis://", f"redis://:{SECRET}@")
    settings: dict[str, object] = {
        "bootstrap": embedded_broker,
        "redis": redis_server.url,
        "namespace": namespace,
        "embedded": True,
        "partitions": 2,
        "metrics_address": f"127.0.0.1:{port}",
        "log_format": "json",
        "log_level": "INFO",
    }
    with WorkerProcess(tmp_path, settings) as worker:
        worker.start(ready=False)
        wait_for(lambda: ask(port, "/readyz")[0] == 200, "the worker is ready")
        assert ask(port, "/healthz") == (200, "alive\n")
        assert ask(port, "/else")[0] == 404
        publish(Settings(bootstrap=embedded_broker, embedded=True, namespace=namespace))
        wait_for(lambda: 'effect="duplicates"} 1.0' in ask(port, "/metrics")[1], "the events are counted")
        wait_for(lambda: value(ask(port, "/metrics")[1], "streamer_publish_seconds_count") > 0, "a publish")
        wait_for(lambda: value(ask(port, "/metrics")[1], "streamer_open_runs") == 1, "a look at itself")
        text = ask(port, "/metrics")[1]
        exported = {sample.name for sample in samples(text)}
        assert named_in_alerts() - exported == set()
        assert value(text, "streamer_events_total", effect="counted") == 2
        assert value(text, "streamer_rejections_total") == 1
        assert value(text, "streamer_partitions") == 2
        assert {
            s.labels["partition"] for s in samples(text) if s.name == "streamer_partition_lag_events"
        } == {"0", "1"}
        assert value(text, "streamer_fold_seconds_count") >= 1
        assert value(text, "streamer_recovery_remaining_records") == 0
        assert value(text, "faust_messages_received_total") >= 1
        assert "faust_total_rebalances" in exported
    entries = [json.loads(line) for line in worker.log.read_text().splitlines()]
    assert {"at", "level", "logger", "message"} <= set(entries[0])
    assert any("ready: worker" in entry["message"] for entry in entries)
    assert SECRET not in worker.log.read_text()
    assert redis_url not in worker.log.read_text()


def publish(settings: Settings) -> None:
    """Two results, one of them twice, and one that is none."""
    first, second = (json.dumps(a_trial(task_id=task)).encode() for task in "ab")
    with ThreadedPublisher(settings) as publisher:
        for line in (first, second, first, b"no event"):
            publisher.send(Outgoing(b"run-1", line))
        publisher.flush()


def test_a_worker_that_hangs_is_not_healthy_and_one_that_recovers_is_not_ready() -> None:
    metrics = Metrics(2)
    assert healthy(metrics, 0.0)[0] == "200 OK"
    assert ready(metrics, 0.0)[0].startswith("503")
    metrics.status = WorkerMoment(100.0, STATUS, False, True)
    status, text = ready(metrics, 101.0)
    assert (status[:3], text) == ("503", "not ready: owns partitions [0, 1], catching up on [1]")
    assert healthy(metrics, 100.0 + STUCK_SECONDS)[0] == "200 OK"
    assert healthy(metrics, 101.0 + STUCK_SECONDS)[0].startswith("503")
    metrics.status = WorkerMoment(100.0, STATUS | {"catching_up": []}, True, False)
    assert ready(metrics, 101.0)[0] == "200 OK"
    assert ready(metrics, 101.0 + STUCK_SECONDS)[0].startswith("503")


def test_ready_tells_of_runs_in_quarantine_and_of_waiting_for_the_configuration() -> None:
    metrics = Metrics(2)
    metrics.status = WorkerMoment(0.0, STATUS | {"catching_up": [], "quarantined_runs": 2}, True, False)
    assert ready(metrics, 1.0) == (
        "200 OK",
        "ready, but 2 runs are in quarantine: `streamer status` names them",
    )
    metrics.status = WorkerMoment(
        0.0, STATUS | {"partitions": [], "waits": "waits: other prices"}, False, False
    )
    assert ready(metrics, 1.0) == ("503 Service Unavailable", "not ready: waits: other prices")
    gauges = {family.name: family.samples for family in metrics.collect()}
    assert [sample.value for sample in gauges["streamer_waits_for_configuration"]] == [1]
