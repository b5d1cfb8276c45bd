"""A bundle says what was claimed, and a stranger's check notices every change of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client.folded import fold_run
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.operate.bundle import (
    END,
    EVENTS,
    MANIFEST,
    MEMBERS,
    PRICES,
    RECORDS,
    SUMMARIES,
    SUMS,
    VERDICTS,
    NotABundle,
    Source,
    check_bundle,
    damage_of,
    write_bundle,
)
from streamer.operate.verify import Verdict
from streamer.schemas.base import canonical_json, digest_of
from streamer.schemas.wire import Position, Record
from tests.client.publish.publishing import make_topics, settings_of
from tests.operate.verifying import a_run, publish
from tests.sources.builders import a_result
from tests.sources.builders import a_run as a_directory
from tests.support.bounded import GIB, sparse
from tests.support.cli import found_by, streamer
from tests.support.events import Event, a_plan, a_trial, records
from tests.terminal.calling import lines, ndjson

Members = dict[str, bytes]


def trials(run_id: str, agents: str = "ab", tasks: int = 6, **fields: Any) -> list[Event]:
    plan = a_plan(run_id=run_id, tasks=[f"t{n}" for n in range(tasks)], planned_at="2026-01-01T00:00:00Z")
    results = [
        a_trial(run_id=run_id, task_id=f"t{n}", agent=agent, resolved=agent == "b" or n % 3 == 0, **fields)
        for n in range(tasks)
        for agent in agents
    ]
    return [plan | {"attempts": 1, "provenance": {"harness_version": "1.2"}}, *results]


def bundled(*runs: list[Event], prices: PriceTable | None = None) -> bytes:
    file = io.BytesIO()
    sources = [Source(f"{number}.ndjson", "events", records(run)) for number, run in enumerate(runs)]
    write_bundle(file, sources, prices or PriceTable.default())
    return file.getvalue()


def checked(content: bytes) -> dict[str, Verdict]:
    return {verdict.run_id: verdict for verdict in check_bundle(io.BytesIO(content), "the bundle")}


def members_of(content: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


def packed(members: Members, *, sums: bool = True) -> bytes:
    """The archive of these members; with the sums that they have, whatever the member says."""
    if sums:
        named = ((hashlib.sha256(members[name]).hexdigest(), name) for name in MEMBERS if name != SUMS)
        members = members | {SUMS: "".join(f"{digest}  {name}\n" for digest, name in named).encode()}
    content = b""
    for name, member in members.items():
        content += header(name, len(member)) + member + bytes(-len(member) % 512)
    return content + END


def header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def changed(content: bytes, member: str, change: Callable[[bytes], bytes], *, sums: bool = True) -> bytes:
    members = members_of(content)
    before = members[member]
    members[member] = change(before)
    assert members[member] != before
    return packed(members, sums=sums)


def succeeded(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    done = streamer(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_a_bundle_of_a_file_checks_as_equal_and_is_a_plain_archive(tmp_path: Path) -> None:
    events = ndjson(trials("one") + trials("two"))
    (tmp_path / "events.ndjson").write_bytes(events)
    for out in ("a.tar", "b.tar"):
        succeeded("bundle", tmp_path / "events.ndjson", tmp_path / out)
    content = (tmp_path / "a.tar").read_bytes()
    assert content == (tmp_path / "b.tar").read_bytes()
    assert packed(members_of(content)) == content
    members = members_of(content)
    assert members[EVENTS] == events
    manifest = orjson.loads(members[MANIFEST])
    [source] = manifest["sources"]
    assert [run["plan"]["planned_at"] for run in source["runs"]] == ["2026-01-01T00:00:00Z"] * 2
    assert source["runs"][0]["provenance"] == {"harness_version": "1.2"}
    verdicts = orjson.loads(members[VERDICTS])
    assert all(pair["words"] for run in verdicts["agents"] for pair in run["pairs"])
    assert [(pair["a"], pair["b"]) for pair in verdicts["runs"]] == [("one", "two")]
    done = succeeded("check", tmp_path / "a.tar")
    assert done.stdout == b"one: equal, 4 summaries\ntwo: equal, 4 summaries\n"
    assert hashlib.sha256(content).hexdigest() in done.stderr.decode()


def replaced(content: bytes, member: str, old: bytes, new: bytes, *, sums: bool = True) -> bytes:
    return changed(content, member, lambda before: before.replace(old, new, 1), sums=sums)


ONE_DIGIT = (SUMMARIES, b'"resolved":2', b'"resolved":3')


@pytest.mark.parametrize("sums", [False, True])
def test_a_changed_digit_is_named(sums: bool) -> None:
    """With the right SHA-256 beside it, too."""
    verdicts = checked(replaced(bundled(trials("one")), *ONE_DIGIT, sums=sums))
    [difference] = verdicts["one"].differences
    assert (difference.key, difference.fields) == ("agent_model:a:gpt-5", ("digest", "resolved"))
    if not sums:
        [damage] = verdicts["the bundle"].differences
        assert (damage.key, damage.fields) == (SUMMARIES, ("SHA-256",))


def test_a_claim_with_a_right_digest_is_still_another_claim() -> None:
    def claim(content: bytes) -> bytes:
        rows = lines(content)
        rows[0]["summary"]["resolved"] += 1
        rows[0]["summary"]["digest"] = digest_of(rows[0]["summary"])
        return b"".join(canonical_json(row) + b"\n" for row in rows)

    [difference] = checked(changed(bundled(trials("one")), SUMMARIES, claim))["one"].differences
    assert difference.fields == ("resolved",)


@pytest.mark.parametrize(
    ("member", "old", "new", "place"),
    [
        (VERDICTS, b"a:gpt-5 minus b:gpt-5", b"a:gpt-5 above b:gpt-5", "agents[0].pairs[0].words[0]"),
        (MANIFEST, b"2026-01-01", b"2025-01-01", "sources[0].runs[0].plan.planned_at"),
        (MANIFEST, b'"harness_version":"1.2"', b'"harness_version":"1.3"', "sources[0].runs[0].provenance"),
        (MANIFEST, b'"rejected":0', b'"rejected":1', "sources[0].rejected"),
    ],
)
def test_a_changed_claim_beside_summaries_is_named(member: str, old: bytes, new: bytes, place: str) -> None:
    verdicts = checked(replaced(bundled(trials("one")), member, old, new))
    [difference] = verdicts.pop("the bundle").differences
    assert difference.key == member
    assert difference.fields[0].startswith(place)
    assert verdicts["one"].outcome == "equal"


def test_a_changed_event_changes_the_summaries_that_follow_from_it() -> None:
    passed = (EVENTS, b'"resolved": false', b'"resolved": true ')
    verdict = checked(replaced(bundled(trials("one")), *passed))["one"]
    assert "agent_model:a:gpt-5" in {one.key for one in verdict.differences}


def test_a_run_that_is_missing_and_one_too_many_are_named() -> None:
    def without_one(content: bytes) -> bytes:
        return b"".join(line for line in content.splitlines(True) if b'"run_id":"one"' not in line)

    verdicts = checked(changed(bundled(trials("one"), trials("two")), SUMMARIES, without_one))
    assert {one.found for one in verdicts["one"].differences} == {None}
    assert verdicts["two"].outcome == "equal"


def test_every_flipped_byte_is_noticed() -> None:
    def flipped(at: int, bits: int) -> bytes:
        return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]

    def is_noticed(changed: bytes) -> bool:
        try:
            return bool(damage_of(io.BytesIO(changed)))
        except NotABundle:
            return True

    content = bundled([a_trial(cost_usd=0.5)])
    assert not is_noticed(content)
    places = [(at, bits) for at in range(len(content)) for bits in (0x01, 0xFF)]
    assert [place for place in places if not is_noticed(flipped(*place))] == []
    for at in range(0, len(content), len(content) // 60):
        with suppress(NotABundle):
            assert checked(flipped(at, 0x01))["the bundle"].outcome == "differs"


WHOLE = packed(members_of(bundled([a_trial()])))


def member(name: str, content: bytes) -> bytes:
    return packed(members_of(WHOLE) | {name: content})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "header for events.ndjson is missing"),
        (WHOLE[:-1], "the end of an archive"),
        (WHOLE[: len(WHOLE) // 2], "the file ends earlier"),
        (WHOLE + b"\0", "the end of an archive"),
        (gzip.compress(WHOLE), "is compressed with gzip. Unpack it with gunzip."),
        (WHOLE.replace(b"events.ndjson", b"../events.nds", 1), "header for events.ndjson is missing"),
        (WHOLE.replace(b"ustar", b"pax\0\0", 1), "header for events.ndjson is missing"),
        (member(EVENTS, b""), "do not match"),
        (member(RECORDS, b""), "more bytes than records.ndjson counts"),
        (member(RECORDS, b"[]\n"), "ValidationError"),
        (member(RECORDS, b"{" * 100_000), "DecodeError"),
        (member(PRICES, b"[models]\nx = 1"), "price table"),
        (member(PRICES, b"\xff"), "UnicodeDecodeError"),
        (member(PRICES, b"x = " + b"[" * 100_000), "not valid TOML"),
        (member(SUMMARIES, b"[1]\n"), "TypeError"),
        (member(SUMMARIES, members_of(WHOLE)[SUMMARIES] * 2), "twice"),
        (member(VERDICTS, b"[]"), "is not an object"),
        (member(VERDICTS, b"[" * 100_000), "JSONDecodeError"),
        (member(MANIFEST, b"{}"), "has bundle None"),
        (member(MANIFEST, b"\xff"), "JSONDecodeError"),
        (replaced(WHOLE, MANIFEST, b'"events":1', b'"events":-1'), "ValueError"),
        (
            replaced(WHOLE, MANIFEST, b'cs_version":', b'cs_version":10'),
            "has semantics_version 103, and this version of the product has 3",
        ),
    ],
)
def test_what_is_no_bundle_is_refused_in_a_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "b.tar").write_bytes(content)
    done = streamer("check", tmp_path / "b.tar")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (3, b""), said
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize("product", ["0.1'; touch owned; '", "1\n", "", None, "1.2.3rc1+local"])
def test_a_stranger_s_manifest_makes_no_command(tmp_path: Path, product: str | None) -> None:
    manifest = orjson.loads(members_of(WHOLE)[MANIFEST]) | {"product": product, "semantics_version": 103}
    (tmp_path / "b.tar").write_bytes(member(MANIFEST, canonical_json(manifest) + b"\n"))
    done = streamer("check", tmp_path / "b.tar")
    said = done.stderr.decode()
    assert done.returncode == 3
    assert "Check it with the version that made it" in said
    assert "touch" not in said
    assert ("pip install 'trialstream[local]==1.2.3rc1+local'" in said) is ("pip" in said)
    assert ("pip" in said) is (product == "1.2.3rc1+local")


def test_nothing_is_read_because_a_header_says_that_it_is_there(tmp_path: Path) -> None:
    """Sizes beyond the file, and members of gigabytes, cost nothing; nothing is compressed in it."""
    file = tmp_path / "b.tar"
    file.write_bytes(header(EVENTS, 8 * GIB - 1))
    with pytest.raises(NotABundle, match="the file ends earlier"), file.open("rb") as stream:
        check_bundle(stream, "b.tar")
    at = WHOLE.index(PRICES.encode())
    sparse(file, at + 512 + GIB)
    with file.open("r+b") as stream:
        stream.write(WHOLE[:at] + header(PRICES, GIB))
        with pytest.raises(NotABundle, match=f"{PRICES} has 1,073,741,824 bytes; the limit"):
            check_bundle(stream, "b.tar")


PRICE = '[models."{}"]\ninput = {}\noutput = 8.5\n'


def test_the_prices_that_were_used_travel_along() -> None:
    """By any other table, and by another genai-prices: what had no price has none."""
    mine = PriceTable.from_toml(PRICE.format("my-model", 1.234567891))
    models = ("my-model", "gpt-5", "nobody-knows-its-price")
    events = [a_trial(model=model, input_tokens=1_000, output_tokens=10) for model in models]
    content = bundled(events, prices=mine)
    assert checked(content)["run-1"].outcome == "equal"
    told = PriceTable.closed(members_of(content)[PRICES].decode())
    for model in models:
        assert told.cost(model, 1_000, 10, 5) == mine.cost(model, 1_000, 10, 5)
    assert told.price("gpt-4o") is None
    cheaper = checked(replaced(content, PRICES, b"1.234567891", b"1.134567891"))
    [agent, *_] = cheaper["run-1"].differences
    assert "statistics" in agent.fields


def test_names_of_models_cannot_break_the_price_list() -> None:
    names = ['q"uote', "back\\slash", "del\x7f", "line\nend\t", "\U0001f40c]", "a.b = 1"]
    mine = PriceTable.from_toml("".join(PRICE.format(f"x{n}", n + 1) for n in range(len(names))))
    prices = {name: mine.price(f"x{n}") for n, name in enumerate(names)}
    mine.price = prices.__getitem__  # type: ignore[assignment, method-assign]
    told = PriceTable.closed(mine.toml(names))
    for name, price in prices.items():
        assert price is not None
        assert told.cost(name, 1_000_000, 0) == float(price.input * 1_000_000)


def test_another_version_of_the_product_may_say_the_same_in_other_words() -> None:
    content = changed(bundled(trials("one")), VERDICTS, lambda text: text.replace(b" minus ", b" less "))
    assert checked(content)["the bundle"].outcome == "differs"
    older = changed(content, MANIFEST, of_release("0.1"))
    assert {one.outcome for one in checked(older).values()} == {"equal"}


def of_release(product: str) -> Callable[[bytes], bytes]:
    return lambda manifest: canonical_json(orjson.loads(manifest) | {"product": product}) + b"\n"


@pytest.mark.parametrize("product", ["9.9", "9.9 is equal: run me"])
def test_sentences_that_were_not_compared_are_named(tmp_path: Path, product: str) -> None:
    """Anybody can write another release into the manifest, so a check must not pass over it in silence."""
    file, release = tmp_path / "b.tar", product if product == "9.9" else "unknown"
    said = f"made by release {release}: its sentences were not compared"
    false = changed(bundled(trials("one")), VERDICTS, lambda text: text.replace(b" minus ", b" beats "))
    file.write_bytes(changed(false, MANIFEST, of_release(product)))
    done = streamer("check", file)
    lines_of_text = [f"b.tar: {said}", "b.tar: equal, 4 summaries", "one: equal, 4 summaries"]
    assert (done.returncode, done.stdout.decode().splitlines()) == (0, lines_of_text)
    done = streamer("check", file, "--json")
    assert [(one["run_id"], one["reason"]) for one in lines(done.stdout)] == [("b.tar", said), ("one", None)]
    file.write_bytes(replaced(file.read_bytes(), *ONE_DIGIT))
    done = streamer("check", file)
    assert (done.returncode, lines_of_text[0] in done.stdout.decode()) == (1, True)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "command",
    ["bundle {0} {1}", "fold {0}", "fold -", "publish {0}", "export --from {0} {1}", "report --from {0}"],
)
def test_a_bundle_is_no_file_of_events(tmp_path: Path, pack: Callable[[bytes], bytes], command: str) -> None:
    file = tmp_path / "good.tar"
    file.write_bytes(pack(bundled(trials("one"))))
    nobody = {"STREAMER_BOOTSTRAP": "127.0.0.1:1", "STREAMER_REDIS": "redis://127.0.0.1:1/0"}
    words = command.format(file, tmp_path / "out").split()
    done = streamer(*words, environment=nobody, stdin=file.read_bytes())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is a bundle: use `streamer check`" in done.stderr


def test_a_pipe_is_not_looked_into_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(trials("one")))
    os.mkfifo(tmp_path / "pipe")
    done = streamer("bundle", tmp_path / "events.ndjson", tmp_path / "pipe")
    assert (done.returncode, b"exists and is not a bundle" in done.stderr) == (2, True)
    assert (tmp_path / "pipe").is_fifo()


def test_values_that_are_no_lines_come_back_as_they_were() -> None:
    values = [b"not an event\n\r\n\xff", None, b"", orjson.dumps(a_trial(), option=orjson.OPT_INDENT_2)]
    file = io.BytesIO()
    stored = [Record(value, 7 + n, 3, 1_700_000_000_000 + n, None, "t") for n, value in enumerate(values)]
    write_bundle(file, [Source("run-1", "log", stored)], PriceTable.default())
    assert {one.outcome for one in checked(file.getvalue()).values()} == {"equal"}
    members = members_of(file.getvalue())
    places = lines(members[RECORDS])
    assert [place["bytes"] for place in places] == [None if v is None else len(v) for v in values]
    assert members[EVENTS] == b"".join((value or b"") + b"\n" for value in values)


def test_files_of_a_harness_are_folded_as_convert_and_fold_do_it(tmp_path: Path) -> None:
    run = a_directory(tmp_path / "run1", [a_result("a"), a_result("b", is_resolved=False)])
    out = tmp_path / "run.tar"
    succeeded("bundle", run, out)
    succeeded("check", out)
    summaries = lines(streamer("fold", "--json", stdin=streamer("convert", run).stdout).stdout)
    stored = lines(members_of(out.read_bytes())[SUMMARIES])
    assert {row["summary"]["digest"] for row in stored} == {one["digest"] for one in summaries}
    assert str(tmp_path).encode() not in out.read_bytes()


def test_history_is_in_it_and_not_judged(tmp_path: Path) -> None:
    for name in ("one", "old"):
        (tmp_path / name).write_bytes(ndjson(trials(name)))
    out = tmp_path / "b.tar"
    succeeded("bundle", tmp_path / "one", out, "--history", tmp_path / "old")
    members = members_of(out.read_bytes())
    roles = {one["name"]: one["history"] for one in orjson.loads(members[MANIFEST])["sources"]}
    assert roles == {"one": False, "old": True}
    verdicts = orjson.loads(members[VERDICTS])
    assert ([run["run_id"] for run in verdicts["agents"]], verdicts["runs"]) == (["one"], [])
    assert streamer("check", out).stdout == b"old: equal, 4 summaries\none: equal, 4 summaries\n"


def test_runs_made_in_different_ways_and_a_ledger_are_judged_as_everywhere() -> None:
    main, branch = trials("main"), trials("branch", agents="b")
    for plan, multiplier in ((main[0], "1"), (branch[0], "2")):
        plan["provenance"] = {"timeout_multiplier": multiplier}
    branch[0]["ledger"] = {"name": "l", "baseline": "main/a:gpt-5"}
    verdicts = orjson.loads(members_of(bundled(main, branch))[VERDICTS])
    [pair] = verdicts["runs"]
    assert "timeout_multiplier 1 against 2" in pair["comparison"]["not_comparable"]
    [ledger] = verdicts["ledgers"]
    assert (ledger["name"], [one["run_id"] for one in ledger["candidates"]]) == ("l", ["branch"])
    assert checked(bundled(main, branch))["branch"].outcome == "equal"


def test_what_cannot_be_bundled_is_said_and_nothing_is_overwritten(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(ndjson(trials("same")))
    out = tmp_path / "b.tar"
    twice = streamer("bundle", tmp_path / "one", tmp_path / "two", out)
    assert (twice.returncode, out.exists()) == (1, False)
    assert "run 'same' is in both one and two" in twice.stderr.decode()
    forgotten = streamer("bundle", tmp_path / "one", tmp_path / "two")
    assert (forgotten.returncode, (tmp_path / "two").read_bytes()) == (2, ndjson(trials("same")))
    (tmp_path / "empty").write_bytes(b"{}\n")
    empty = streamer("bundle", tmp_path / "empty", out)
    assert (empty.returncode, out.exists(), "has no run" in empty.stderr.decode()) == (1, False, True)
    (tmp_path / "half").write_bytes(ndjson(trials("half")) + b"{}\n")
    half = streamer("bundle", tmp_path / "half", out)
    assert (half.returncode, streamer("check", out).returncode) == (1, 0)
    assert orjson.loads(members_of(out.read_bytes())[MANIFEST])["sources"][0]["rejected"] == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


SECRET = "not-for-strangers"


def test_a_run_of_the_log_has_its_offsets_and_times_and_no_event_of_another(
    embedded_broker: str, namespace: str, tmp_path: Path
) -> None:
    """There is another run in the log, and no worker and no Redis."""
    settings = make_topics(settings_of(embedded_broker, namespace))
    publish(settings, a_run("one") + a_run("two") + [a_trial(run_id="three", message="as in run one")])
    environment = found_by(settings) | {"STREAMER_REDIS": f"redis://user:{SECRET}@127.0.0.1:1/0"}
    del environment["STREAMER_PARTITIONS"]  # users need not set it
    out = tmp_path / "b.tar"
    done = streamer("bundle", "one", out, environment=environment)
    assert done.returncode == 0, done.stderr
    succeeded("check", out)
    missing = streamer("bundle", "never", tmp_path / "never.tar", environment=environment)
    said = "no file never, and no run with that name" in missing.stderr.decode()
    assert (missing.returncode, said) == (1, True)
    members = members_of(out.read_bytes())
    assert lines(members[EVENTS]) == a_run("one")
    assert SECRET.encode() not in out.read_bytes()
    places = lines(members[RECORDS])
    assert {place["topic"] for place in places} == {f"{settings.namespace}.trial-events"}
    assert all(place["timestamp"] > 1_700_000_000_000 for place in places)
    restored = [
        Record(value, place["offset"], place["partition"], place["timestamp"])
        for value, place in zip(members[EVENTS].splitlines(), places, strict=True)
    ]
    prices, position = PriceTable.default(), Position(offset=places[len(places) // 2]["offset"])
    then = fold_records(restored, prices=prices, as_of=position)
    of_log = fold_run(settings, "one", prices, position)
    assert [c.digest for c in then.summaries()] == [c.digest for c in of_log.run.summaries()]
