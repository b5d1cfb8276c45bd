"""Every case of formulacode/logs gives fc-eval's tokens, cost and trajectory length, or names the ruling."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamer.folding.score.prices import PriceTable
from streamer.sources.base import fit_event
from streamer.sources.files import AgentLogs, enriched, read_agent_logs
from tests.support.data import shared_data
from tests.support.events import a_trial, folded

CASES = (
    *("bom", "cast_all_kinds", "cast_crlf", "cast_header_only", "cast_junk", "cast_named_after_agent"),
    *("cast_no_header_first_event_lost", "cast_no_trailing_newline", "cast_two_newest_wins"),
    *("cast_u2028_in_event", "completion_only", "directory_named_json", "empty_file", "entry_not_dict"),
    *("llm_metrics_null_last", "nan_token", "never_any_tokens", "no_agent_logs_dir"),
    *("not_accumulated_per_call_only", "odd_length_last_entry_without_metrics", "price_00", "price_01"),
    *("price_02", "price_03", "price_04", "price_05", "price_12", "price_16", "prompt_only", "real_cast_0"),
    *("real_cast_1", "real_cast_4", "real_cast_6", "real_cast_7", "real_cast_9", "token_all_negative"),
    *("token_floats", "token_strings", "two_files_newest_is_dict", "two_files_newest_malformed_no_cast"),
    "usage_null",
)

NO_LOG = "there is no agent log"
TOKENS_UNKNOWN_R1 = {
    "bom": "the newest log starts with a byte order mark, which fc-eval cannot read",
    "cast_all_kinds": NO_LOG,
    "cast_crlf": NO_LOG,
    "cast_header_only": NO_LOG,
    "cast_junk": NO_LOG,
    "cast_named_after_agent": NO_LOG,
    "cast_no_header_first_event_lost": NO_LOG,
    "cast_no_trailing_newline": NO_LOG,
    "cast_two_newest_wins": NO_LOG,
    "cast_u2028_in_event": NO_LOG,
    "directory_named_json": "the newest log is a directory",
    "empty_file": "the newest log is empty",
    "entry_not_dict": "the last entry is a text, which stops the scan",
    "llm_metrics_null_last": "the last entry's llm_metrics is null, which stops the scan",
    "nan_token": "prompt_tokens is NaN, which stops the scan",
    "no_agent_logs_dir": NO_LOG,
    "not_accumulated_per_call_only": "only usage per call is stated, none accumulated",
    "real_cast_0": NO_LOG,
    "real_cast_1": NO_LOG,
    "real_cast_4": NO_LOG,
    "real_cast_6": NO_LOG,
    "real_cast_7": NO_LOG,
    "real_cast_9": NO_LOG,
    "two_files_newest_is_dict": "the newest log is an object",
    "two_files_newest_malformed_no_cast": "the newest log is cut off",
    "usage_null": "the last entry's usage is null, which stops the scan",
}
"""R1: nothing states tokens, so they are unknown where fc-eval says 0; and the cost with them (R2)."""

LENGTH_UNKNOWN_R1 = {"two_files_newest_malformed_no_cast": "neither a log nor a recording can be read"}
"""R1: nothing states a length, so it is unknown where fc-eval says 0."""

COST_R2 = {
    "price_03": (29071 * 1.25 + 3951 * 10) / 1e6,  # gpt-5-2025-08-07 is an alias of gpt-5
    "price_04": (16507 * 1.25 + 1814 * 10) / 1e6,  # openai/gpt-5-2025-08-07 likewise
    "price_12": None,  # no table knows fireworks_ai/...
    "price_16": None,  # no model, no price
}
"""R2: dated names have their model's price, and a model without a price has no cost, where fc-eval says 0."""

NOT_TAKEN_E6 = {"never_any_tokens", "token_all_negative"}
"""E6: the log states tokens, none above 0; the trial's result keeps its own, and has none here."""


def restored(case_id: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A case as it was on disk: with its times and its empty directories."""
    original = shared_data() / "formulacode" / "logs" / case_id
    case: dict[str, Any] = json.loads((original / "case.json").read_text())
    trial = tmp_path / case_id
    shutil.copytree(original, trial)
    for name in case["empty_dirs"]:
        (trial / name).mkdir(parents=True)
    for name, mtime in case["mtimes"].items():
        os.utime(trial / name, (mtime, mtime))
    return trial, case


def values(logs: AgentLogs, model: str) -> dict[str, Any]:
    return {
        "input_tokens": logs.input_tokens,
        "output_tokens": logs.output_tokens,
        "cost_usd": PriceTable.default().cost(model, logs.input_tokens, logs.output_tokens),
        "trajectory_length": logs.trajectory_length,
    }


def ruled(case_id: str, expected: dict[str, Any]) -> dict[str, Any]:
    """What fc-eval says, changed by the rulings."""
    by_rulings = dict(expected)
    if case_id in TOKENS_UNKNOWN_R1:
        by_rulings |= {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    if case_id in LENGTH_UNKNOWN_R1:
        by_rulings["trajectory_length"] = None
    if case_id in COST_R2:
        by_rulings["cost_usd"] = COST_R2[case_id]
    return by_rulings


def approximately(expected: dict[str, Any]) -> dict[str, Any]:
    cost = expected["cost_usd"]
    return expected | {"cost_usd": cost if cost is None else pytest.approx(cost, rel=1e-9)}


def test_the_cases_are_those_that_there_are() -> None:
    there = {case.parent.name for case in (shared_data() / "formulacode" / "logs").glob("*/case.json")}
    assert there == set(CASES)


@pytest.mark.parametrize("case_id", CASES)
def test_a_log_gives_what_fc_eval_reads_from_it_but_for_the_rulings(case_id: str, tmp_path: Path) -> None:
    trial, case = restored(case_id, tmp_path)
    got = values(read_agent_logs(trial), case["model_name"])
    assert got == approximately(ruled(case_id, case["expected"]))


@pytest.mark.parametrize(
    ("rulings", "fields"),
    [
        (TOKENS_UNKNOWN_R1, {"input_tokens", "output_tokens", "cost_usd"}),
        (LENGTH_UNKNOWN_R1, {"trajectory_length"}),
        (COST_R2, {"cost_usd"}),
    ],
    ids=["R1 tokens", "R1 length", "R2"],
)
def test_a_ruling_speaks_only_where_fc_eval_says_0(rulings: dict[str, Any], fields: set[str]) -> None:
    for case_id in rulings:
        case = json.loads((shared_data() / "formulacode" / "logs" / case_id / "case.json").read_text())
        assert {case["expected"][field] for field in fields} == {0}


@pytest.mark.parametrize("case_id", CASES)
def test_every_value_names_the_file_it_comes_from_and_every_missing_one_the_reason(
    case_id: str, tmp_path: Path
) -> None:
    trial, _ = restored(case_id, tmp_path)
    logs = read_agent_logs(trial)
    known = {name for name, value in values(logs, "").items() if value is not None}
    assert set(logs.sources) == known
    assert all((trial / file).is_file() for file in logs.sources.values())
    stopped = case_id in TOKENS_UNKNOWN_R1 and TOKENS_UNKNOWN_R1[case_id] != NO_LOG
    assert bool(logs.problems) == (stopped and case_id != "not_accumulated_per_call_only")


@pytest.mark.parametrize("case_id", CASES)
def test_a_trial_is_scored_with_what_its_logs_say(case_id: str, tmp_path: Path) -> None:
    trial, case = restored(case_id, tmp_path)
    bare = a_trial(model=case["model_name"] or "unknown")
    event, misfits = fit_event(enriched(bare, read_agent_logs(trial)).event)
    assert event is not None
    assert not misfits
    pipeline, _ = folded([event])
    [change] = pipeline.run("run-1").take_changes().scored
    scored = json.loads(change.value or b"")
    expected = ruled(case_id, case["expected"])
    if case_id in NOT_TAKEN_E6:
        expected |= {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    assert {name: scored[name] for name in expected} == approximately(expected)
    assert scored["cost_source"] == (None if expected["cost_usd"] is None else "estimated")
