"""The data directory: an epoch that grows with every start, and ports that stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.operate.local import DataDir
from streamer.operate.local.processes import EmbeddedError
from streamer.web import listening


def test_the_epoch_grows_with_every_start(tmp_path: Path) -> None:
    assert [DataDir(tmp_path / "new").next_epoch() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("content", ["", "[]", '{"epoch": "x"}', "{}"])
def test_an_epoch_that_cannot_be_read_is_never_guessed(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(EmbeddedError, match=r'does not hold \{"epoch": NUMBER\}'):
        DataDir(tmp_path).next_epoch()
    assert (tmp_path / "state.json").read_text() == content


def test_a_server_keeps_its_port_unless_another_program_took_it(tmp_path: Path) -> None:
    port = DataDir(tmp_path).usual_port("redis")
    assert DataDir(tmp_path).usual_port("redis") == port
    with listening("127.0.0.1", port):
        assert DataDir(tmp_path).usual_port("redis") != port


@pytest.mark.parametrize("content", ["{", "[]", '{"redis": "x"}', '{"redis": -1}'])
def test_ports_that_cannot_be_read_are_chosen_again(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    port = DataDir(tmp_path).usual_port("redis")
    assert 0 < port < 65536
    assert DataDir(tmp_path).usual_port("redis") == port


def test_only_the_user_may_look_into_it(tmp_path: Path) -> None:
    found = DataDir(tmp_path / "data")
    assert {os.stat(path).st_mode & 0o777 for path in (found.path, found.journal, found.logs)} == {0o700}


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with (
        DataDir(tmp_path).locked(),
        pytest.raises(EmbeddedError, match=r"The data directory .* is in use by process \d+"),
        DataDir(tmp_path).locked(),
    ):
        pass
    with DataDir(tmp_path).locked():
        pass
