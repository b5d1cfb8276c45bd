"""`streamer fold`, without a broker."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from streamer.folding import summaries
from streamer.folding.fold import fold_records
from streamer.folding.plan import Denominators
from streamer.folding.state import RunState
from streamer.schemas.wire import records_of_lines
from streamer.terminal import cli


def a_trial(run: str, agent: str, tier: str, number: int) -> dict[str, Any]:
    return {
        "type": "trial_result",
        "run_id": run,
        "agent": agent,
        "model": "gpt-4o",
        "tier": tier,
        "subtest": f"{number % 2:02d}" if tier == "T1" else "00",
        "task_id": f"t{number}",
        "resolved": number % 2 == 0,
        "score": number / 4,
        "input_tokens": 1000,
        "output_tokens": 100,
    }


PLAN = {"type": "run_started", "run_id": "r1", "tasks": 4, "attempts": 1, "subtests": {"T0": 1, "T1": 2}}
TRIALS = [
    a_trial(run, agent, tier, number)
    for run in ("r1", "r2")
    for agent in ("agent-a", "nop")
    for tier in ("T0", "T1")
    for number in range(4)
]
EVENTS = [PLAN, *TRIALS]
LINES = [orjson.dumps(event) for event in EVENTS]


def fold(*arguments: object, lines: bytes = b"\n".join(LINES)) -> Result:
    return CliRunner().invoke(cli, ["fold", *map(str, arguments)], input=lines)


def objects(result: Result) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in result.stdout_bytes.splitlines()]


def digests(result: Result) -> list[tuple[str, str]]:
    return [(line["type"], line["digest"]) for line in objects(result)]


def test_json_is_what_would_be_published_byte_for_byte() -> None:
    published = [change.value for change in fold_records(records_of_lines(LINES)).summaries()]
    result = fold("--json")
    assert result.stdout_bytes.splitlines() == published
    assert result.exit_code == 0


def test_runs_come_in_order_and_each_run_summary_after_its_groups() -> None:
    found = [(line["run_id"], line["type"]) for line in objects(fold("--json"))]
    kinds = ["agent_model_summary"] * 2 + ["tier_summary"] * 6 + ["run_summary"]
    assert found == [("r1", kind) for kind in kinds] + [("r2", kind) for kind in kinds]


def test_any_order_and_any_copies_give_the_same_digests() -> None:
    shuffled = LINES * 3
    random.Random(7).shuffle(shuffled)
    assert digests(fold("--json", lines=b"\n".join(shuffled))) == digests(fold("--json"))


@pytest.mark.parametrize(
    "lines",
    [
        b"\n\n  \n".join(LINES),
        b"\r\n".join(LINES) + b"\r\n",
        b"\xef\xbb\xbf" + b"\n".join(LINES),
        gzip.compress(b"\n".join(LINES)),
        gzip.compress(LINES[0] + b"\n") + gzip.compress(b"\n".join(LINES[1:])),
    ],
    ids=["blank lines", "CRLF", "byte order mark", "gzip", "gzip in two members"],
)
@pytest.mark.parametrize("from_file", [True, False], ids=["file", "stdin"])
def test_lines_are_read_however_they_are_wrapped(lines: bytes, from_file: bool, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(lines)
    result = fold("--json", tmp_path / "events") if from_file else fold("--json", "-", lines=lines)
    assert result.exit_code == 0, result.stderr
    assert digests(result) == digests(fold("--json"))


def test_a_bad_line_is_reported_with_its_number_and_reason_and_the_rest_counts() -> None:
    bad = [b"garbage", b'{"type": "trial_result", "run_id": "r1"}', b'{"type": "\\u001b[31m"}']
    result = fold("--json", lines=b"\n".join([LINES[0], b"", *bad, *LINES[1:]]))
    reports = result.stderr.splitlines()
    assert [report.split(":")[:2] for report in reports[:-1]] == [
        ["line 3", " not_json"],
        ["line 4", " missing_field"],
        ["line 5", " unknown_type"],
    ]
    assert "3 rejected" in reports[-1]
    assert "\x1b" not in result.stderr
    assert result.exit_code == 1
    assert digests(result) == digests(fold("--json"))


def test_the_counts_tell_duplicates_superseded_ignored_and_unknown_fields() -> None:
    better = {**EVENTS[1], "revision": 5, "resolved": False}
    late = {**EVENTS[1], "revision": 1, "score": 0.125, "who_knows": 1}
    gone = {"type": "trial_retracted", "revision": 9} | {
        name: EVENTS[2][name] for name in ("run_id", "task_id", "agent", "model", "tier", "subtest")
    }
    lines = [*LINES, LINES[3], *map(orjson.dumps, (better, late, gone)), LINES[2]]
    result = fold(lines=b"\n".join(lines))
    assert result.stderr.strip() == (
        f"{len(lines)} events: {len(LINES) + 2} counted, 1 duplicate, 1 superseded on arrival, 1 ignored, "
        "0 rejected, 1 unknown field"
    )


def test_tables_show_runs_agents_and_tiers() -> None:
    text = fold().stdout
    assert "Run r1" in text
    assert "16 of 24 planned trials in, provisional" in text
    assert "nop:gpt-4o (baseline)" in text
    assert "Agents within tiers" in text
    assert "(prov.)" in text
    assert "composite" in text
    assert "all trials" in text
    assert "Run r1 · stalled" in text


def test_as_of_a_line_of_a_file_a_run_goes_on_as_no_line_has_a_time() -> None:
    text = fold("--as-of", len(EVENTS) - 1).stdout
    assert "Run r1 · running" in text
    assert "16 of 24 planned trials in, provisional" in text
    report = CliRunner().invoke(
        cli,
        ["report", "r1", "--from", "-", "--as-of", str(len(EVENTS) - 1), "--format", "md"],
        input=b"\n".join(LINES),
    )
    assert "· <code>running</code>" in report.stdout


def test_tables_break_tiers_down_by_subtest() -> None:
    text = fold("--by", "subtest").stdout
    assert "Subtests" in text
    assert text.count(" all ") - text.count(" all trials ") == 6


def test_json_by_subtest_adds_lines_that_sum_to_the_tiers() -> None:
    plain, by = objects(fold("--json")), objects(fold("--json", "--by", "subtest"))
    assert by[: len(plain)] == plain
    tiers = {(s["run_id"], s["tier"], s["agent_model"]): s for s in plain if s["type"] == "tier_summary"}
    added = by[len(plain) :]
    assert {s["type"] for s in added} == {"subtest_summary"}
    for place, tier in tiers.items():
        parts = [s for s in added if (s["run_id"], s["tier"], s["agent_model"]) == place]
        assert sum(part["trials"] for part in parts) == tier["trials"]
        assert sum(part["resolved"] for part in parts) == tier["resolved"]
    counts = [(s["subtest"], s["runs_planned"]) for s in added if s["run_id"] == "r1" and s["tier"] == "T1"]
    assert set(counts) == {("00", 4), ("01", 4)}


def test_a_price_table_of_the_user_wins(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('[models."gpt-4o"]\ninput = 1000\noutput = 0\n')
    dear = objects(fold("--json", "--prices", tmp_path / "prices.toml"))[0]
    cheap = objects(fold("--json"))[0]
    assert (dear["mean_cost"], cheap["mean_cost"]) == (1.0, 0.0065)


@pytest.mark.parametrize("content", [b"not toml [", b"[models.x]\ninput = -1\noutput = 1\n", b"\xff\xfe"])
def test_a_wrong_price_table_is_a_usage_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "prices.toml").write_bytes(content)
    result = fold("--prices", tmp_path / "prices.toml")
    assert result.exit_code == 2
    assert "prices.toml" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("cut", [10, 30, -4])
def test_damaged_gzip_is_one_line(tmp_path: Path, cut: int) -> None:
    (tmp_path / "events.gz").write_bytes(gzip.compress(b"\n".join(LINES))[:cut])
    result = fold(tmp_path / "events.gz")
    assert result.stderr.startswith("streamer: ")
    assert "damaged gzip" in result.stderr
    assert result.exit_code == 1


def test_utf_16_is_told_apart_from_garbage(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"\n".join(LINES).decode().encode("utf-16"))
    result = fold(tmp_path / "events")
    assert "UTF-16" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.exit_code == 2


def test_nothing_in_is_nothing_out() -> None:
    assert fold("--json", lines=b"").stdout == ""
    assert fold(lines=b"").stdout == "No results.\n"


def test_a_deleted_run_is_not_shown() -> None:
    deleted = orjson.dumps({"type": "run_deleted", "run_id": "r1", "revision": 1})
    result = fold("--json", lines=b"\n".join([*LINES, deleted]))
    assert {line["run_id"] for line in objects(result)} == {"r2"}


def test_hostile_names_are_shown_harmless() -> None:
    event = EVENTS[1] | {"agent": "a\u202eb[red]\u2028", "run_id": "r\u200b"}
    text = fold("--by", "subtest", lines=orjson.dumps(event)).stdout
    assert r"a\u202eb[red]\u2028" in text
    assert r"Run r\u200b" in text
    assert not {"\u202e", "\u2028", "\u200b"} & set(text)


def test_a_run_that_fails_is_reported_and_the_others_are_summarised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = summaries.run_body

    def poisoned(run: RunState, planned: Denominators) -> Any:
        if run.run_id == "r2":
            raise ArithmeticError("cannot be divided")
        return body(run, planned)

    monkeypatch.setattr(summaries, "run_body", poisoned)
    (file := tmp_path / "events.ndjson").write_bytes(b"\n".join(map(orjson.dumps, [PLAN, *TRIALS])))
    for options in ([], ["--json"]):
        result = CliRunner().invoke(cli, ["fold", str(file), *options])
        assert result.exit_code == 1
        assert "run r2 cannot be folded: ArithmeticError: cannot be divided" in result.stderr
        assert "r1" in result.stdout
        assert "r2" not in result.stdout
