"""`streamer schema`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from streamer.terminal import cli


def test_every_written_file_is_named_and_is_json(tmp_path: Path) -> None:
    out = tmp_path / "new" / "schemas"
    result = CliRunner().invoke(cli, ["schema", "--out", str(out)])
    assert result.exit_code == 0
    files = [Path(line) for line in result.output.splitlines()]
    assert sorted(files) == sorted(out.iterdir())
    assert "asyncapi.json" in {file.name for file in files}
    assert all(isinstance(json.loads(file.read_text()), dict) for file in files)


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["schema", "--out", str(tmp_path / "file" / "below")])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert str(tmp_path / "file") in result.stderr


def test_a_file_in_the_way_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["schema", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
