"""The names of SWE-bench's reports, which hold the model and the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.swe_bench import place_of
from tests.sources.builders import converted, write_json


@pytest.mark.parametrize(
    ("name", "logged", "model", "run"),
    [
        ("gpt-4.1.test.json", None, "gpt-4.1", "test"),
        ("gpt-4.1.v1.2.json", "v1.2/gpt-4.1", "gpt-4.1", "v1.2"),
        ("model.run.json", None, "model", "run"),
    ],
)
def test_model_and_run_are_told_apart_by_the_logs_else_at_the_last_dot(
    tmp_path: Path, name: str, logged: str | None, model: str, run: str
) -> None:
    file = write_json(tmp_path / name, {"total_instances": 0})
    if logged:
        (tmp_path / "logs" / "run_evaluation" / logged).mkdir(parents=True)
    place = place_of(file)
    assert (place.model, place.run) == (model, run)


def test_other_files_with_dots_in_their_names_are_no_reports(tmp_path: Path) -> None:
    write_json(tmp_path / "a.b.json", {"results": []})
    (tmp_path / "c.d.json").mkdir()
    assert converted(tmp_path)[0] == []
