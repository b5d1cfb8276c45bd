"""A gate that follows runs: early verdicts, waiting, giving up, and the same end as the files give."""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from click.testing import CliRunner, Result
from genai_prices.data import providers
from genai_prices.types import StartDateConstraint

from streamer.client.readers import StateReader
from streamer.folding.breakdowns import by_label
from streamer.folding.prices import snapshot_price
from streamer.folding.state import RunState
from streamer.schemas.base import canonical_json
from streamer.settings import Settings
from streamer.statistics.pairs import GateVerdict
from streamer.storage.entries import Keys
from streamer.storage.kafka import TopicUnreadable
from streamer.terminal import cli, compare, print_line, print_table
from streamer.text import shown, text_width, visible
from streamer.views.decide.gate import Terms
from tests.folding.matched import TASKS, the_plan, trial
from tests.house.repository import ROOT
from tests.support.cli import streamer
from tests.support.events import a_trial, folded
from tests.support.online import Online
from tests.terminal.calling import SECONDS, call, lines, ndjson, published, settled, started, stderr_of
from tests.terminal.gating import on_verdict, run_of, written

NUMBERS = count()
END = {"type": "run_finished", "revision": 9}

gate = partial(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def names() -> tuple[str, str]:
    number = next(NUMBERS)
    return f"gate-{number}-new", f"gate-{number}-old"


@pytest.fixture
def against(stack: Online) -> tuple[str, str]:
    """A candidate that has not begun, and its baseline, which passes all 20 tasks."""
    new, old = names()
    published(stack, [*run_of(old, "b", 20), END | {"run_id": old}])
    return new, old


def test_a_live_run_is_judged_before_it_ends(stack: Online, against: tuple[str, str]) -> None:
    new, old = against
    published(stack, run_of(new, "a", 2, 2))
    with gate(stack, "gate", new, "--against", old) as process:
        assert b"2 of 20 pairs" in line_of(process)
        published(stack, run_of(new, "a", 2, 12)[3:])
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (1, b"")
    assert b"FAIL: pass_rate at most 2 points worse than" in out
    saved = re.search(rb"estimate: stopping now saves up to (\d+) trials", out)
    assert saved
    assert 8 <= int(saved[1]) <= 17, "decided at 3 to 12 of 20 pairs, as the worker reads them"


def test_a_run_that_has_not_begun_is_waited_for(stack: Online, against: tuple[str, str]) -> None:
    new, old = against
    convert = f"`streamer convert {ROOT / 'tests'} > FILE`"
    for absent, said in ((new, "the log has no such run"), (ROOT / "tests", convert)):
        assert said in stderr_of(call(stack, "gate", absent, "--against", old), 3)
    with gate(stack, "gate", f"{new}/a:m", "--against", old, "--timeout", SECONDS) as process:
        assert b"no trials yet" in line_of(process)
        published(stack, run_of(new, "a", 20))
        out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, b"PASS: " in out) == (0, True)


@pytest.mark.parametrize(("looked", "verdict"), [(False, GateVerdict.UNDECIDED), (True, GateVerdict.FAIL)])
def test_a_log_that_is_half_read_when_the_time_is_up_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, looked: bool, verdict: GateVerdict
) -> None:
    class HalfRead:
        """A log of which the failed trials are folded, and the others are not yet."""

        def __init__(self, *_: object) -> None:
            self._run = folded(run_of("r", "a", 0, 8))[0].run("r").state

        def states(self) -> dict[str, RunState]:
            return {"r": self._run}

        async def looks(self, _: float) -> AsyncGenerator[None]:
            if looked:
                yield
            await asyncio.Event().wait()

    monkeypatch.setattr(compare, "FollowedRuns", HalfRead)
    base, told = written(tmp_path, "base", run_of("s", "b", 20)), list[str]()
    sides = compare.Sides(("r", str(base)), Settings(), 0.05)
    assert compare.judged(sides, Terms(), told.append).verdict is verdict
    assert told == ([] if looked else ["no verdict within 0.05 s: the log is not read yet"])


@pytest.mark.parametrize("how", [("--against", "s"), ("--against", "s", "--timeout", "600"), ("--race",)])
def test_a_silent_broker_is_said(monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]) -> None:
    async def looks(*_: object) -> AsyncGenerator[None]:
        raise TopicUnreadable([("trial-events", 3)], 60)
        yield

    monkeypatch.setattr("streamer.terminal.compare.FollowedRuns.looks", looks)
    said = CliRunner().invoke(cli, ["gate", "r", *how])
    assert said.exit_code == 3
    assert said.output == f"streamer: undecided: {TopicUnreadable([('trial-events', 3)], 60)}\n"


def test_a_ledger_says_the_same_from_redis_the_log_and_a_file(stack: Online, tmp_path: Path) -> None:
    """Inference 8a: same events, same bytes; and `verify` covers the part of it that Redis has."""
    new, old = names()
    plan = {"planned_at": "2026-03-01T10:00:00Z", "ledger": {"name": new, "baseline": old}}
    events = [*run_of(old, "b", 4), *run_of(new, "a", 18, started_at="2026-03-01T11:00:00Z")]
    events[21] |= plan
    settled(stack, new, events)
    settled(stack, old)
    expected = call(stack, "ledger", new, "--from", written(tmp_path, "events", events), "--json").stdout
    assert b'"verdict":"better"' in expected
    assert call(stack, "ledger", new, "--json").stdout == expected
    now = datetime.now(UTC).isoformat()
    assert call(stack, "ledger", new, "--as-of", now, "--json").stdout == expected
    assert call(stack, "gate", f"{new}/a:m", "--ledger", new).returncode == 0
    plain = call(stack, "gate", f"{old}/b:m", "--against", old, "--json").stdout
    assert orjson.loads(plain)["judged_before"] == 1
    with redis.Redis.from_url(stack.redis.url) as client:
        key = Keys(stack.settings.namespace).run(new)
        stored = orjson.loads(client.get(key) or b"")
        stored["ledger"]["in_time"] = False
        client.set(key, orjson.dumps(stored))
    verified = call(stack, "verify", new)
    assert (verified.returncode, b"ledger" in verified.stdout) == (1, True), verified.stdout


def test_a_race_follows_its_run_and_says_who_may_stop(stack: Online) -> None:
    run, _ = names()
    of = dict.fromkeys("ab", 18) | {"c": 0}
    tasks = [f"t{n:02}" for n in range(60)]
    labels, planned_at = [f"{agent}:m" for agent in of], "2026-03-01T10:00:00Z"
    plan = the_plan(run, tasks=tasks, order=tasks, agent_models=labels, planned_at=planned_at)
    results = [
        trial(run, agent, task, n * 7 % 20 < best, started_at="2026-03-01T11:00:00Z")
        for n, task in enumerate(tasks)
        for agent, best in of.items()
    ]
    published(stack, [plan, *results[:6]])
    with gate(stack, "gate", run, "--race", "--json", "--timeout", SECONDS) as process:
        published(stack, results[6:90])
        dropped = orjson.loads(line_of(process))
        published(stack, results[90:])
        out, err = process.communicate(timeout=SECONDS)
    assert (dropped["agent_model"], dropped["racing"]) == ("c:m", ["a:m", "b:m"])
    assert (process.returncode, out, err) == (0, b"", b"left: a:m, b:m\n")


def test_the_program_stops_a_harness(stack: Online, against: tuple[str, str]) -> None:
    new, old = against
    program = "import signal; print('at work', flush=True); signal.pause()"
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert line_of(harness) == b"at work\n"
        published(stack, run_of(new, "a", 0, 10))
        code = (
            "import json, os, signal, sys; "
            f"json.load(sys.stdin)['verdict'] == 'fail' and os.kill({harness.pid}, signal.SIGTERM)"
        )
        done = call(stack, "gate", new, "--against", old, "--on-verdict", on_verdict(code))
        assert (done.returncode, harness.wait(SECONDS)) == (1, -signal.SIGTERM)
    finally:
        harness.kill()
        harness.communicate()


def test_a_killed_publisher_leaves_a_gate_undecided(stack: Online, against: tuple[str, str]) -> None:
    new, old = against
    with started(stack, "publish", stdin=subprocess.PIPE) as publisher:
        assert publisher.stdin is not None
        publisher.stdin.write(ndjson(run_of(new, "a", 3, 3)))
        publisher.stdin.flush()
        with StateReader(stack.settings) as reader:  # so the gate's time is for reading alone
            reader.wait_for(new, lambda run: run.progress.done == 3, timeout_seconds=SECONDS)
        with gate(stack, "gate", new, "--against", old, "--timeout", 8) as process:
            while b"3 of 20 pairs" not in line_of(process):
                assert process.poll() is None
            publisher.kill()
            out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert out.startswith(b"no verdict within 8 s\nUNDECIDED: ")


def test_a_live_verdict_at_the_end_is_the_one_of_the_files(stack: Online, tmp_path: Path) -> None:
    new, old = names()
    events = {new: [*run_of(new, "a", 17, 19), END | {"run_id": new}], old: run_of(old, "b", 18)}
    for stored in events.values():
        published(stack, stored[::-1])
    files = [written(tmp_path, run, stored) for run, stored in events.items()]
    live = json.loads(call(stack, "gate", new, "--against", old, "--json").stdout)
    folded = json.loads(streamer("gate", files[0], "--against", files[1], "--json").stdout)
    for result in (live, folded):
        assert result["over"] is True
        del result["candidate"]["source"], result["baseline"]["source"], result["words"]
    assert live == folded


def test_lines_come_when_something_new_is_known(stack: Online, against: tuple[str, str]) -> None:
    new, old = against
    published(stack, [the_plan(new), trial(new, "a", TASKS[0], True)])
    with gate(stack, "gate", new, "--against", old) as process:
        first = line_of(process)
        published(stack, run_of(new, "a", 20)[1:])
        out, _ = process.communicate(timeout=SECONDS)
    told = [line for line in [first, *out.splitlines()] if line.strip() and not line.startswith(b" ")]
    assert process.returncode == 0
    assert len(told) < len(TASKS)
    assert len(told) == len(set(told))


def test_the_page_shows_what_it_prints(stack: Online) -> None:
    chance = random.Random(7)
    tasks = [f"task-{number:02}" for number in range(89)]
    order = chance.sample(tasks, len(tasks))
    for run, done, rate in (("main", 89, 0.6), ("branch", 34, 0.3)):
        listed = [(task, chance.random() < rate) for task in order[:done]]
        fields = {"agent": "terminus", "model": "gpt-5", "cost_usd": 0.25}
        trials = [a_trial(run_id=run, task_id=task, resolved=passed, **fields) for task, passed in listed]
        published(stack, [the_plan(run, tasks=tasks, order=order), *trials])
    judged = call(stack, "gate", "branch", "--against", "main")
    assert judged.returncode == 1
    assert f"```text\n{judged.stdout.decode()}```" in (ROOT / "docs" / "gate.md").read_text("utf-8")


# `--by label:KEY`: a run broken down by a label of its trials.
EVENTS = [
    a_trial(task_id="t1", labels={"language": "python"}, resolved=True, metrics={"reward": 0.5}),
    a_trial(task_id="t2", labels={"language": "\x1b[31mrust"}, resolved=False),
    a_trial(task_id="t3"),
]
LINES = b"\n".join(map(orjson.dumps, EVENTS))
GROUPS = by_label(folded(EVENTS)[0].run("run-1").state, "language")
EXPECTED: list[dict[str, Any]] = orjson.loads(canonical_json(GROUPS))


def labelled(command: str, *arguments: str) -> Result:
    given = ["report", "--from", "-"] if command == "report" else [command]
    return CliRunner().invoke(cli, [*given, *arguments], input=LINES)


def test_fold_adds_the_groups_to_its_lines_and_shows_them_as_a_table_that_cannot_act() -> None:
    listed = lines(labelled("fold", "--json", "--by", "label:language").stdout_bytes)
    assert [line for line in listed if line["type"] == "label_summary"] == EXPECTED
    assert len(EXPECTED) == 6
    text, wide = (labelled("fold", *more, "--by", "label:language").stdout for more in ([], ["--wide"]))
    narrow = text[text.index("By language") :]
    assert [word in narrow for word in ("python", "reward", "grade")] == [True, True, False]
    assert "grade" in wide[wide.index("By language") :]
    assert "\x1b" not in text


@pytest.mark.parametrize(("command", "code"), [("fold", 0), ("report", 2)])
def test_a_label_that_no_trial_has_is_said_with_those_there_are(command: str, code: int) -> None:
    done = labelled(command, "--by", "label:colour")
    assert done.exit_code == code
    assert "no trial in run 'run-1' has a label 'colour'. Labels: 'language'." in done.stderr


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_a_report_has_the_groups(form: str) -> None:
    text = labelled("report", "--format", form, "--by", "label:language").stdout
    if form == "json":
        assert orjson.loads(text)["by_label"] == EXPECTED
    else:
        assert "By language" in text
        assert "By language" not in labelled("report", "--format", form).stdout


@pytest.mark.parametrize("by", ["moon", "label:", "label"])
@pytest.mark.parametrize("command", [["fold"], ["query", "run", "r"], ["report", "r"]])
def test_anything_else_is_a_usage_error(command: list[str], by: str) -> None:
    done = CliRunner().invoke(cli, [*command, "--by", by], input=LINES)
    assert (done.exit_code, "label:KEY" in done.stderr) == (2, True)


# `streamer prices`: which price applies, and its source (R2, E9, E10).
TABLE = """
[models."gpt-5"]
input = 2
output = 4.5

[models."our/model"]
input = 0.0375
output = 2.0
cache_read = 0
aliases = ["our/model-2026"]
source = "the contract of 2026"
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (file := tmp_path / "mine.toml").write_text(TABLE)
    return file


def prices(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["prices", *map(str, arguments)])


def price(*arguments: object) -> dict[str, Any]:
    [value] = lines(prices(*arguments, "--json").stdout_bytes)
    return value


def rates(*usd: float | None) -> dict[str, float | None]:
    return dict(zip(("input", "output", "cache_read", "cache_write"), usd, strict=True))


def test_a_price_of_the_specification_holds_for_a_dated_name_with_a_prefix() -> None:
    assert price("@anthropic/claude-opus-4-5-20251101") == {
        "model": "@anthropic/claude-opus-4-5-20251101",
        "pricing_name": "claude-opus-4-5-20251101",
        "reporting_name": "anthropic/claude-opus-4-5-20251101",
        "known": True,
        "origin": "built-in",
        "source": "specification",
        "usd_per_1m_tokens": rates(15.0, 75.0, 1.5, 18.75),
    }


def test_a_price_of_genai_prices_names_its_version_the_librarys_name_of_the_model_and_its_day() -> None:
    result = price("gemini-2.5-flash")
    assert result["origin"] == "genai-prices"
    assert result["source"].startswith(f"genai-prices {version('genai-prices')} (gemini-2.5-flash")
    dated = {
        model.id: limit.start_date
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        and isinstance(limit := model.prices[-1].constraint, StartDateConstraint)
    }
    named = {model: found for model in dated if (found := snapshot_price(model)) and found[0] == model}
    assert any(f"({model}, since {dated[model]})" in found[1].source for model, found in named.items())


USER, USER_RATES = ("user", "user's price table"), rates(2.0, 4.5, None, None)


@pytest.mark.parametrize(
    ("model", "own", "origin", "usd"),
    [
        ("gpt-5-2025-08-07", False, ("built-in", "fc-eval 0.1.0 (E5)"), rates(1.25, 10.0, 0.125, None)),
        ("gpt-5", True, USER, USER_RATES),
        ("openai/gpt-5-2025-08-07", True, USER, USER_RATES),
    ],
)
def test_the_users_table_comes_first_under_our_aliases_too(
    model: str, own: bool, origin: tuple[str, str], usd: dict[str, float | None], table: Path
) -> None:
    result = price(model, *(["--prices", table] if own else []))
    assert (result["origin"], result["source"]) == origin
    assert result["usd_per_1m_tokens"] == usd


def test_a_price_has_all_its_digits_and_its_source(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table may come from the settings."""
    monkeypatch.setenv("STREAMER_PRICES_FILE", str(table))
    assert price("our/model-2026")["source"] == "the contract of 2026"
    assert prices("our/model").stdout.splitlines() == [
        f"our/model: your table {table}; source: the contract of 2026",
        "  input        $0.0375 per 1M tokens",
        "  output       $2.00 per 1M tokens",
        "  cache read   $0.00 per 1M tokens",
        "  cache write  unknown; charged as input",
        "  looked up as our/model",
        "  reported as  our/model",
    ]


def test_a_model_without_a_price_is_exit_code_1_with_names_like_it_and_the_way_to_add_it() -> None:
    result = prices("openai/gpt-55")
    assert (result.exit_code, result.stdout) == (1, "")
    for part in ("looked up as 'gpt-55'", "Names like it: gpt-5", '[models."gpt-55"]'):
        assert part in result.stderr
    said = json.loads(prices("openai/gpt-55", "--json").stdout)
    assert (said["known"], said["origin"], said["usd_per_1m_tokens"]) == (False, None, None)


def test_without_a_model_the_tables_are_listed_in_the_order_in_which_they_win(table: Path) -> None:
    rows, own = (lines(prices(*more, "--json").stdout_bytes) for more in ([], ["--prices", table]))
    assert [row["pricing_name"] for row in rows[:3]] == ["claude-opus-4-5", "claude-sonnet-4", "gpt-4o"]
    assert {row["source"] for row in rows[:3]} == {"specification"}
    assert {row["source"] for row in rows[3:]} == {"fc-eval 0.1.0 (E5)"}
    assert "claude-opus-4-5-20251101" in rows[0]["aliases"]
    people = prices().stdout
    assert ("Prices in USD per 1M tokens" in people, "0.125" in people) == (True, True)
    assert [row["origin"] for row in own[:2]] == ["user", "user"]
    ours = next(row for row in own[2:] if "gpt-5-2025-08-07" in row["aliases"])
    assert ours["usd_per_1m_tokens"] == USER_RATES


# What agents wrote never acts on the terminal.
def test_visible_text_has_every_character_that_acts_as_its_escape_and_all_others_as_they_are() -> None:
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    acting = {c for c in every if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert acting >= set("\x1b\x9b\n\u202e\u200b\u2028\U000e0041\ud800")
    assert visible("".join(every)) == "".join(ascii(c)[1:-1] if c in acting else c for c in every)


def table_of_printing(monkeypatch: pytest.MonkeyPatch, value: object, *, terminal: bool = False) -> str:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", out)
    print_table("Title \x1b[1m", ("name", "number"), [[value, 1]])
    return out.getvalue()


def test_a_table_shows_control_characters_and_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    print_one = partial(table_of_printing, monkeypatch)
    markup = "[bold red]x[/] :smile: [link=file:///]y[/link]"
    printed = print_one("\x1b[31mred\nnext\u202e") + print_one(markup)
    for seen in (r"\x1b[31mred\nnext\u202e", r"Title \x1b[1m", markup):
        assert seen in printed
    assert "\x1b" not in printed
    wide, narrow = (print_one(text).splitlines() for text in ("日本語🙂", "8 narrow"))
    assert list(map(text_width, wide)) == list(map(text_width, narrow))


def test_a_table_is_never_cut_and_is_wrapped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word is broken while another column can give, and there is no escape code even with colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "x" * 500 in table_of_printing(monkeypatch, "x" * 500)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    words = "missing_field " + "some words " * 20 + "1,234,567"
    long, broken = (table_of_printing(monkeypatch, text, terminal=True) for text in ("y" * 500, words))
    assert (long.count("y"), "missing_field" in broken, "1,234,567" in broken) == (500, True, True)
    for printed in (long, broken):
        assert max(map(len, printed.splitlines())) <= 40
        assert "\x1b" not in printed


def test_no_rows_print_nothing_and_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Title", ("name",), [])
    print_line("a\nb")
    assert capsys.readouterr().out == "a\\nb\n"
    assert (shown("Infinity"), shown(float("inf")), shown(None), shown(False)) == ("inf", "inf", "–", "no")


def test_every_written_file_is_named_and_is_json(tmp_path: Path) -> None:
    out = tmp_path / "new" / "schemas"
    result = CliRunner().invoke(cli, ["schema", "--out", str(out)])
    assert result.exit_code == 0
    files = [Path(line) for line in result.output.splitlines()]
    assert sorted(files) == sorted(out.iterdir())
    assert "asyncapi.json" in {file.name for file in files}
    assert all(isinstance(json.loads(file.read_text()), dict) for file in files)
