"""Ids come from agents and harnesses: none gets out of its place in keys, paths or on a terminal."""

from __future__ import annotations

import json
import logging
import os
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from aiokafka.protocol.admin import SaslAuthenticateRequest
from click.testing import CliRunner
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from streamer.client.capture import spill_dir
from streamer.client.queries import ReaderError
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.run import page_key, run_of_page
from streamer.folding.slots import slot_topic_key
from streamer.schemas.base import agent_model_key, decode_id, encode_id
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from streamer.sources.tail import ledger_path
from streamer.storage.entries import Keys
from streamer.storage.redis import BadRedisUrl, RedisSink, address
from streamer.terminal import explain, harmless, without_password
from streamer.terminal.demo import _write_results
from streamer.terminal.files import fold_command as fold
from tests.security.secured import REDIS_PASSWORDS, SECRETS, WRONG_FOR_REDIS, SecretFiles, environment
from tests.storage.hostile import HOSTILE
from tests.support.builders import a_run_change, an_agent_model_change, an_update
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.events import a_plan, a_trial, records
from tests.support.examples import examples
from tests.support.secure_servers import SecureRedis

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
PIECES = [
    *HOSTILE,
    *("..", "../../etc/passwd", "/etc/passwd", "~", "-rf", "C:\\x", "\u202e", "\u2028", "%2F", "run"),
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
    keys = [names.run(run), names.agent_model(run, agent, model), names.tier(run, tier)]
    keys += [names.tier_agent_model(run, tier, agent, model), names.tier_agent_models(run, tier)]
    keys += [names.board(run, "accuracy"), names.history(run), names.versions(run)]
    prefix = f"{root_of(names)}{{{encode_id(run)}}}:"
    for key in keys:
        assert key.startswith(prefix)
        assert re.findall(r"[{}]", key) == ["{", "}"]
    assert len(set(keys)) == len(keys)


Group = tuple[str, str, str, str]
"""Run, agent, model and tier."""


@given(names, st.tuples(ids, ids, ids, ids), st.tuples(ids, ids, ids, ids))
@example(Keys(), ("r", "a:m", "x", "t"), ("r", "a", "m:x", "t"))
@example(Keys(), ("r}:x", "a", "m", "t"), ("r", "a", "m", "t"))
def test_different_groups_never_share_a_key(names: Keys, one: Group, other: Group) -> None:
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
    others = {names.runs, names.updates, names.workers}  # the patterns of ACLs rely on their prefix too
    assert {one.removeprefix(root_of(names)).count(":") for one in others} == {0}
    assert key not in others


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
    events = [a_plan(run_id=run, labels={text: text}) for run, text in rows]
    for run, text in rows:
        trial = a_trial(run_id=run, agent=text, model=text, tier=run, failure_mode=text)
        events += [trial | {"cost_usd": ""}, trial | {"cost_usd": text}]
    lines = "\n".join(map(json.dumps, events))
    printed = CliRunner().invoke(fold, ["-"], input=lines.encode()).output
    assert not {unicodedata.category(c) for c in printed.replace("\n", "")} & ACTING


@given(
    st.recursive(hostile_text, lambda inner: st.dictionaries(hostile_text, inner, max_size=2), max_leaves=4)
)
def test_json_for_a_terminal_is_the_same_json_and_does_not_act(value: object) -> None:
    try:
        raw = orjson.dumps(value)
    except TypeError:  # half characters: never in JSON of ours
        return
    shown = harmless(raw)
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


# -----------------------------------------------------------------------------
# Who gets in to Redis, and who may do what there.


@pytest.fixture
def redis_reader(
    secure_redis: SecureRedis, certificates: Certificates, secret_files: SecretFiles
) -> dict[str, Any]:
    return {
        "redis": secure_redis.url("reader"),
        "redis_password_file": secret_files("redis-reader", REDIS_PASSWORDS["reader"]),
        "redis_cafile": certificates.ca,
    }


@pytest.fixture
def worker(redis_reader: dict[str, Any], secure_redis: SecureRedis, secret_files: SecretFiles) -> Settings:
    file = secret_files("redis-worker", REDIS_PASSWORDS["worker"])
    return Settings(**redis_reader | {"redis": secure_redis.url("worker"), "redis_password_file": file})


async def written(settings: Settings, *runs: str) -> RedisSink:
    sink = RedisSink.from_settings(settings)
    await sink.heartbeat("w", {"partitions": []}, at=datetime.now(UTC))
    for run in runs:
        await sink.write([an_update(a_run_change(run, benchmark="b"), an_agent_model_change(run))])
    await sink.close()
    return sink


async def test_worker_and_reader_may_do_their_work(worker: Settings, redis_reader: dict[str, Any]) -> None:
    sink = await written(worker, "allowed")
    assert (sink.unsent, sink.away) == (0, False)
    with StateReader(Settings(**redis_reader)) as reader:
        assert reader.run("allowed").run_id == "allowed"
        assert reader.agents("allowed")
        assert [row.run for row in reader.leaderboard("accuracy", run="allowed")] == ["allowed"]
        assert "w" not in [one.worker_id for one in reader.workers()]  # its heartbeat went with it
    async with AsyncStateReader(Settings(**redis_reader)) as reading:
        assert "allowed" in [run.run_id for run in await reading.runs()]


async def test_redis_that_is_gone_from_a_worker_for_its_permissions_is_said_without_the_secret(
    redis_reader: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A worker with the reader's account: nothing is lost, and the log says why nothing arrives."""
    sink = await written(Settings(**redis_reader), "r")
    assert sink.unsent > 0
    assert "no permissions" in caplog.text
    assert not [secret for secret in SECRETS if secret in caplog.text]


OF_NOBODY = ("FLUSHALL", "CONFIG GET *", "KEYS *")
FOREIGN = ("GET another-application", "SUBSCRIBE another-application", "ACL LIST")
WRITES = ("SET streamer:{r}:run x", "DEL streamer:{r}:run", "EVAL code 0", "PUBLISH streamer:updates {}")
MAY_NOT = {"reader": (*OF_NOBODY, *FOREIGN, *WRITES), "worker": (*OF_NOBODY, "SET foreign x")}


@pytest.mark.parametrize(("user", "command"), [(user, one) for user, of in MAY_NOT.items() for one in of])
def test_a_reader_may_only_read_and_a_worker_may_touch_only_our_keys(
    redis_reader: dict[str, Any], worker: Settings, user: str, command: str
) -> None:
    settings = worker if user == "worker" else Settings(**redis_reader)
    client = redis.Redis.from_url(settings.redis, **settings.redis_options())
    with client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command.split())


def refused(given: dict[str, Any], debug: str = "") -> str:
    """What a query says that ends with one line (behind the traceback, for who debugs), without secrets."""
    done = streamer("query", "runs", environment=environment(given) | {"STREAMER_DEBUG": debug})
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b""), said
    assert "Traceback" in said if debug else len(said.splitlines()) == 1
    assert not [secret for secret in SECRETS if secret in said]
    return said


def test_what_is_refused_is_one_line_without_the_password(
    redis_reader: dict[str, Any], secure_redis: SecureRedis, certificates: Certificates
) -> None:
    url = secure_redis.url("reader").replace("reader@", "reader:not-the-password@")
    in_url = {"redis_password_file": None, "redis": url}
    untrusted = ("certificate that is not trusted", "STREAMER_REDIS_CAFILE")
    for changed, debug, *words in (
        (WRONG_FOR_REDIS, "", "refuses (invalid username-password pair"),
        (in_url, "", "refuses"),
        (in_url, "1", "refuses"),
        ({"redis": secure_redis.url()}, "", "refuses"),
        ({"redis_cafile": certificates.stranger}, "", *untrusted),
        ({"redis_cafile": None}, "", *untrusted),
    ):
        said = refused(redis_reader | changed, debug)
        assert all(word in said for word in words), (changed, said)


def test_the_certificate_of_another_host_is_not_trusted(redis_reader: dict[str, Any]) -> None:
    """127.0.0.2 is this host too, and not in the certificate."""
    settings = Settings(**redis_reader | {"redis": redis_reader["redis"].replace("127.0.0.1", "127.0.0.2")})
    options = settings.redis_options()
    assert options["ssl_check_hostname"] is True
    with pytest.raises(ReaderError, match="IP address mismatch"), StateReader(settings) as reader:
        reader.runs()


# -----------------------------------------------------------------------------
# Secrets: from files or the environment, and never said.


SECRET = "s3cr/et?#@:%41"
SASL = {"security_protocol": "SASL_SSL", "sasl_username": "u"}


@pytest.mark.parametrize(
    "url",
    [
        f"redis://u:{SECRET}@h:1/0",
        f"redis://:{SECRET}@h:1",
        f"rediss://h:1/0?password={SECRET}",
        f"{SECRET}@h:1",
        f"redis:/u:{SECRET}@h",
        "redis://u:s3cr@h:s3cr/0",
        "redis://u:[s3cr@h:1/0",
        "redis://s3cr\u2100@h:1/0",
    ],
)
def test_a_url_that_cannot_be_used_or_reached_is_said_without_its_password(url: str) -> None:
    for debug in ("", "1"):
        done = streamer("query", "runs", environment={"STREAMER_REDIS": url, "STREAMER_DEBUG": debug})
        assert done.returncode in (1, 2)
        assert not [part for part in ("s3cr", "et?#", "41@") if part.encode() in done.stderr], done.stderr


@given(st.text(st.sampled_from("ab/?#@:%[]"), max_size=8), st.sampled_from(["redis", "rediss", "http", ""]))
def test_no_piece_of_a_password_is_ever_in_a_message(password: str, scheme: str) -> None:
    assume(scheme or "://" not in password)  # or what stands before it would be the scheme
    url = f"{scheme}://u:XYZ{password}XYZ@h:1/0" if scheme else f"XYZ{password}XYZ@h"
    said = [without_password(url), explain(ConnectionError("x"), Settings(redis=url))]
    try:
        said.append(address(url))
    except BadRedisUrl as error:
        said.append(str(error))
    assert "XYZ" not in " ".join(said)


def test_what_aiokafka_writes_down_at_debug_holds_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    Settings(**SASL, sasl_password=SECRET).kafka_options()
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("aiokafka.conn")
    request = SaslAuthenticateRequest(f"\0u\0{SECRET}".encode()).prepare({36: (0, 1)})
    log.debug("Request to %s:%d %d: %s", "h", 1, 2, request)
    log.debug("Request to %s:%d %d: %s", "h", 1, 2, "Metadata")
    assert SECRET not in caplog.text
    assert "Metadata" in caplog.text
