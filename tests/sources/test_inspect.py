"""Logs of inspect_ai as runs: what its own results say, the events say too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import chain, permutations
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from streamer.sources import files, inspect
from streamer.sources.files import MAX_FILE_BYTES, FileError
from tests.sources.builders import Event, converted, joined_plan, plan_of, trials_of, write_json
from tests.sources.harbor import summaries
from tests.sources.inspect import A_PLAN, OLDER, a_log, a_spec, a_summary, an_archive, the_log
from tests.sources.outcomes import a_tree, agree
from tests.sources.test_field import FIELD

METRICS: Event = {"graded": {}, "quality/style": {}, "quality/length": {}}
JSON_NAME = "2026-01-02T03-04-05_addition_T1.json"


def by_slot(events: list[Event]) -> dict[tuple[str, int], Event]:
    return {(event["task_id"], event["attempt"]): event for event in trials_of(events)}


def of_run(events: list[Event]) -> list[Event]:
    return [event for event in events if event["type"] != "trial_result"]


def summary_of(events: list[Event]) -> Event:
    [summary] = summaries(events).values()
    return summary


def in_any_order(*logs: Path) -> Iterator[list[Event]]:
    """The events of the logs, which arrive in each order."""
    for order in permutations([converted(log)[0] for log in logs]):
        yield list(chain.from_iterable(order))


def a_header(**fields: Any) -> Event:
    return {"version": 2, "status": "success", "eval": a_spec(), "plan": A_PLAN, **fields}


def a_spec_without(name: str) -> Event:
    return {key: value for key, value in a_spec().items() if key != name}


def test_a_finished_log_has_a_plan_and_a_trial_for_each_sample_and_epoch(inspect_logs: Path) -> None:
    """The plan says the queue that inspect_ai shuffled."""
    events = agree({"unreadable": [], "left_out": [], "trials": 18}, inspect_logs / "finished")
    trials, header = trials_of(events), inspect.read_header(the_log(inspect_logs / "finished"))
    results, usage = header["results"], header["stats"]["model_usage"]["mockllm/model"]
    assert len(by_slot(events)) == results["total_samples"] == results["completed_samples"] + 1 == 18
    [failed] = [event for event in trials if "RuntimeError" in event["failure_mode"]]
    assert (failed["message"], "resolved" in failed) == ("RuntimeError('no such tool')", False)
    assert {trial["task_id"] for trial in trials if trial["failure_mode"] == "token_limit"} == {"5"}
    assert not any("cost_usd" in trial for trial in trials)
    names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
    for field, name in (names | {"cache_read_tokens": "input_tokens_cache_read"}).items():
        assert sum(trial.get(field, 0) for trial in trials) == usage[name], field
    plan, spec = plan_of(events), header["eval"]
    shuffled = [str(number) for number in spec["dataset"]["sample_ids"]]
    expected: Event = {"order": shuffled * 3, "order_kind": "shuffled", "tasks": shuffled, "attempts": 3}
    expected |= {"planned_at": spec["created"], "run_id": f"addition_{spec['task_id']}"}  # inference 3
    expected |= {"agent_models": ["careful+generate:mockllm/model"], "metrics": METRICS}
    assert {name: plan[name] for name in expected} == expected


def test_json_and_eval_give_the_same_events(inspect_logs: Path) -> None:
    of_json, of_eval = (converted(inspect_logs / name)[0] for name in ("json", "finished"))
    assert by_slot(of_json) == by_slot(of_eval)
    assert of_run(of_json) == of_run(of_eval)


def test_a_log_that_grows_has_the_samples_so_far_and_no_end(inspect_logs: Path) -> None:
    now, later = (converted(inspect_logs / name)[0] for name in ("growing", "grown"))
    assert 4 <= len(trials_of(now)) < 18
    assert {event["type"] for event in now} == {"run_started", "trial_result"}
    assert plan_of(now) == plan_of(later)
    assert by_slot(now).items() <= by_slot(later).items()


def test_a_retry_is_the_same_run_and_what_ran_again_wins(inspect_logs: Path) -> None:
    events = agree({"notes": []}, inspect_logs / "retried")
    first, second = (converted(log)[0] for log in sorted((inspect_logs / "retried").iterdir()))
    assert len({event["run_id"] for event in events}) == 1
    assert by_slot(sorted(events, key=lambda event: event.get("revision", 0))) == by_slot(second)
    assert by_slot(first)["4", 2]["failure_mode"] == "RuntimeError"
    assert of_run(events) == of_run(second)


def test_the_plan_of_a_retry_that_ran_nothing_again_is_sent(tmp_path: Path) -> None:
    later = a_spec(created="2026-01-02T04:00:00+00:00")
    a_log(tmp_path / "a.eval", a_summary(), status="error")
    a_log(tmp_path / "b.eval", a_summary(), spec=later)
    events = agree({"ends": ["success"], "duplicates": 1}, tmp_path)
    assert plan_of(events)["started_at"] == later["created"]


def test_the_end_of_an_early_logs_retry_counts_although_its_times_have_no_zone(tmp_path: Path) -> None:
    """As in logs of May 2024."""
    for hour, status in (("03", "error"), ("04", "success")):
        time = f"2024-05-05T{hour}:00:00"
        log = a_header(status=status, eval=a_spec(created=time), stats={"completed_at": time})
        log |= {"samples": [a_summary(uuid=None)]}
        write_json(tmp_path / f"2024-05-05T{hour}-00-00_addition_T1.json", log)
    agree({"ends": ["success"]}, tmp_path)


def test_a_recovered_log_ends_the_run_that_was_lost(tmp_path: Path) -> None:
    """As `inspect log recover` writes it, beside the log of the eval that was killed."""
    an_archive(tmp_path / "x.eval", START | {"_journal/summaries/1.json": [a_summary()]})
    ended: Event = {"completed_at": "2026-01-02T03:04:09+00:00"}
    a_log(tmp_path / "x-recovered.eval", a_summary(), status="error", stats=ended)
    agree({"ends": ["error"], "trials": 1}, tmp_path)


def test_a_log_is_found_anywhere_and_other_files_are_left_alone(inspect_logs: Path, tmp_path: Path) -> None:
    shutil.copytree(inspect_logs / "json", tmp_path / "deep" / "logs")
    write_json(tmp_path / "2026-01-02T03-04-05_notes.json", {"version": 1})
    (tmp_path / "other.eval").write_bytes(b"not a zip")
    agree({"trials": 18, "unreadable": []}, tmp_path)


def counts(total: object, **more: object) -> Event:
    return {"results": {"total_samples": total, **more}}


def scored(counted: int | None, uncounted: int) -> Event:
    """The counts that the metrics of a log rest on. An excluded sample has no mark that is documented."""
    score: Event = {"name": "match", "scorer": "match", "metrics": {}, "scored_samples": counted}
    return {"results": {"scores": [score | {"unscored_samples": uncounted}]}}


def used(whole: int) -> Event:
    """inspect_ai counts each try of `retry_on_error`; a sample has the usage of its last one."""
    return {"stats": {"model_usage": {"mockllm/model": {"total_tokens": whole}, "o": {"total_tokens": 7}}}}


def noted(said: str) -> Event:
    return {"notes": [f"run addition_T1: {said}"]}


NO_ID = "not a whole number or a string of 1 to 512 characters"
ONE_OF_3 = noted("3 trials with a result announced, 1 found")
LEFT = noted("inspect_ai's metrics leave out 1 of 3 scores of match; all count")
WHOLE: Event = {"notes": [], "complete": [None]}
BY_OTHER = {"azure/gpt": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}}
OF_OTHER = [a_summary(model_usage=BY_OTHER), a_summary(id=2, model_usage={})]
NONE_USED, SECOND, ONE = a_summary(model_usage={}), a_summary(id=2), [a_summary()]
ODD_SCORES = {"match": {"value": "C"}, "words": {"value": "lovely"}, "parts": {"value": [1, 0]}}
NO_NUMBERS = f"4 trials {inspect.LEFT_OUT}: the score 'words' is 'lovely', which is not a number; "
NO_NUMBERS += "the score 'parts' is a list"
NONE_BUT_OTHER = f"1 trial {inspect.OTHER_MODEL}: mockllm/model used none, azure/gpt did"
ONLY_THE_WHOLE = f"1 trial {inspect.NO_USAGE}: only the whole log has them"
ODD = [a_summary(id=number, scores=ODD_SCORES) for number in (1, 2)]
OF_1300 = "its samples have 300 of 1,300 tokens of mockllm/model; the rest, such as from failed tries, "
OF_1300 += "does not count"
STOPPED, CANCELLED = counts(5, completed_samples=3), {"status": "cancelled"}
TEXTS = [a_summary(id=number, epoch="2") for number in (2, 3)]
OF_300 = [a_summary(id=i, model_usage={"mockllm/model": {"total_tokens": 100 * i}}) for i in (1, 2)]
SIX = [a_summary(id=i, epoch=epoch) for i in (1, 2, 3) for epoch in (1, 2)]
SIX += [a_summary(id=4, epoch=1, error={"message": "crashed", "traceback": "", "traceback_ansi": ""})]
UNKEPT, KEPT = ({"spec": a_spec(config={"log_samples": kept})} for kept in (False, True))
BARE = ["run_started", "run_finished"]
OF_ALL = {"stats": {"model_usage": {"m": {"input_tokens": 66}}}}

LOGS: dict[str, tuple[list[Any], Event, Event]] = {
    "samples not kept": ([], UNKEPT, {"types": BARE, "unreadable": [f"x.eval: {inspect.NO_SAMPLES}"]}),
    "no samples yet": ([], KEPT, {"types": BARE, "unreadable": []}),
    "scores that are no numbers": (ODD, {}, {"metrics": [{"match": 1.0}] * 2, "remarks": [NO_NUMBERS]}),
    "r35 another model's name": (OF_OTHER, {}, {"input_tokens": [None] * 2, "remarks": [NONE_BUT_OTHER]}),
    "r35 metrics that leave one out, (2, 0)": (SIX, scored(2, 0), LEFT),
    "r35 metrics that leave one out, (1, 1)": (SIX, scored(1, 1), LEFT),
    "metrics that name the one left out": (SIX, scored(2, 1), {"notes": []}),
    "metrics of all": (SIX, scored(3, 0), {"notes": []}),
    "metrics without a count": (SIX, scored(None, 0), {"notes": []}),
    "r35 samples that are not there": (ONE, counts(3), ONE_OF_3 | {"complete": [False]}),
    "r35 samples that are not there, in text": (ONE, counts("3"), ONE_OF_3),
    "logged samples": (ONE, counts(3, logged_samples=1), WHOLE),
    "stopped early": (ONE, counts(3, early_stopping={"manager": "m"}), WHOLE),
    "cancelled": (ONE, counts(3) | CANCELLED, WHOLE),
    "all samples": (ONE, counts(1), WHOLE),
    "no results": (ONE, {"results": None}, WHOLE),
    "r35 completed, then cancelled": (ONE, STOPPED | CANCELLED, ONE_OF_3 | {"ends": ["cancelled"]}),
    "r35 completed, then an error": (ONE, STOPPED | {"status": "error"}, ONE_OF_3 | {"ends": ["error"]}),
    "r35 samples that fit no event": ([*ONE, *TEXTS], counts(3), ONE_OF_3 | {"ends": ["interrupted"]}),
    "r35 tokens that only the whole counts": (OF_300, used(1300), noted(OF_1300)),
    "tokens of all samples": (OF_300, used(300), {"notes": []}),
    "tokens of more than all samples": (OF_300, used(9), {"notes": []}),
    # as development versions of October 2024 wrote it
    "r35 tokens that only the whole has": ([NONE_USED], OF_ALL, {"remarks": [ONLY_THE_WHOLE]}),
    "tokens of another sample": ([NONE_USED, SECOND], OF_ALL, {"remarks": []}),
    "tokens of the sample": (ONE, OF_ALL, {"remarks": []}),
}


@pytest.mark.parametrize("log", LOGS)
def test_a_log_is_converted_and_what_it_lacks_is_said(tmp_path: Path, log: str) -> None:
    samples, members, expected = LOGS[log]
    agree(expected, a_log(tmp_path / "x.eval", *samples, **members))


@pytest.mark.parametrize(
    ("sample", "wrong"),
    [
        (None, "an object belongs here, not a JSON NoneType"),
        ({"epoch": 1}, f"`id` is None, {NO_ID}"),
        (a_summary(id=1.5), f"`id` is 1.5, {NO_ID}"),
        (a_summary(id=[1]), f"`id` is [1], {NO_ID}"),
        (a_summary(id="x" * 513), f"`id` is '{'x' * 59}, {NO_ID}"),
    ],
)
def test_what_is_no_sample_costs_no_other_sample(tmp_path: Path, sample: object, wrong: str) -> None:
    expected: Event = {"task_id": ["2"], "unreadable": [f"x.eval: sample 1: {wrong}"]}
    agree(expected, a_log(tmp_path / "x.eval", sample, SECOND))


def test_samples_that_the_log_lacks_make_a_pool_incomplete_too(tmp_path: Path) -> None:
    a_log(tmp_path / "a.eval", a_summary(), results={"total_samples": 3})
    assert joined_plan(agree(ONE_OF_3, tmp_path, run_id="pool")).get("plan_complete") is False


def test_agent_and_model_can_be_named_where_the_log_names_none(tmp_path: Path) -> None:
    a_log(tmp_path / "x.eval", a_summary(), spec=a_spec(model=None), plan={})
    agree({"agent": ["me"], "model": ["mine"]}, tmp_path, agent="me", model="mine")


WRITTEN_NS = 7
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")
USAGE = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 9, "total_cost": 0.25}
CACHED = {"input_tokens_cache_read": 2, "input_tokens_cache_write": 1}


def event_of(**fields: Any) -> Event:
    return inspect.trial_event(a_spec(), A_PLAN, a_summary(**fields), WRITTEN_NS)[0]


def resolved_by(spec: Event, **values: object) -> Any:
    scores = {name: {"value": value} for name, value in values.items()}
    return inspect.trial_event(spec, A_PLAN, a_summary(scores=scores), WRITTEN_NS)[0].get("resolved")


def test_a_summary_becomes_a_trial() -> None:
    expected: Event = {"type": "trial_result", "harness": "inspect", "task_id": "1", "attempt": 1}
    expected |= {"agent": "generate", "model": "mockllm/model", "revision": 1767323048500000000}
    expected |= {"resolved": True, "failure_mode": "unset", "metrics": {"match": 1.0}, "trial_id": "u1"}
    expected |= {"input_tokens": 10, "output_tokens": 3, "started_at": "2026-01-02T03:04:06+00:00"}
    ended = {"finished_at": "2026-01-02T03:04:08.500000+00:00", "duration_seconds": 2.5}
    assert event_of() == expected | ended


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"completed_at": None}, {"revision": WRITTEN_NS}),
        ({"completed_at": "yesterday"}, {"revision": WRITTEN_NS}),
        ({"error": "RuntimeError('no such tool')"}, {"failure_mode": "RuntimeError"}),
        ({"error": "CancelledError('Cancelled via cancel scope 7f')"}, {"failure_mode": "CancelledError"}),
        ({"error": "Cancelled()"}, {"failure_mode": "CancelledError"}),  # as trio names it
        ({"error": "Sandbox(docker) is gone"}, {"failure_mode": "error"}),
        ({"error": "Error code: 429 - too many requests"}, {"failure_mode": "error"}),
        ({"error": {"message": "KeyError('x')"}}, {"failure_mode": "KeyError"}),
        ({"error": {}}, {"failure_mode": "error"}),
        ({"error": None}, {"failure_mode": "unset"}),
        # `fit_event` removes secrets, then cuts: half a key would not look like one
        ({"error": "x" * 10_000}, {"message": "x" * 10_000}),
        (
            {"model_usage": {"mockllm/model": USAGE | CACHED, "openai/grader": {"input_tokens": 900}}},
            dict(zip(TOKENS, (5, 1, 2, 1, 0.25), strict=True)),
        ),
        ({"model_usage": {"openai/grader": USAGE}}, dict.fromkeys(TOKENS)),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_field_of_a_sample_becomes_one_of_its_trial(fields: Event, expected: Event) -> None:
    """Tokens and cost are the tested model's; the class of an error is the failure mode."""
    event = event_of(**fields)
    assert {name: event.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("value", "alone", "accurate"),
    [
        *(("C", True, True), ("I", False, False), (True, True, True), (False, False, False)),
        *((1, None, True), (0, None, False), (1.0, None, True), (0.0, None, False), ("1", None, True)),
        *(("yes", None, True), ("no", None, False), ("N", None, False)),  # as inspect_ai counts them
        *((0.65, None, None), (7, None, None), ("P", None, None), ("lovely", None, None), ([1], None, None)),
        *((float("nan"), None, None), (None, None, None)),
    ],
)
def test_r31_a_number_is_a_verdict_only_where_inspect_takes_its_accuracy(
    value: object, alone: bool | None, accurate: bool | None
) -> None:
    scores = {"f": {"value": value}}
    assert inspect.read_scores(scores).resolved is alone
    assert inspect.read_scores(scores, {"f"}).resolved is accurate


@pytest.mark.parametrize("value", [float("nan"), None, "P"])
def test_r31_no_other_scorer_decides_where_the_first_with_accuracy_gives_no_verdict(value: object) -> None:
    """Else the pass rate would mix two scorers, and be the accuracy of neither."""
    scores = {"judge": {"value": value}, "match": {"value": "C"}}
    assert inspect.read_scores(scores, {"judge", "match"}).resolved is None
    assert inspect.read_scores(scores, {"match"}).resolved is True


ACCURACY, MEAN = {"name": "inspect_ai/accuracy"}, {"name": "inspect_ai/mean"}
GROUPED = {"name": "inspect_ai/grouped", "options": {"metric": {"name": "accuracy"}, "group_key": "kind"}}
THREE = {"match": "I", "judge": "C", "size": 3}


@pytest.mark.parametrize(
    ("spec", "values", "resolved"),
    [
        ({}, {"judge": 0.9, "first": "I", "second": "C"}, False),
        ({}, {"judge": 1.0, "half": "P"}, None),
        ({}, {"parts": {"a": "C"}}, None),
        ({"headline_metric": {}}, THREE, False),
        ({"headline_metric": {"scorer": "judge", "metric": "accuracy"}}, THREE, True),
        ({"headline_metric": {"scorer": "match", "score": "judge"}}, THREE, True),
        ({"headline_metric": {"scorer": "size"}}, THREE, False),
        ({"headline_metric": {"scorer": "another"}}, THREE, False),
        ({"scorers": [{"name": "match", "metrics": [ACCURACY]}]}, {"match": 1}, True),
        ({"scorers": [{"name": "match", "metrics": [MEAN]}]}, {"match": 1}, None),
        ({"scorers": [{"name": "match", "metrics": None}]}, {"match": 1}, None),
        ({"scorers": [{"name": "match", "metrics": [GROUPED]}]}, {"match": 1}, True),
        # as `Task(metrics=...)` replaces those of its scorers; then those of a dictionary's entries
        ({"scorers": [{"name": "match", "metrics": [MEAN]}], "metrics": [ACCURACY]}, {"match": 1}, True),
        ({"metrics": [MEAN]}, {"match": 1}, None),
        ({"metrics": {"match": [ACCURACY]}}, {"match": 1}, None),
    ],
)
def test_r31_the_verdict_is_of_the_headline_metrics_scorer_else_of_the_first_that_has_one(
    spec: Event, values: Event, resolved: bool | None
) -> None:
    assert resolved_by(a_spec(**spec), **values) is resolved


def test_r35_a_fallback_to_another_model_is_said() -> None:
    fallback = [{"model": "mockllm/model", "fallback_model": "mockllm/small", "count": 2}]
    _, said = inspect.trial_event(a_spec(), A_PLAN, a_summary(model_fallbacks=fallback), WRITTEN_NS)
    assert said == [(inspect.OTHER_MODEL, "mockllm/small answered for mockllm/model")]


def test_the_agent_is_the_solver_of_the_eval_else_of_the_plan_and_the_run_is_its_task() -> None:
    assert inspect.agent_of({"solver": "react"}, A_PLAN) == "react"
    assert inspect.agent_of({}, {"steps": [{"solver": "react"}, "odd", {"solver": 7}]}) == "react"
    assert inspect.agent_of({}, {"steps": None}) is None
    assert (inspect.run_id_of({"task_id": "x"}), inspect.run_id_of({"task": "t"})) == (None, "t")


def test_a_plan_tells_what_the_specification_says() -> None:
    least: Event = {"type": "run_started", "harness": "inspect", "revision": 0}
    least |= {"attempts": 1, "benchmark": "t"}
    assert inspect.started_event({"task": "t", "dataset": {"samples": 9}}, {}) == least
    expected = least | {"tasks": ["1", "2"], "attempts": 2, "order": ["1", "2", "1", "2"], "concurrency": 4}
    expected |= {"benchmark": "addition", "benchmark_version": "2", "revision": 1767323045000000000}
    expected |= dict.fromkeys(("started_at", "planned_at"), "2026-01-02T03:04:05+00:00")
    expected |= {"agent_models": ["generate:mockllm/model"], "metrics": {"match": {}}}
    expected["provenance"] = {"dataset_version": "2", "limits": "none", "concurrency": "4"}
    spec = a_spec(task_version=2, config={"epochs": 2, "max_samples": 4})
    assert inspect.started_event(spec, A_PLAN) == expected
    long = a_spec(dataset={"sample_ids": [1, 2], "shuffled": True}, config={"epochs": inspect.MAX_QUEUE})
    assert "order" not in inspect.started_event(long, A_PLAN)


STATISTICS = [MEAN, {"style": [MEAN], "t_*": [MEAN], "u?": [MEAN], "v[ab]": [MEAN], "name": [MEAN]}]
SAME_NAME = [{"name": "inspect_ai/match"}, {"name": "mine/match"}]
OF_KEYS = {"name": "judge", "metrics": {"style": [], "a b": [], "*": []}}


@pytest.mark.parametrize(
    ("scorers", "planned"),
    [
        ([*SAME_NAME, OF_KEYS, {"name": ""}, "odd"], ["match", "match1", "judge/style", "judge/a_b"]),
        (None, []),
        # as inspect_ai writes `metrics=[mean(), {"style": [mean()], "t_*": [mean()]}]`
        (
            [{"name": "judge", "metrics": STATISTICS}, {"name": "match", "metrics": [MEAN]}],
            ["judge/style", "judge/name", "match"],
        ),
    ],
    ids=["names of scorers", "none", "patterns are not planned"],
)
def test_metrics_are_planned_under_the_names_that_scores_get(scorers: Any, planned: list[str]) -> None:
    assert inspect.planned_metrics({"scorers": scorers}) == planned


def test_a_start_is_below_the_result_of_its_slot_and_only_an_ended_eval_has_an_end() -> None:
    began = {"started_at": "2026-01-02T03:04:06+00:00"}
    start = inspect.start_event(a_spec(), A_PLAN, {"id": 1, "epoch": 1} | began, WRITTEN_NS)
    slot = {"task_id": "1", "attempt": 1, "agent": "generate", "model": "mockllm/model"}
    assert start == {"type": "trial_started", "revision": 1767323046000000000} | slot | began
    assert start["revision"] < event_of()["revision"]
    assert inspect.start_event(a_spec(), A_PLAN, {"id": 1}, WRITTEN_NS)["revision"] == WRITTEN_NS
    for status in (None, "", "started"):
        assert inspect.finished_event(status, {"completed_at": "2026-01-02T03:04:05+00:00"}) is None
    end = {"type": "run_finished", "revision": 0, "status": "cancelled"}
    assert inspect.finished_event("cancelled", {"completed_at": ""}) == end


@pytest.mark.parametrize(
    "odd", [None, True, -1, 10**400, float("nan"), "x", "\ud800", [], {}, [[]], {"value": [1]}], ids=repr
)
def test_records_with_odd_values_raise_nothing(odd: Any) -> None:
    """Connectors never raise on the contents of files: what does not fit is left out later, by the schema."""
    spec, summary = a_spec(config={"epochs": 1, "max_samples": 1}), a_summary(limit="time", error="e")
    for name in spec:
        inspect.started_event(spec | {name: odd}, {"steps": odd})
        inspect.trial_event(spec | {name: odd}, {"steps": odd}, summary, WRITTEN_NS)
    for name in ("dataset", "config"):
        for inner in ("sample_ids", "shuffled", "epochs", "max_samples"):
            inspect.started_event(spec | {name: {inner: odd}}, {"steps": [odd]})
    for name in summary:
        inspect.start_event(spec, A_PLAN, {"id": 1, name: odd}, WRITTEN_NS)
        inspect.trial_event(spec, A_PLAN, summary | {name: odd}, WRITTEN_NS)
    for score in (odd, {"value": odd}, {"value": {"k": odd}}):
        inspect.trial_event(spec, A_PLAN, summary | {"scores": {"s": score}}, WRITTEN_NS)
    for usage in (odd, {"total_cost": 0, "total_tokens": odd}):
        inspect.trial_event(spec, A_PLAN, summary | {"model_usage": {"mockllm/model": usage}}, WRITTEN_NS)
    inspect.finished_event(odd, {"completed_at": odd})
    assert len(inspect.planned_metrics({"scorers": [odd, {"name": odd}, {"name": "n", "metrics": odd}]})) <= 2


START = {"_journal/start.json": {"version": 2, "eval": a_spec(), "plan": A_PLAN}}


def test_a_log_is_known_by_its_first_bytes_and_an_empty_one_is_reported(
    inspect_logs: Path, tmp_path: Path
) -> None:
    assert all(inspect.is_log(the_log(inspect_logs / name)) for name in ("growing", "json"))
    a_tree(tmp_path / "others", {"x.eval": "GIF89a", "y.json": {"version": 2, "results": []}})
    os.mkfifo(tmp_path / "others" / "z.eval")
    others = [*(tmp_path / "others").iterdir(), tmp_path, tmp_path / "missing.eval"]
    assert not any(map(inspect.is_log, others))
    a_log(tmp_path / "logs" / "whole.eval", a_summary())
    a_tree(tmp_path / "logs", {"notes.json": "", "x.eval": "", JSON_NAME: ""})
    agree({"trials": 1, "broken": [JSON_NAME, "x.eval"]}, tmp_path / "logs")


def test_a_journal_is_read_by_its_numbers_and_the_last_of_a_sample_counts(tmp_path: Path) -> None:
    """A number and a text are two samples."""
    journal = {f"_journal/summaries/{n}.json": [a_summary(id=n % 4, uuid=f"u{n}")] for n in (10, 2, 1, 9)}
    path = an_archive(tmp_path / "x.eval", START | journal)
    assert {summary["id"]: summary["uuid"] for summary in inspect.read_samples(path)} == {1: "u9", 2: "u10"}
    log = a_log(tmp_path / "y.eval", a_summary(id=1), a_summary(id="1"))
    assert len(list(inspect.read_samples(log))) == 2


def packed(path: Path, method: int, **members: str) -> Path:
    """An archive as Python writes it."""
    with ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.json", content)
    return path


def test_archives_of_older_versions_are_packed_otherwise(tmp_path: Path) -> None:
    summaries = '[{"id": 1, "epoch": 1, "scores": {"f": {"value": NaN}}}]'
    header = '{"eval": {"task": "t"}, "status": "success"}'
    path = packed(tmp_path / "x.eval", ZIP_DEFLATED, header=header, summaries=summaries)
    assert inspect.read_header(path)["eval"] == {"task": "t"}
    assert [summary["id"] for summary in inspect.read_samples(path)] == [1]


def half(path: Path) -> None:
    whole = a_log(path, a_summary()).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def with_a_changed_byte(path: Path) -> None:
    content = bytearray(a_log(path, a_summary()).read_bytes())
    content[content.index(b"header.json") + len("header.json") + 30] ^= 0xFF
    path.write_bytes(content)


def with_header(content: bytes, claimed: int | None = None) -> Callable[[Path], object]:
    size = len(content) if claimed is None else claimed
    return lambda path: an_archive(path, {"header.json": content}, {"header.json": size})


INVALID = "not a valid zip archive"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (half, INVALID),
        (with_a_changed_byte, INVALID),
        (lambda path: packed(path, ZIP_BZIP2, header="{}"), r"header\.json is packed with method 12"),
        (lambda path: an_archive(path, {"_journal/config_updates/1.json": {}}), r"no _journal/start\.json"),
        (with_header(b"{}", claimed=MAX_FILE_BYTES + 1), "too large: 67,108,865 bytes"),
        (with_header(b"[" + b" " * 50_000_000 + b"]", claimed=100), INVALID),  # not unpacked further
        (with_header(b"{"), "header.json is not valid JSON"),
        (with_header(b"\xff\xfe"), "header.json is not valid JSON"),
        (with_header(b"[" * 200_000), "header.json is not usable JSON: nested too deeply"),
        (with_header(b"[]"), "it has no object `eval`"),
        (with_header(b"{}"), "it has no object `eval`"),
    ],
)
def test_what_is_no_whole_log_is_refused(tmp_path: Path, write: Callable[[Path], Any], reason: str) -> None:
    write(tmp_path / "x.eval")
    with pytest.raises(FileError, match=reason):
        inspect.read_header(tmp_path / "x.eval")


def test_members_and_names_of_an_archive_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"_journal/summaries/{number}.json": [a_summary(id=number)] for number in range(1, 9)}
    together = an_archive(tmp_path / "x.eval", START | many)
    assert len(list(inspect.read_samples(together))) == 8
    listed = an_archive(tmp_path / "y.eval", {"header.json": {"eval": a_spec()}, "n" * 60_000: b"{}"})
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 50_000)
    with pytest.raises(FileError, match="too large: 60,"):
        inspect.read_header(listed)
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 2000)
    with pytest.raises(FileError, match="too large"):
        list(inspect.read_samples(together))


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, None])
def test_a_member_with_the_right_checksum_is_not_cut_off(tmp_path: Path, method: int | None) -> None:
    path = tmp_path / "x.eval"
    if method is None:
        an_archive(path, {"header.json": b'{"eval": '})
    else:
        packed(path, method, header='{"eval": ')
    with pytest.raises(FileError, match=r"header\.json is not valid JSON .* its checksum is right") as caught:
        inspect.read_header(path)
    assert files.UNFINISHED not in str(caught.value)


@pytest.mark.parametrize("samples", [{}, "", 0, {"1": a_summary()}])
def test_samples_that_are_no_list_are_said(tmp_path: Path, samples: object) -> None:
    whole = write_json(tmp_path / "x.json", a_header(samples=samples))
    with pytest.raises(FileError, match=r"`samples` is a JSON \w+ instead of a list of samples"):
        list(inspect.read_samples(whole))
    archive = an_archive(tmp_path / "x.eval", {"header.json": a_header(), "summaries.json": samples})
    with pytest.raises(FileError, match=r"summaries\.json is a JSON \w+ instead of a list of samples"):
        list(inspect.read_samples(archive))


@pytest.mark.parametrize("kept", [{}, {"samples": None}])
def test_a_log_may_keep_no_samples(tmp_path: Path, kept: Event) -> None:
    assert list(inspect.read_samples(write_json(tmp_path / "x.json", a_header(**kept)))) == []


def test_an_odd_id_costs_itself_and_not_the_plan() -> None:
    """Control characters and half characters become U+FFFD. An empty id names no task, and that is said."""
    named = ["a/b", "..", "x\ufffdy", "\u00fc" * 300, "\ufffd\ufffd\ufffdbad", " ", "a:b|c", "trail "]
    folder = FIELD / "inspect-one-bad-id-drops-plan"
    events = agree({"task_id": named, "tasks": [named], "left_out": []}, folder)
    assert plan_of(events)["order"] == named
    [(_, reason)] = converted(folder)[1].unreadable
    assert reason == f"sample 7: `id` is '', {NO_ID}"


@pytest.mark.parametrize("version", OLDER)
def test_logs_of_older_versions_have_a_plan_verdicts_and_failures(version: str, older_logs: Path) -> None:
    """Recorded by record.py with these versions of inspect_ai; test_provenance.py has the numbers."""
    events = converted(the_log(older_logs / version))[0]
    assert plan_of(events)["metrics"] == METRICS
    assert {trial.get("resolved") for trial in trials_of(events)} == {True, False, None}
    assert summary_of(events)["failure_modes"] == {"unset": 17, "RuntimeError": 1}


def test_the_one_score_of_the_oldest_logs_is_read(tmp_path: Path) -> None:
    """`score` in a sample, `scorer` and `metrics` in the results: inspect_ai reads them as its own still."""
    sample = {"id": 1, "epoch": 1, "score": {"value": 1}, "model_usage": {}}
    results = {"scorer": {"name": "match"}, "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}
    log = a_header(version=1, eval=a_spec_without("scorers"), results=results, samples=[sample])
    events = agree({"metrics": [{"match": 1.0}], "resolved": [True]}, write_json(tmp_path / JSON_NAME, log))
    assert plan_of(events)["metrics"] == {"match": {}}


def test_r34_early_logs_without_a_task_id_are_runs_of_their_own(tmp_path: Path) -> None:
    log = a_header(version=1, eval=a_spec_without("task_id"), samples=[a_summary(uuid=None)])
    for name in ("2024-05-01T10-00-00_addition_T1", "2024-05-01T11-00-00_addition_T2"):
        write_json(tmp_path / f"{name}.json", log)
    agree({"run_id": ["addition_T1", "addition_T2"]}, tmp_path)


def test_r35_samples_with_one_id_are_said_because_one_replaces_the_other(tmp_path: Path) -> None:
    samples = [a_summary(uuid=None), a_summary(uuid=None, scores={"match": {"value": "I"}})]
    log = a_header(samples=samples, results={"total_samples": 2})
    said = ["run addition_T1: 2 trials with a result announced, 1 found"]
    agree({"notes": said}, write_json(tmp_path / JSON_NAME, log))


def test_a_sample_that_cannot_be_read_leaves_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = {"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}}
    members = {"header.json": {"eval": a_spec(), "status": "success"}, "summaries.json": [summary]}
    an_archive(tmp_path / "x.eval", members | {"samples/1_epoch_1.json": a_summary(store="x" * 9000)})
    agree({"input_tokens": [10]}, tmp_path)
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 9000)
    said = [f"1 trial {inspect.NO_USAGE}: the log has none"]
    agree({"resolved": [True], "input_tokens": [None], "remarks": said}, tmp_path)


@pytest.mark.parametrize("summaries", [{}, {"summaries.json": [a_summary(id=1)]}])
def test_samples_without_a_summary_are_read(tmp_path: Path, summaries: Event) -> None:
    """As inspect_ai reads them: the samples are the log, and the summaries are made from them."""
    members = {f"samples/{i}_epoch_1.json": a_summary(id=i) for i in (1, 2)}
    header = {"eval": a_spec(), "status": "success", "results": {"total_samples": 2}}
    log = an_archive(tmp_path / "a.eval", {"header.json": header} | members | summaries)
    agree({"task_id": ["1", "2"], "unreadable": []}, log)


@pytest.mark.parametrize("usage", [{}, None])
def test_tokens_that_a_summary_lacks_are_those_of_its_sample(tmp_path: Path, usage: object) -> None:
    sample = a_summary()
    summary = {name: sample[name] for name in ("id", "epoch", "scores")} | {"model_usage": usage}
    members = {"header.json": {"eval": a_spec(), "status": "success"}, "samples/1_epoch_1.json": sample}
    agree({"input_tokens": [10]}, an_archive(tmp_path / "a.eval", members | {"summaries.json": [summary]}))
    asked_no_model = members | {"summaries.json": [NONE_USED]}
    agree({"input_tokens": [None]}, an_archive(tmp_path / "b.eval", asked_no_model))


@pytest.mark.parametrize("order", [sorted, lambda keys: sorted(keys, reverse=True)])
def test_a_json_log_is_one_in_any_order_of_its_keys(tmp_path: Path, order: Any) -> None:
    log = a_header(plan={}, samples=[a_summary()])
    write_json(tmp_path / JSON_NAME, {key: log[key] for key in order(log)})
    write_json(tmp_path / JSON_NAME.replace("T1", "T2"), {"version": 2, "status": "success", "plan": {}})
    agree({"trials": 1, "runs": ["addition_T1"], "unreadable": []}, tmp_path)


def test_r35_samples_that_somebody_invalidated_are_said_and_count(tmp_path: Path) -> None:
    """Summaries do not say it; inspect_ai's metrics count such samples, too."""
    because = {"timestamp": "2026-10-16T10:00:00Z", "author": "me", "reason": "the sandbox was broken"}
    samples = [a_summary(id=i, epoch=1) for i in (1, 2)]
    members = {"header.json": a_header(invalidated=True), "summaries.json": samples}
    members["samples/1_epoch_1.json"] = samples[0]
    members["samples/2_epoch_1.json"] = samples[1] | {"invalidation": because}
    events, report = converted(an_archive(tmp_path / "a.eval", members))
    assert len(trials_of(events)) == 2
    [note] = map(str, report.remarks.values())
    assert "1 trial marked invalid in the log, counted until run again" in note
    assert note.endswith("the sandbox was broken")


def test_r31_an_eval_that_nothing_scores_has_no_pass_rate_until_it_is_scored(tmp_path: Path) -> None:
    """As `--no-score` leaves it, or a task without a scorer. `inspect score` adds the scores."""

    def unscored(name: str, status: str = "success", **fields: Any) -> list[Event]:
        return converted(a_log(tmp_path / name, a_summary(scores=None, **fields), status=status))[0]

    ended, scored = unscored("0.eval"), converted(scored_log(tmp_path / "1.eval", {"match": "C"}, 3))[0]
    for events, accuracy in ((ended, None), (ended + scored, 1.0), (scored + ended, 1.0)):
        assert (summary_of(events)["accuracy"], summary_of(events)["trials"]) == (accuracy, 1)
    for status in ("cancelled", "error"):
        stopped = summary_of(unscored("2.eval", status))
        assert (stopped["accuracy"], stopped["trials"]) == (None, 1), status
    for events in (unscored("3.eval", error={"message": "E"}), unscored("4.eval", "started")):
        assert "verdicts" not in plan_of(events)


SCORED_AGAIN = ["trial_result", "trial_scored"]
LATER_CHANGES = [
    {"config": "eval", "name": "max_samples", "value": 9},
    {"config": "eval", "name": "token_limit", "value": 50, "previous": None},
    {"config": "concurrency", "name": "docker_limit", "value": 2},
]
CHANGES: list[Event] = [
    {"changes": [{"config": "eval", "name": "time_limit", "value": 1200}], "scope": "task"}
]
CHANGES += [{"changes": LATER_CHANGES}]


def scorings(*minutes: int) -> list[Event]:
    """A transcript with scores at these minutes after 03:04."""
    times = [f"2026-01-02T03:{4 + minute:02}:07+00:00" for minute in minutes]
    return [{"event": "model"}, *({"event": "score", "timestamp": time} for time in times)]


def with_transcripts(path: Path, *samples: tuple[Event, list[Event]], spec: Event | None = None) -> Path:
    """A log of samples with their transcripts, as JSON or as an archive."""
    whole = [sample | {"events": transcript} for sample, transcript in samples]
    header = a_header(eval=spec or a_spec())
    if path.suffix == ".json":
        return write_json(path, header | {"samples": whole})
    members = {"header.json": header, "summaries.json": [sample for sample, _ in samples]}
    return an_archive(path, members | {f"samples/{one['id']}_epoch_1.json": one for one in whole})


def scored_log(path: Path, scores: Event, *minutes: int, spec: Event | None = None, **fields: Any) -> Path:
    """A log whose sample was scored at these minutes after 03:04; it ended at second 8.5 of minute 4."""
    sample = a_summary(scores={name: {"value": value} for name, value in scores.items()}, **fields)
    return with_transcripts(path, (sample, scorings(*minutes)), spec=spec)


def test_r32_the_newest_scores_count_in_any_order_of_arrival(tmp_path: Path) -> None:
    """A first log without scores, then two scorings of it."""
    late, later = {"match": "C", "judge": 0.5}, {"match": "C", "judge": 0.25}
    scored = [scored_log(tmp_path / "1.eval", late, 3), scored_log(tmp_path / "2.eval", later, 3, 9)]
    events = agree({}, scored[1])
    assert [event["type"] for event in events[1:]] == [*SCORED_AGAIN, "run_finished"]
    assert events[2]["of_revision"] == events[1]["revision"]
    for events in in_any_order(scored_log(tmp_path / "0.eval", {}), *scored):
        summary = summary_of(events)
        assert (summary["resolved"], summary["verdict_trials"]) == (1, 1)
        means = {name: metric["mean"] for name, metric in summary["metrics"].items()}
        assert means == {"match": 1.0, "judge": 0.25}


def test_a_sample_that_a_later_scorer_left_out_hides_no_scores_of_others(tmp_path: Path) -> None:
    """The shortest transcript is its; inspect_ai writes no score where a scorer returns none."""
    samples = [a_summary(id=number, uuid=f"u{number}") for number in (1, 2)]
    transcripts = [scorings(0)[1:], scorings(0, 5)[1:]]
    log = with_transcripts(tmp_path / "x.eval", *zip(samples, transcripts, strict=True))
    agree({"types": ["run_started", *SCORED_AGAIN * 2, "run_finished"]}, log)


def test_the_plan_of_a_scored_log_counts(tmp_path: Path) -> None:
    """Its scorers are more than the first log's; both plans were made at one time."""
    spec = a_spec(scorers=[*a_spec()["scorers"], {"name": "judge", "metrics": [{"name": "mean"}]}])
    first = scored_log(tmp_path / "0.eval", {"match": "C"}, 0)
    later = scored_log(tmp_path / "1.eval", {"match": "C", "judge": 1.0}, 3, spec=spec)
    for events in in_any_order(first, later):
        assert (joined_plan(events).get("metrics") or {}).keys() == {"match", "judge"}


def test_what_was_scored_again_replaces_the_first_verdict_unless_the_sample_ran_again(tmp_path: Path) -> None:
    first = scored_log(tmp_path / "0.eval", {"match": "C"}, 0)
    scored = scored_log(tmp_path / "1.eval", {"match": "I", "judge": 1.0}, 30)
    again = scored_log(tmp_path / "2.eval", {"match": "C"}, completed_at="2026-01-02T03:05:00+00:00")
    found = {"resolved": 0, "metrics": {"match", "judge"}}, {"resolved": 1, "metrics": {"match"}}
    for logs, expected in zip(((first, scored), (scored, again)), found, strict=True):
        for summary in map(summary_of, in_any_order(*logs)):
            values = {"resolved": summary["resolved"], "metrics": set(summary["metrics"])}
            assert (values, summary["superseded"], summary["conflicts"]) == (expected, 1, 0)


def test_r36_limits_that_changed_while_the_eval_ran_are_all_in_its_plan(tmp_path: Path) -> None:
    """`inspect ctl config --time-limit 1200`; inspect_ai keeps the specification as it was."""
    spec = a_spec(config={"epochs": 1, "time_limit": 600, "max_samples": 4})
    began = an_archive(tmp_path / "0.eval", {"_journal/start.json": {"eval": spec, "plan": A_PLAN}})
    ended = a_log(tmp_path / "1.eval", a_summary(), spec=spec, config_updates=CHANGES)
    for events in in_any_order(began, ended):
        made = joined_plan(events).get("provenance") or {}
        assert (made["limits"], made["concurrency"]) == ("time=600 then 1200,token=none then 50", "4")


@pytest.mark.parametrize("suffix", [".eval", ".json"])
@pytest.mark.parametrize(("first", "edited"), [("C", "I"), ("I", "C")])
def test_r32_an_edited_score_counts_in_any_order_of_arrival(
    tmp_path: Path, suffix: str, first: str, edited: str
) -> None:
    """`edit_score` adds an event to the transcript of its sample; here it is the longest of eight."""
    edit = {"event": "score_edit", "timestamp": "2026-01-03T00:00:00+00:00", "score_name": "match"}
    others = [(a_summary(id=number, uuid=f"u{number}"), list[Event]()) for number in range(2, 9)]

    def a_log_with(folder: str, value: str, *edits: Event) -> Path:
        sample = a_summary(scores={"match": {"value": value}})
        transcript = [*scorings(0), *edits]
        return with_transcripts(tmp_path / folder / f"x{suffix}", (sample, transcript), *others)

    for events in in_any_order(a_log_with("first", first), a_log_with("edited", edited, edit)):
        summary = summary_of(events)
        assert (summary["resolved"], summary["conflicts"]) == (7 + (edited == "C"), 0)


@pytest.mark.parametrize(
    ("scores", "minutes", "fields"),
    [
        pytest.param({"match": "C"}, (), {}, id="never"),
        pytest.param({"match": "C"}, (0,), {}, id="as it ran"),
        pytest.param({"match": "C"}, (3,), {"completed_at": None}, id="a version without that time"),
        pytest.param({}, (3,), {}, id="without a score"),
    ],
)
def test_scores_of_the_run_itself_are_no_late_scores(
    tmp_path: Path, scores: Event, minutes: tuple[int, ...], fields: Event
) -> None:
    log = scored_log(tmp_path / "0.eval", scores, *minutes, **fields)
    agree({"types": ["run_started", "trial_result", "run_finished"], "unreadable": []}, log)


SHARDS = "2026-10-16T10-00-00-00-00_addition_RLGk3vGh7Az.shards"


def a_shard(folder: Path, number: int, *ids: int, minute: int = 4, **members: Any) -> Path:
    """The log of a worker that ran these samples."""
    spec = a_spec(
        task_id=f"T{number}{minute}",
        created=f"2026-01-02T03:{minute:02}:05+00:00",
        dataset={"samples": 4, "sample_ids": list(ids), "shuffled": False},
    )
    ended: Event = {"completed_at": f"2026-01-02T03:{minute:02}:59+00:00"}
    samples = [a_summary(id=i, uuid=f"u{i}-{minute}", **ended) for i in ids]
    place = folder / SHARDS / str(number) / f"{minute}.eval"
    return a_log(place, *samples, spec=spec, stats=ended, **members)


def end_of(events: list[Event]) -> str | None:
    end = joined_plan(events).finished
    return end and end.status


def test_r34_a_shard_outside_a_directory_of_shards_is_a_run_of_its_own_and_said(tmp_path: Path) -> None:
    """Nothing in its log says that it is a shard."""
    for number, ids in enumerate([(1, 2), (3, 4)]):
        a_shard(tmp_path, number, *ids)
    agree({"notes": []}, tmp_path)
    (tmp_path / SHARDS).rename(tmp_path / "workers")
    report = converted(tmp_path)[1]
    assert len(report.runs) == 2
    asked = "it has 2 of 4 samples. If it is a shard, name its parent directory NAME.shards"
    assert report.notes == [f"run {run}: {asked}" for run in report.runs]


def test_shards_are_one_run_with_the_samples_of_all() -> None:
    """The merged log's trials have no shard."""
    trials = len(trials_of(converted(FIELD / "inspect-two-shards")[0]))
    expected: Event = {"runs": ["addition_RLGk3vGh7Az"], "shard": [None] * trials}
    events = agree(expected, FIELD / "inspect-two-shards")
    assert {event["run_id"] for event in events} == {"addition_RLGk3vGh7Az"}
    plan = joined_plan(events)
    assert plan.get("tasks") == [f"sum-{number}" for number in range(1, 7)]
    assert (plan.parts, end_of(events)) == ({"seen": 2, "planned": 2}, "success")


def test_a_run_ends_when_all_of_its_shards_have(tmp_path: Path) -> None:
    """A worker that ran again takes the place of its first try."""
    a_shard(tmp_path, 0, 1, 2, status="error")
    a_shard(tmp_path, 0, 1, 2, minute=9)
    for status, end in (("started", None), ("error", "error"), ("success", "success")):
        a_shard(tmp_path, 10, 3, status=status)
        events, _ = converted(tmp_path)
        assert (joined_plan(events).get("tasks"), end_of(events)) == (["1", "2", "3"], end)
    summary = summary_of(events)
    assert (summary["trials"], summary["runs_planned"], summary["superseded"]) == (3, 3, 2)


@pytest.mark.parametrize("broken", [half, lambda path: path.write_bytes(b"")])
def test_r35_a_run_with_a_broken_shard_is_incomplete(
    tmp_path: Path, broken: Callable[[Path], object]
) -> None:
    a_shard(tmp_path, 0, 1, 2)
    broken(a_shard(tmp_path, 1, 3))
    (tmp_path / SHARDS / "2").mkdir()
    events, _ = converted(tmp_path)
    plan = joined_plan(events)
    assert (plan.parts, end_of(events)) == ({"seen": 1, "planned": 2}, None)
    assert plan.get("plan_complete") is False


def test_the_merged_log_is_the_same_run_and_adds_nothing(tmp_path: Path) -> None:
    """Its task id is in the name of the shards' folder, as inspect_ai takes it from there when it merges."""
    a_shard(tmp_path, 0, 1, 2)
    a_shard(tmp_path, 1, 3)
    parts = converted(tmp_path)[0]
    samples = [sample for log in tmp_path.rglob("*.eval") for sample in inspect.read_samples(log)]
    sharded = {"selection": "none", "ledger": []}
    spec = a_spec(task_id="RLGk3vGh7Az", dataset={"sample_ids": [1, 2, 3]}, shards=sharded)
    ended: Event = {"completed_at": "2026-01-02T03:04:59+00:00"}
    merged = a_log(tmp_path / f"{SHARDS.removesuffix('.shards')}.eval", *samples, spec=spec, stats=ended)
    assert trials_of(converted(merged)[0]) == trials_of(parts)
    events = agree({"duplicates": 3}, tmp_path)
    assert trials_of(events) == trials_of(parts)
    whole, alone = joined_plan(events), joined_plan(converted(merged)[0])
    for name in ("tasks", "attempts", "order", "agent_models"):
        assert whole.get(name) == alone.get(name)
    assert whole.finished == alone.finished


def test_shards_of_different_runs_stay_apart_unless_they_are_pooled(tmp_path: Path) -> None:
    a_shard(tmp_path / "a", 0, 1)
    (tmp_path / "a" / SHARDS).rename(tmp_path / "a" / "mine.shards")
    a_shard(tmp_path / "b", 0, 2)
    a_shard(tmp_path / "b", 1, 3)
    agree({"runs": ["addition_mine", "addition_RLGk3vGh7Az"]}, tmp_path)
    events = agree({"shard": ["addition_RLGk3vGh7Az"] * 2}, tmp_path / "b", run_id="pool")
    assert (joined_plan(events).get("tasks"), end_of(events)) == (["2", "3"], "success")
