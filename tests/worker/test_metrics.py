"""Gauges say how the worker stands, and the alerts name what it exports."""

from __future__ import annotations

import re

import yaml

from streamer.worker.metrics import Metrics, WorkerMoment
from tests.worker.exported import ALERTS, STATUS


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
    found = {
        (sample.name, sample.labels.get("partition")): sample.value
        for family in metrics.standing()
        for sample in family.samples
    }
    assert found["streamer_partition_lag_events", "1"] == 7
    assert found["streamer_partition_catching_up", "0"] == 0
    assert found["streamer_partition_catching_up", "1"] == 1
    assert found["streamer_redis_unsent_keys", None] == 3
    assert found["streamer_redis_away", None] == 1
    assert found["streamer_ready", None] == 0
