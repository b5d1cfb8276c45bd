"""Ids come from agents and harnesses: none gets out of its place in keys, paths or on a terminal."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path

import orjson
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from streamer.client.capture import spill_dir
from streamer.folding.fold import Pipeline
from streamer.folding.run import page_key, run_of_page
from streamer.folding.slots import slot_topic_key
from streamer.schemas.base import agent_model_key, decode_id, encode_id
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from streamer.sources.tail import ledger_path
from streamer.storage.entries import Keys
from streamer.terminal import harmless_json
from streamer.terminal.demo import _write_results
from streamer.terminal.files import fold_command as fold
from tests.redis.hostile import HOSTILE
from tests.support.events import a_trial, records
from tests.support.examples import examples

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
PIECES = [
    *HOSTILE,
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "~",
    "-rf",
    "C:\\x",
    "\u202e",
    "\u2028",
    "%2F",
    "run",
]
SEPARATORS = st.sampled_from(list(":|{}%/. *?\\-\u202e\U000e0041"))
ids = st.one_of(
    st.sampled_from(PIECES),
    st.text(st.one_of(SEPARATORS, st.characters(exclude_categories=["Cc", "Cs"])), min_size=1, max_size=12),
)
hostile_text = st.one_of(ids, st.text(st.characters(), min_size=1, max_size=12))
names = st.builds(Keys, st.sampled_from(["", "team-a", "a.b", ".."]))


def root_of(names: Keys) -> str:
    return f"{names.namespace}:streamer:" if names.namespace else "streamer:"


@given(names, ids, ids, ids, ids)
def test_every_key_of_a_run_starts_with_its_hash_tag_and_holds_no_other(
    names: Keys, run: str, agent: str, model: str, tier: str
) -> None:
    keys = [
        names.run(run),
        names.agent_model(run, agent, model),
        names.tier(run, tier),
        names.tier_agent_model(run, tier, agent, model),
        names.tier_agent_models(run, tier),
        names.board(run, "accuracy"),
        names.history(run),
        names.versions(run),
    ]
    prefix = f"{root_of(names)}{{{encode_id(run)}}}:"
    for key in keys:
        assert key.startswith(prefix)
        assert re.findall(r"[{}]", key) == ["{", "}"]
    assert len(set(keys)) == len(keys)


@given(names, st.tuples(ids, ids, ids, ids), st.tuples(ids, ids, ids, ids))
@example(Keys(), ("r", "a:m", "x", "t"), ("r", "a", "m:x", "t"))
@example(Keys(), ("r}:x", "a", "m", "t"), ("r", "a", "m", "t"))
def test_different_groups_never_share_a_key(
    names: Keys, one: tuple[str, str, str, str], other: tuple[str, str, str, str]
) -> None:
    def keys(run: str, agent: str, model: str, tier: str) -> tuple[str, str]:
        redis = names.tier_agent_model(run, tier, agent, model)
        return redis, f"{encode_id(run)}|{encode_id(tier)}|{agent_model_key(agent, model)}"

    assert (keys(*one) == keys(*other)) == (one == other)
    assert all((a == b) == (one == other) for a, b in zip(keys(*one), keys(*other), strict=True))


@given(names, ids)
def test_a_benchmark_cannot_be_a_run_nor_another_key(names: Keys, benchmark: str) -> None:
    key = names.benchmark_board(benchmark, "accuracy")
    assert key == f"{root_of(names)}board:{encode_id(benchmark)}:accuracy"
    assert key.removeprefix(root_of(names)).count(":") == 2
    assert key not in (names.runs, names.updates, names.workers)


@given(ids, st.integers(0, 10**6))
def test_a_page_belongs_to_its_run(run: str, number: int) -> None:
    key = page_key(run, "abc", number)
    assert run_of_page(key) == run
    assert key.count("/") == 2


@given(st.lists(ids, min_size=6, max_size=6))
def test_a_slot_key_gives_its_parts_back(parts: list[str]) -> None:
    run, shard, task, agent, model, tier = parts
    key = slot_topic_key(encode_id(run), (shard, task, 3, agent, model, tier, None))
    assert [decode_id(part) for part in key.split("|")] == [run, shard, task, "3", agent, model, tier, ""]


@given(hostile_text, hostile_text, hostile_text)
@examples(60)
def test_keys_on_topics_are_those_of_the_run(run: str, agent: str, tier: str) -> None:
    """Through the whole pipeline; what is no id becomes a rejection."""
    value = json.dumps(a_trial(run_id=run, agent=agent, tier=tier)).encode()
    pipeline = Pipeline(writer="w")
    folded = pipeline.fold(records([value]))
    if isinstance(decode(value), Reason):
        assert (len(folded.rejections), pipeline.runs()) == (1, [])
        return
    start = encode_id(run)
    for page in pipeline.run(run).take_pages():
        assert run_of_page(page.key) == run
    for change in pipeline.run(run).summaries():
        first, *rest = change.key.split("|")
        assert first == start
        assert len(rest) == {"run": 0, "agent_model": 1}.get(change.kind, len(rest))
        assert len(rest) <= 2


@given(st.characters(categories=["Cc", "Cs"]), st.text(max_size=3))
def test_an_id_holds_no_control_characters_and_no_half_characters(control: str, text: str) -> None:
    for field in ("run_id", "task_id", "agent", "model", "tier", "subtest"):
        assert isinstance(decode(json.dumps(a_trial(**{field: text + control})).encode()), Reason)


@given(st.lists(st.tuples(ids, hostile_text), min_size=1, max_size=4))
@examples(25)
def test_nothing_printed_acts_on_a_terminal(rows: list[tuple[str, str]]) -> None:
    """Tables and complaints of `streamer fold`, whose printing all commands share."""
    lines = [
        json.dumps(
            a_trial(run_id=run, agent=text, model=text, tier=run, failure_mode=text, cost_usd=text * n)
        )
        for run, text in rows
        for n in (0, 1)
    ]
    lines += [
        json.dumps({"type": "run_started", "run_id": run, "labels": {text: text}}) for run, text in rows
    ]
    printed = CliRunner().invoke(fold, ["-"], input="\n".join(lines).encode()).output
    assert not {unicodedata.category(c) for c in printed.replace("\n", "")} & ACTING


@given(
    st.recursive(hostile_text, lambda inner: st.dictionaries(hostile_text, inner, max_size=2), max_leaves=4)
)
def test_json_for_a_terminal_is_the_same_json_and_does_not_act(value: object) -> None:
    try:
        raw = orjson.dumps(value)
    except TypeError:  # half characters: never in JSON of ours
        return
    shown = harmless_json(raw)
    assert orjson.loads(shown) == value
    assert not {unicodedata.category(c) for c in shown.decode()} & ACTING


@given(run=ids, agent=ids)
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_have_names_of_ours_whatever_the_ids(tmp_path: Path, run: str, agent: str) -> None:
    """Nothing that a stream, a spill or a journal writes is named by an id."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    event = orjson.dumps(a_trial(run_id=run, agent=agent))
    _write_results(home, [event], [])
    assert {path.name for path in home.iterdir()} == {"events.ndjson", "summaries.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    given = Settings(data_dir=home, namespace="..")
    for path in (spill_dir(given), ledger_path(given, Path(run.replace("\0", "")), agent)):
        assert os.path.normpath(path).startswith(f"{home}{os.sep}")
        assert ".." not in path.parts
