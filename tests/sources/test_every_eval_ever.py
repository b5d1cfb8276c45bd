"""Rows of a file become samples: one for each attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.every_eval_ever import is_rows, read_samples
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.every_eval_ever import a_file, a_row


def gathered(file: Path) -> list[tuple[str, int, int]]:
    """Sample, attempt and number of rows of each."""
    samples, _ = read_samples(file)
    return [(sample.rows[0]["sample_id"], sample.attempt, len(sample.rows)) for sample in samples]


def test_several_results_of_a_sample_are_one_and_its_repeats_are_attempts(tmp_path: Path) -> None:
    results = [{"evaluation_result_id": name} for name in ("accuracy", "f1")]
    rows = [a_row(sample, **result) for sample in ("s1", "s2", "s1") for result in results]
    assert gathered(a_file(tmp_path / "x.jsonl", *rows)) == [("s1", 1, 2), ("s2", 1, 2), ("s1", 2, 2)]


def test_an_epoch_says_the_attempt(tmp_path: Path) -> None:
    rows = [a_row(metadata={"epoch": epoch}) for epoch in (2, "1", "none", "0003", True)]
    assert gathered(a_file(tmp_path / "x.jsonl", *rows)) == [
        ("s1", 2, 1),
        ("s1", 1, 1),
        ("s1", 3, 2),
        ("s1", 5, 1),
    ]


def test_a_line_that_is_no_row_is_named_and_the_others_count(tmp_path: Path) -> None:
    no_model = {name: value for name, value in a_row().items() if name != "model_id"}
    file = a_file(tmp_path / "x.jsonl", a_row("s1"), "{", "", "[1]", no_model, a_row("s2"))
    assert [name for name, *_ in gathered(file)] == ["s1", "s2"]
    assert [problem.partition(" is ")[0].partition(" holds ")[0] for problem in read_samples(file)[1]] == [
        "line 2",
        "line 4",
        "line 5",
    ]


@pytest.mark.parametrize(
    "first", ["", "{", "[]", '{"evaluation_id": "x"}', '{"task_id": "t", "resolved": true}']
)
def test_a_file_without_a_row_is_none_of_ours(tmp_path: Path, first: str) -> None:
    file = a_file(tmp_path / "x_samples.jsonl", first)
    assert not is_rows(file)
    assert converted(file)[0] == []


def test_r35_a_broken_first_line_is_named_and_the_rows_after_it_count(tmp_path: Path) -> None:
    a_file(tmp_path / "x_samples.jsonl", "{", a_row("s2"))
    events, report = converted(tmp_path)
    assert [trial["task_id"] for trial in trials_of(events)] == ["bench/s2"]
    assert [reason.partition(" is ")[0] for _, reason in report.unreadable] == ["line 1"]


def test_r34_a_second_evaluation_in_a_file_is_named_and_replaces_nothing(tmp_path: Path) -> None:
    rows = [a_row(), *(a_row(name, 0.0, correct=False, evaluation_id="e2") for name in ("s1", "s2"))]
    events, report = converted(a_file(tmp_path / "x_samples.jsonl", *rows))
    assert [trial["resolved"] for trial in trials_of(events)] == [True]
    assert [reason.partition(": ")[0] for _, reason in report.unreadable] == [
        "2 samples of another evaluation, 'e2'"
    ]


@pytest.mark.parametrize("content", ["", "version https://git-lfs.github.com/spec/v1"])
def test_r35_a_file_that_should_have_rows_by_its_evaluation_is_a_run_without_them(
    tmp_path: Path, content: str
) -> None:
    """As a clone without Git LFS leaves it."""
    a_file(tmp_path / "x_samples.jsonl", content)
    whole = {"evaluation_id": "e1", "detailed_evaluation_results": {"total_rows": 3}}
    write_json(tmp_path / "x.json", whole)
    events, report = converted(tmp_path)
    assert report.notes == ["run e1: 3 rows announced, 0 found"]
    assert [reason.partition(" is ")[0] for _, reason in report.unreadable] == ["line 1"] * bool(content)
    assert [event["type"] for event in events] == ["run_started", "run_finished"]


def test_r35_an_evaluation_whose_rows_were_not_copied_is_a_run_without_them(tmp_path: Path) -> None:
    names = [f"{number}0000000-0000-4000-8000-000000000000" for number in range(4)]
    files = ("data/d/rows.jsonl", f"{names[1]}_samples.jsonl", "other_samples.jsonl", None)
    for name, rows in zip(names, files, strict=True):
        whole = {"evaluation_id": name, "model_info": {"id": "o/m"}}
        detailed = {"detailed_evaluation_results": {"file_path": rows, "total_rows": 2}} if rows else {}
        write_json(tmp_path / f"{name}.json", whole | detailed)
    for name, rows in zip(names[1:3], files[1:3], strict=True):
        a_file(tmp_path / str(rows), *(a_row(one, evaluation_id=name) for one in "ab"))
    events, report = converted(tmp_path)
    assert sorted(report.runs) == names[:3]
    assert report.notes == [f"run {names[0]}: its file of rows is missing: rows.jsonl"]
    ends = {event["run_id"]: event["status"] for event in events if event["type"] == "run_finished"}
    assert [ends[name] for name in names[:3]] == ["interrupted", "completed", "completed"]
    assert converted(tmp_path / f"{names[0]}.json")[0] == [
        event for event in events if event["run_id"] == names[0]
    ]


@pytest.mark.parametrize("rows", [[], [a_row()]])
def test_r35_an_evaluation_with_another_uuid_is_found_by_the_name_of_its_rows(
    tmp_path: Path, rows: list[Event]
) -> None:
    """As `every_eval_ever convert inspect` wrote them before 24 March 2026."""
    for name in "ab":
        file = a_file(tmp_path / f"rows-{name}_samples.jsonl", *(row | {"model_id": name} for row in rows))
        detailed = {"file_path": f"data/d/o/m/{file.name}", "total_rows": 3}
        write_json(
            tmp_path / f"{name}.json", {"evaluation_id": name, "detailed_evaluation_results": detailed}
        )
        events, report = converted(file)
        assert report.notes == [f"run {report.runs[0]}: 3 rows announced, {len(rows)} found"]
        assert events[-1]["status"] == "interrupted"
        assert rows or report.runs == [name]


def test_a_directory_and_a_file_of_another_kind_are_none(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").mkdir()
    assert not is_rows(tmp_path / "d.jsonl")
    assert not is_rows(a_file(tmp_path / "x.json", a_row()))
    assert is_rows(a_file(tmp_path / "x.jsonl", a_row()))


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ([(1.0, True)], True),
        ([(0, False)], False),
        ([(0.7, True)], None),  # a guess of the converter
        ([(0.7, False), (1.0, True)], True),  # f1 says nothing, accuracy does
        ([(1.0, True), (0.0, False)], None),
        ([(5, True)], None),
        ([(1.0, True), (1.0, False)], True),  # HELM's converter writes false beside f1_score
        ([(1.0, False)], None),
        ([(0.0, True)], None),
    ],
)
def test_r31_is_correct_is_a_verdict_beside_a_score_of_0_or_1(
    tmp_path: Path, scores: list[tuple[float, bool]], verdict: bool | None
) -> None:
    rows = [
        a_row("s", score, correct=correct, evaluation_result_id=str(number))
        for number, (score, correct) in enumerate(scores)
    ]
    [trial] = trials_of(converted(a_file(tmp_path / "x_samples.jsonl", *rows))[0])
    assert trial.get("resolved") is verdict


@pytest.mark.parametrize(
    ("score", "correct", "verdict"), [(0, True, True), (1, False, False), (1, True, None)]
)
def test_r31_where_lower_is_better_a_score_of_0_is_correct(
    tmp_path: Path, score: int, correct: bool, verdict: bool | None
) -> None:
    result = {"evaluation_result_id": "r", "metric_config": {"lower_is_better": True}}
    write_json(tmp_path / "x.json", {"evaluation_results": [result]})
    row = a_row(score=score, correct=correct, evaluation_result_id="r")
    [trial] = trials_of(converted(a_file(tmp_path / "x_samples.jsonl", row))[0])
    assert trial.get("resolved") is verdict


def test_r31_a_converter_may_say_that_is_correct_is_no_verdict(tmp_path: Path) -> None:
    row = a_row(correct=False, metadata={"is_correct_applicable": "false"})
    [trial] = trials_of(converted(a_file(tmp_path / "x_samples.jsonl", row))[0])
    assert "resolved" not in trial


@pytest.mark.parametrize(
    ("lower", "result", "score"),
    [
        ([True, True], None, {"direction": "lower"}),
        ([True, False], None, None),
        ([False], None, None),
        ([True], "0", None),
    ],
)
def test_r30_a_score_that_names_no_result_is_lower_is_better_where_all_results_are(
    tmp_path: Path, lower: list[bool], result: str | None, score: dict[str, str] | None
) -> None:
    results = [
        {"evaluation_result_id": str(number), "metric_config": {"lower_is_better": is_lower}}
        for number, is_lower in enumerate(lower)
    ]
    write_json(tmp_path / "x.json", {"evaluation_results": results})
    file = a_file(tmp_path / "x_samples.jsonl", a_row(score=3.5, evaluation_result_id=result))
    assert plan_of(converted(file)[0])["metrics"].get("score") == score


def test_r31_of_results_without_ids_the_last_does_not_say_which_score_is_better(tmp_path: Path) -> None:
    configs = [{"metric_config": {"lower_is_better": is_lower}} for is_lower in (False, True)]
    write_json(tmp_path / "x.json", {"evaluation_results": configs})
    events, _ = converted(a_file(tmp_path / "x_samples.jsonl", a_row(score=1.0, correct=True)))
    assert plan_of(events)["metrics"]["score"] == {"direction": "higher"}
    assert trials_of(events)[0]["resolved"] is True


def test_r36_the_judges_of_all_scores_are_in_the_provenance(tmp_path: Path) -> None:
    scorings = [{"judges": [{"model_info": {"id": name}}]} for name in ("org/b", "org/a", "org/b")]
    results = [{"metric_config": {"llm_scoring": scoring}} for scoring in (*scorings, None)]
    write_json(tmp_path / "x.json", {"evaluation_results": results})
    events, _ = converted(a_file(tmp_path / "x_samples.jsonl", a_row()))
    assert plan_of(events)["provenance"] == {"judge": "org/a,org/b"}


@pytest.mark.parametrize("empty", [None, 0])
def test_r2_tokens_are_in_any_row_of_a_sample(tmp_path: Path, empty: int | None) -> None:
    names = ("input_tokens", "output_tokens", "total_tokens")
    usages = [dict.fromkeys(names, empty), dict(zip(names, (7, 2, 9), strict=True))]
    rows = [a_row(evaluation_result_id=str(n), token_usage=usage) for n, usage in enumerate(usages)]
    [trial] = trials_of(converted(a_file(tmp_path / "x_samples.jsonl", *rows))[0])
    assert (trial["input_tokens"], trial["output_tokens"]) == (7, 2)


def test_numbers_as_ids_are_their_texts(tmp_path: Path) -> None:
    rows = [a_row() | {"sample_id": number, "evaluation_result_id": 3} for number in (1, 2.0)]
    events, report = converted(a_file(tmp_path / "x_samples.jsonl", *rows))
    assert [trial["task_id"] for trial in trials_of(events)] == ["bench/1", "bench/2"]
    assert [trial["metrics"] for trial in trials_of(events)] == [{"score/3": 1.0}] * 2
    assert not report.unreadable
