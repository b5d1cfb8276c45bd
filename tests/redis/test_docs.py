"""docs/redis.md says what is the case: its table is generated, its examples are executed."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime

import pytest
import redis

from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.redis.make_docs import DOCUMENT, example_updates, with_table

TEXT = DOCUMENT.read_text(encoding="utf-8")


BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
EXAMPLES: list[tuple[str, str]] = [
    example
    for block in BLOCKS
    for example in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
]
"""Command, and the output that the page shows for it (as redis-cli prints it where nobody looks on)."""


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 10


def test_the_table_of_metrics_is_the_code() -> None:
    assert with_table(TEXT) == TEXT, "run: python -m tests.redis.make_docs"


def test_every_kind_of_key_is_described() -> None:
    ours = Keys()
    keys = [
        ours.run("RUN"),
        ours.agent_model("RUN", "AGENT", "MODEL"),
        ours.tier("RUN", "TIER"),
        ours.tier_agent_model("RUN", "TIER", "AGENT", "MODEL"),
        ours.board("RUN", "METRIC"),
        ours.agent_models("RUN"),
        ours.tiers("RUN"),
        ours.tier_agent_models("RUN", "TIER"),
        ours.named_boards("RUN"),
        ours.in_flight("RUN"),
        ours.comparisons("RUN"),
        ours.tasks("RUN"),
        ours.history("RUN"),
        ours.versions("RUN"),
        ours.writer("RUN"),
        ours.notices("RUN"),
        ours.runs,
        ours.benchmark_board("BENCHMARK", "METRIC"),
        ours.benchmark_named_boards("BENCHMARK"),
        ours.workers,
        ours.all_notices,
    ]
    assert [key for key in keys if f"| `{key}` |" not in TEXT] == []
    assert f"`{ours.updates}`" in TEXT


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
async def test_the_examples_print_what_the_page_says(
    make_sink: MakeSink, client: redis.Redis, command: str, output: str
) -> None:
    sink = make_sink()
    await sink.heartbeat("w1", {}, at=datetime(2026, 1, 1, tzinfo=UTC))
    for update in example_updates():
        await sink.write([update])
    program, *words = shlex.split(command)
    assert program == "redis-cli"
    reply = client.execute_command(*words)
    lines = reply if isinstance(reply, list | set) else [reply]
    assert "".join(f"{line}\n" for line in lines) == output
