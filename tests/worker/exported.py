"""What a worker exports: samples of its metrics."""

from __future__ import annotations

import re
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.house.repository import ROOT

ALERTS = ROOT / "deploy" / "alerts.yml"


STATUS: dict[str, Any] = {
    "partitions": [0, 1],
    "catching_up": [1],
    "lag": {"0": 0, "1": 7},
    "unsent": 3,
    "refused": 5,
    "outdated": ["r"],
    "open_runs": 2,
    "closed_runs": 1,
    "quarantined_runs": 0,
    "waits": None,
    "events_lost": 0,
    "offsets_moved": [],
    "retention": None,
}


def samples(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(text: str, name: str, **labels: str) -> float:
    [result] = [s.value for s in samples(text) if s.name == name and labels.items() <= s.labels.items()]
    return float(result)


def named_in_alerts() -> set[str]:
    """Names of all metrics in the expressions of the rules."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    expressions = " ".join(rule["expr"] for rule in rules)
    return set(re.findall(r"\b(?:streamer|process)_[a-z_]+", expressions))
