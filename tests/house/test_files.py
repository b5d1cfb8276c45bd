"""Every tracked file: what it must not name."""

from __future__ import annotations

import re

from tests.house.repository import ROOT, tracked_files

MACHINE_PATHS = [
    "/" + r"work/",
    "/" + r"root/",
    "/" + r"home/(?!streamer\b)[a-z]+/",
    "/" + r"tmp/[a-z]",
    "/" + r"Users/[a-z]+/",
]
"""In two pieces, like the hosts, so that this file too is free of what it forbids."""

REGISTRY_HOSTS = [
    r"pypi\." + "org",
    r"pythonhosted\." + "org",
    r"registry\.npmjs\." + "org",
    r"crates\." + "io",
    r"proxy\.golang\." + "org",
    r"repo1?\.maven\.(apache\.)?" + "org",
    r"deb(ian)?\.debian\." + "org",
    r"(?<![\w.])index" + "-url",
]
FORBIDDEN = re.compile("|".join(MACHINE_PATHS + REGISTRY_HOSTS))


def test_no_tracked_file_names_a_path_of_one_machine_or_a_registry_host() -> None:
    result, files = [], tracked_files()
    assert len(files) > 20
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # compressed: no prose
        for number, line in enumerate(text.splitlines(), start=1):
            if match := FORBIDDEN.search(line):
                result.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert result == []


def test_ci_and_its_helpers_can_be_executed() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
