"""`streamer why`: the table, the sums, JSON, and what it says where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import Done, call, lines, ndjson, published, settled
from tests.house.repository import ROOT
from tests.support.cli import streamer
from tests.support.events import a_plan, a_retraction, a_trial
from tests.support.online import Online

RUN = "why/1"
HISTORY = [
    a_trial(task_id="a", tier="T0", subtest="01"),
    a_trial(task_id="b", attempt=2, resolved=False),
    a_trial(task_id="b", attempt=2, resolved=None, revision=1),
    a_trial(task_id="b", attempt=2, revision=2, cost_usd=0.5),
    a_trial(task_id="c", shard="s", resolved=False, agent="other"),
    a_plan(tasks=3),
    a_retraction(task_id="a", tier="T0", subtest="01"),
    a_trial(task_id="n", agent="nop", model="nop"),
]
TABLE = """\
What moved pass_rate, newest first
offset   agent:model      what           trial          before      after          change
─────────────────────────────────────────────────────────────────────────────────────────
     4   other:gpt-5      new result     s: c                –     0.00 %               –
     3   terminus:gpt-5   late verdict   b, attempt 2  50.00 %   100.00 %   +50.00 points
     1   terminus:gpt-5   new result     b, attempt 2 100.00 %    50.00 %   -50.00 points
     0   terminus:gpt-5   new result     a, T0/01            –   100.00 %               –
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "events.ndjson"
    made.write_bytes(ndjson(HISTORY))
    return made


def why(file: Path, *arguments: object) -> Done:
    return streamer("why", "--from", file, *arguments)


def answer(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    [found] = lines(done.stdout)
    return found


def test_the_table_lists_the_moves_newest_first_and_the_sums_stand_below(file: Path) -> None:
    done = why(file)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert [line.split() for line in text.splitlines()[:7] if "─" not in line] == [
        line.split() for line in TABLE.splitlines() if "─" not in line
    ]
    assert text.endswith(
        "pass_rate of other:gpt-5 moved from unknown to 0.00 % by 1 event: 0 up, 0 down\n"
        "pass_rate of terminus:gpt-5 moved from unknown to 100.00 % by 3 events: 1 up, 1 down\n"
    )


def test_a_limit_leaves_rows_out_and_counts_them(file: Path) -> None:
    text = why(file, "--limit", 1).stdout.decode()
    assert "and 3 more (--limit)" in text
    assert "3 events: 1 up, 1 down" in text


def test_since_begins_after_a_position_and_as_of_ends_at_one(file: Path) -> None:
    found = answer(why(file, "--since", 0, "--as-of", 2, "--json"))
    assert [move["offset"] for move in found["moves"]] == [1]
    assert found["state_version"] == 2
    [total] = found["totals"]
    assert (total["before"], total["after"], total["delta"]) == (1.0, 0.5, -0.5)
    still = why(file, "--since", 4).stdout.decode()
    assert still.splitlines() == [
        "pass_rate of other:gpt-5 stayed at 0.00 %",
        "pass_rate of terminus:gpt-5 stayed at 100.00 %",
    ]


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("mean_cost", "$0.5000"),
        ("cost_of_pass", "cost_of_pass of other:gpt-5 moved from unknown to inf"),
        ("metrics/reward", "metrics/reward of other:gpt-5 stayed at –"),
        ("mean_speedup", "mean_speedup of terminus:gpt-5 stayed at –"),
    ],
)
def test_other_metrics_are_written_as_on_their_boards(file: Path, metric: str, said: str) -> None:
    assert said in why(file, "--metric", metric).stdout.decode()


def test_json_has_the_moves_the_sums_and_infinite_numbers_as_text(file: Path) -> None:
    found = answer(why(file, "--metric", "cost_of_pass", "--json", "--agent", "terminus"))
    assert (found["run_id"], found["metric"], found["unit"]) == ("run-1", "cost_of_pass", "USD")
    assert found["log_begins_at"] == 0
    move = found["moves"][0]
    assert move["trial"] == {
        "shard": "",
        "task_id": "b",
        "attempt": 2,
        "agent_model": "terminus:gpt-5",
        "tier": None,
        "subtest": None,
    }
    other = answer(why(file, "--metric", "cost_of_pass", "--json", "--agent", "other:gpt-5"))
    assert other["totals"][0]["after"] == "Infinity"


def test_names_cannot_write_on_the_terminal() -> None:
    name = "\u202eevil"
    names = {"task_id": name, "agent": name, "model": name, "tier": name, "subtest": name, "shard": name}
    done = streamer("why", "--from", "-", stdin=ndjson([a_trial(run_id=name, **names)]))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert name not in shown
    assert shown.count("\\u202eevil") >= 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "say which RUN, or name a file of events with --from"),
        (["--metric", "reward"], 2, "There is no board of 'reward'"),
        (["--agent", "who"], 2, "the run has no agent 'who'; it has nop:nop, other:gpt-5, terminus:gpt-5"),
        (["missing"], 1, "the file holds no run 'missing'"),
        (["--since", "then"], 2, "neither an offset"),
    ],
)
def test_what_cannot_be_answered_is_one_line(file: Path, arguments: list[str], code: int, said: str) -> None:
    done = why(file, *arguments) if arguments else streamer("why")
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_lines_that_are_no_events_are_reported_and_the_rest_is_told(tmp_path: Path) -> None:
    done = streamer("why", "--from", "-", stdin=b"garbage\n" + ndjson(HISTORY))
    assert done.returncode == 1
    assert b"line 1: not_json" in done.stderr
    assert b"moved from unknown" in done.stdout


def test_the_transcript_of_the_page_is_what_is_printed(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "viewer.md").read_text("utf-8").split("## What moved a number")[1]
    (tmp_path / "events.ndjson").write_text(section.split("```json\n")[1].split("```")[0])
    command, told = section.split("```console\n$ ")[1].split("```")[0].split("\n", 1)
    done = streamer(*command.split()[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout.decode()) == (0, told)


def test_the_last_number_is_the_published_one(stack: Online) -> None:
    events = [event | {"run_id": RUN} for event in HISTORY]
    published(stack, events)
    settled(stack, RUN)
    mistyped = call(stack, "why", "why1")
    assert (mistyped.returncode, b"'why1'. Did you mean why/1?" in mistyped.stderr) == (1, True)
    found = answer(call(stack, "why", RUN, "--json"))
    agents = lines(call(stack, "query", "agents", RUN, "--json").stdout)
    now = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in agents}
    assert {total["agent_model"]: total["after"] for total in found["totals"]} == {
        label: value for label, value in now.items() if label != "nop:nop"
    }
    assert all(move["at"] is not None for move in found["moves"])
    text = call(stack, "why", RUN, "--since", found["moves"][0]["at"]).stdout
    assert b"stayed at" in text
