"""A file of a trial is opened below its run's directory, and nowhere else, whatever lies there."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from streamer.web.artifacts import CannotBeOpened, read_below

SECRET = b"outside the run"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_bytes(SECRET)
    home = tmp_path / "run"
    (home / "task" / "agent").mkdir(parents=True)
    (home / "task" / "agent" / "agent.log").write_bytes(b"inside")
    return home


def test_a_file_below_the_directory_is_read(home: Path) -> None:
    for path in ("task/agent/agent.log", "./task/./agent/agent.log"):
        part = read_below(home, path, 100)
        assert (part.content, part.size, part.left_out) == (b"inside", 6, 0)


def test_of_a_long_file_the_end_is_read_where_that_is_wanted(home: Path) -> None:
    assert read_below(home, "task/agent/agent.log", 4, from_end=True).content == b"side"
    with pytest.raises(CannotBeOpened, match=r"has 6 bytes; 4 are shown at most"):
        read_below(home, "task/agent/agent.log", 4)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "task/../../outside.txt",
        "/etc/passwd",
        "task//agent/agent.log",
        "..\\outside.txt",
        "task/agent/agent.log\0",
        "~/.ssh/id_rsa",
        "",
        ".",
        "..",
        "task",
        "task/agent",
        "task/agent/agent.log/",
        "task/agent/agent.log/more",
        "x" * 5000,
    ],
)
def test_paths_that_lead_elsewhere_or_to_no_file_are_refused(home: Path, path: str) -> None:
    with pytest.raises(CannotBeOpened):
        read_below(home, path, 100)


def test_links_are_never_followed_wherever_they_stand_in_the_path(home: Path) -> None:
    (home / "file").symlink_to(home.parent / "outside.txt")
    (home / "folder").symlink_to(home.parent)
    (home / "task" / "up").symlink_to("../..")
    (home / "inner").symlink_to("task")
    (home / "loop").symlink_to("loop")
    for path in ("file", "folder/outside.txt", "task/up/outside.txt", "inner/agent/agent.log", "loop"):
        with pytest.raises(CannotBeOpened, match="cannot be opened"):
            read_below(home, path, 100)


def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent swaps a directory for a link after the first part of the path was opened."""
    opened = os.open

    def swapping(path: str | Path, *rest: int, dir_fd: int | None = None) -> int:
        descriptor = opened(path, *rest, dir_fd=dir_fd)
        if path == "task":
            (home / "task").rename(home / "moved")
            (home / "task").symlink_to(home.parent)
        return descriptor

    monkeypatch.setattr(os, "open", swapping)
    assert read_below(home, "task/agent/agent.log", 100).content == b"inside"


def test_devices_pipes_and_sockets_are_refused_without_waiting(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/socket")
        for folder, name in ((home, "pipe"), (Path(short), "socket"), (Path("/dev"), "zero")):
            with pytest.raises(CannotBeOpened):
                read_below(folder, name, 100)


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CannotBeOpened, match="is not in the run's directory any more"):
        read_below(tmp_path / "nowhere", "agent.log", 100)
