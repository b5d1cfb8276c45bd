"""The worker is put together in one function that a Faust user recognises; tables are written by `save`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.process import worker
from streamer.worker.transport import Watchdog
from tests.house.repository import ROOT
from tests.worker.processor_bench import Bench

WORKER = ROOT / "streamer" / "worker"
REGISTERS = {"App", "StreamerApp", "topic", "Table", "agent", "timer", "task", "crontab", "page"}
"""What a Faust app is told of by a call of this name, or by a decorator."""

TABLES = {"table", "trials", "agent_models", "tiers", "runs", "comparisons"}

STEPS = ("fold", "queue", "publish_due")


def registrations(source: str) -> list[str]:
    """Calls that make an app, or register something with it."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    return [name for name in names if name.rpartition(".")[2] in REGISTERS and name != "itertools.page"]


def item_assignments(source: str) -> Iterator[str]:
    """Assignments to an item of a table, which Faust would take and nobody could await."""
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
        for target in targets:
            if isinstance(target, ast.Subscript):
                name = ast.unparse(target.value)
                if name in TABLES or name.endswith((".faust", ".table", ".trials")):
                    yield ast.unparse(target)


def modules() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(WORKER.glob("*.py"))}


def the_loop() -> ast.AsyncFor:
    tree = ast.parse((WORKER / "agents.py").read_text("utf-8"))
    (registered,) = [node for node in tree.body if getattr(node, "name", "") == "add_agent"]
    (agent,) = [node for node in ast.walk(registered) if isinstance(node, ast.AsyncFunctionDef)]
    assert ast.unparse(agent.decorator_list[0]) == "app.agent(events, name='streamer.fold')"
    (loop,) = [node for node in agent.body if isinstance(node, ast.AsyncFor)]
    return loop


def test_no_other_module_registers_anything_with_the_app() -> None:
    result = {path.name: registrations(source) for path, source in modules().items()}
    assert {name: set(calls) for name, calls in result.items() if calls} == {
        "process.py": {"StreamerApp", "app.topic", "app.Table"},
        "agents.py": {"app.agent"},
    }


def test_fold_queue_and_publish_are_one_call_each_in_the_loop() -> None:
    loop = the_loop()
    assert ast.unparse(loop.target) == "batch"
    assert ast.unparse(loop.iter) == "batches"
    calls = [ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)]
    assert sorted(calls) == sorted(["processor.whole", *(f"processor.{step}" for step in STEPS)])
    lines = {name.rpartition(".")[2]: node for name, node in zip(calls, _calls(loop), strict=True)}
    order = sorted(STEPS, key=lambda step: lines[step].lineno)
    assert tuple(order) == STEPS


def _calls(loop: ast.AsyncFor) -> list[ast.Call]:
    return [node for node in ast.walk(loop) if isinstance(node, ast.Call)]


def test_no_table_is_written_by_item_assignment() -> None:
    assert {path.name: list(item_assignments(source)) for path, source in modules().items()} == {
        path.name: [] for path in modules()
    }


@pytest.mark.parametrize("planted", ["trials['k'] = b'v'", "self.tables.trials['k'] = b'v'", "del runs['k']"])
def test_a_planted_item_assignment_is_found(planted: str) -> None:
    assert list(item_assignments(planted))


def test_a_table_takes_no_item() -> None:
    table: Any = Bench().tables.trials
    with pytest.raises(TypeError, match="item assignment"):
        table["key"] = b"value"


async def test_the_names_of_app_tables_topics_and_agent_stay() -> None:
    names = Names("ns")
    made = worker(Settings(namespace="ns"), Watchdog(60))
    app = made.app
    await made.producer.stop()
    await made.sink.close()
    assert app.conf.id == names.group
    changelogs = {name: table.changelog_topic.get_topic_name() for name, table in app.tables.items()}
    assert changelogs == {
        "trials": names.trials_changelog,
        "agent_model_summaries": names.agent_model_summaries,
        "tier_summaries": names.tier_summaries,
        "run_summaries": names.run_summaries,
        "run_comparisons": names.run_comparisons,
    }
    assert [agent.name for agent in app.agents.values()] == ["streamer.fold"]
