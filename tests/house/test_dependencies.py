"""Every dependency has its reason written down, and every one is pinned."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import ROOT, direct_dependencies, pyproject

DIRECT = [Requirement(text) for text in direct_dependencies()]
SITE = list(map(Requirement, pyproject()["dependency-groups"]["docs"]))
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
REASONS = dict(re.findall(r"^- `([^`]+)`: (.+(?:\n  .+)*)$", PAGE, re.MULTILINE))
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8")
PINS = {
    canonicalize_name(name): pinned
    for name, pinned in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", CONSTRAINTS, re.MULTILINE)
}


def everything_needed() -> set[str]:
    result: set[str] = set()
    waiting = [(one.name, frozenset(one.extras)) for one in DIRECT if applies(one)]
    while waiting:
        name, extras = waiting.pop()
        if canonicalize_name(name) not in result or extras:
            result.add(canonicalize_name(name))
            for requirement in map(Requirement, requires(name) or ()):
                fresh = canonicalize_name(requirement.name) not in result
                if fresh and applies(requirement, extras):
                    waiting.append((requirement.name, frozenset(requirement.extras)))
    return result


def applies(requirement: Requirement, extras: frozenset[str] = frozenset()) -> bool:
    """Does the requirement count on this platform, with one of these extras or none?"""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


def test_each_dependency_has_a_line_that_says_what_for_and_why_not_own_code() -> None:
    """No line explains a dependency that is gone."""
    assert set(REASONS) == {one.name for one in [*DIRECT, *SITE]}, "- `NAME`: what for; why not own code."
    assert [name for name, reason in REASONS.items() if not re.search(r";.*\.\Z", reason, re.DOTALL)] == []


def test_every_direct_and_transitive_dependency_is_pinned_to_what_the_project_asks_for() -> None:
    assert everything_needed() - set(PINS) == set(), "run `make constraints`"
    for requirement in DIRECT:
        assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), requirement


def test_the_environment_that_runs_this_has_the_pinned_versions() -> None:
    other = {}
    for name, pinned in PINS.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue  # needed on another platform only
        if installed != pinned:
            other[name] = f"{installed} installed, {pinned} pinned"
    assert other == {}, "run `make install` (after `touch constraints.txt` if need be)"


def test_constraints_name_no_host_and_nothing_that_is_not_a_pin() -> None:
    pin_or_comment = re.compile(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+")
    assert all(map(pin_or_comment.fullmatch, CONSTRAINTS.splitlines()))


def hashed(name: str) -> dict[str, set[str]]:
    """The versions of each package in a file of requirements/: one, or one for each range of Pythons.

    Every line has a hash, and none names a host.
    """
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").replace("\\\n", "")
    pins: dict[str, set[str]] = {}
    for line in text.splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line)
        parsed = Requirement(requirement)
        assert parsed.url is None
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes)
        [pin] = parsed.specifier
        assert pin.operator == "=="
        pins.setdefault(canonicalize_name(parsed.name), set()).add(pin.version)
    return pins


def test_what_the_site_is_made_with_has_hashes() -> None:
    pins = hashed("docs")
    for one in SITE:
        assert all(map(one.specifier.contains, pins[canonicalize_name(one.name)])), one


@pytest.mark.parametrize("name", ["dev", "all", "local"])
def test_what_image_and_ci_install_has_hashes_and_the_pinned_versions(name: str) -> None:
    """Every requirement of the extra is there for each Python."""
    pins = {package: version for package, [version] in hashed(name).items()}
    [build] = map(Requirement, pyproject()["build-system"]["requires"])
    assert build.specifier.contains(pins.pop(canonicalize_name(build.name)))
    assert pins.items() <= PINS.items(), "run `make constraints`"
    assert name != "dev" or pins == PINS
    extras = {"local": ["local"], "all": ["local", "mcp", "notify", "report", "rocksdb"]}
    direct = [*pyproject()["project"]["dependencies"]]
    for extra in extras.get(name, []):
        direct += pyproject()["project"]["optional-dependencies"][extra]
    assert {canonicalize_name(Requirement(one).name) for one in direct} <= pins.keys()


def test_make_image_and_action_install_nothing_without_a_hash() -> None:
    for file, expected in (("Makefile", "dev"), ("Dockerfile", "all"), ("action.yml", "local")):
        text = (ROOT / file).read_text("utf-8").partition("\nconstraints:")[0]
        assert re.search(rf"--require-hashes -r \S*requirements/{expected}\.txt", text), file
        installs = re.findall("pip install .*", text)
        assert [one for one in installs if not re.search("--require-hashes|--no-deps", one)] == [], file
