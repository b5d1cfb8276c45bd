"""With the base alone: what works, and what says which extra it lacks."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from streamer.operate.local.processes import free_port
from streamer.terminal import COMMANDS, DISTRIBUTION, LOCAL_COMMANDS, PACKAGES
from tests.house.repository import pyproject
from tests.support.base_environment import BaseEnvironment

PROJECT = pyproject()["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
IMPORTED_AS = {"faust-streaming": "faust"}
"""Packages by another name than their distribution's."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseEnvironment:
    return BaseEnvironment(tmp_path_factory.mktemp("base"))


def test_the_base_has_no_package_of_an_extra(base: BaseEnvironment) -> None:
    names = sorted(set().union(*PACKAGES.values()))
    done = base.python(
        "import sys; from importlib.util import find_spec; "
        "print(*(name for name in sys.argv[1:] if find_spec(name)))",
        *names,
    )
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.quick  # help starts no server, nor does a command that lacks its extra
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_runs_with_the_base_or_names_its_extra(base: BaseEnvironment, name: str) -> None:
    done = base.streamer(name, "--help")
    if name in LOCAL_COMMANDS:
        assert done.stderr == (
            f"streamer: streamer {name} needs more than the base: pip install 'trialstream[local]'\n"
        )
        assert (done.returncode, done.stdout) == (2, "")
    else:
        assert (done.returncode, done.stderr) == (0, "")


def test_a_part_of_a_command_that_needs_an_extra_names_it(base: BaseEnvironment) -> None:
    done = base.python(
        "import sys; from streamer.terminal import explained; import click; "
        "ctx = click.Context(click.Command('streamer')); ctx.invoked_subcommand = 'query'\n"
        "with explained(ctx):\n    from streamer.client.folded import subtests"
    )
    assert "streamer query needs more than the base: pip install 'trialstream[local]'" in done.stderr


def test_the_library_publishes_reads_and_tails_with_the_base(base: BaseEnvironment) -> None:
    done = base.python(
        "from streamer import client; [getattr(client, name) for name in client.__all__]; "
        "import streamer.sources.tail.session"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_query_with_the_base_reaches_for_redis(base: BaseEnvironment) -> None:
    done = base.streamer("query", "runs", "--redis", f"redis://127.0.0.1:{free_port()}/0")
    assert "does not answer" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("extra", PACKAGES)
def test_the_table_of_packages_is_that_of_the_distribution(extra: str) -> None:
    names = [Requirement(line).name for line in EXTRAS[extra]]
    assert PACKAGES[extra] == {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


def test_the_messages_name_our_distribution_and_all_brings_every_extra_of_users() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    [everything] = map(Requirement, EXTRAS["all"])
    assert (everything.name, everything.extras) == (DISTRIBUTION, set(PACKAGES))
    assert set(EXTRAS) == {*PACKAGES, "all", "bench", "dev"}


def test_both_programs_are_the_same() -> None:
    assert set(PROJECT["scripts"]) == {"streamer", DISTRIBUTION}
    assert len(set(PROJECT["scripts"].values())) == 1
