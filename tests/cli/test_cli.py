"""The group: what every command has, and what it loads."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from streamer.terminal import COMMANDS, cli

HEAVY = ("faust", "aiokafka", "redis", "rich")


def leaves(command: click.Command, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Paths of the commands that do something."""
    if isinstance(command, click.Group):
        return [leaf for name, sub in command.commands.items() for leaf in leaves(sub, (*path, name))]
    return [path]


def loaded(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_common_options_and_says_what_it_does(name: str) -> None:
    for leaf in leaves(loaded(name), (name,)):
        result = CliRunner().invoke(cli, [*leaf, "--help"])
        assert result.exit_code == 0
        for option in ("--bootstrap", "--redis", "--namespace"):
            assert option in result.output
        assert len(result.output.splitlines()[2].strip()) > 15


def test_help_lists_every_command_and_the_exit_codes() -> None:
    result = CliRunner().invoke(cli, ["--help"])
    assert all(f"  {name}  " in result.output for name in COMMANDS)
    assert "3 cannot be verified" in " ".join(result.output.split())


def modules_after(*arguments: str) -> set[str]:
    """Heavy packages that a command loads."""
    program = (
        "import sys; from streamer.terminal import cli; cli.main(sys.argv[1:], standalone_mode=False); "
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, input=""
    )
    assert "LOADED" in done.stdout, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split()) & set(HEAVY)


def test_fold_loads_no_client_of_a_server() -> None:
    assert modules_after("fold", "--json") == set()


def test_without_a_command_the_usage_is_shown_and_the_exit_code_is_2() -> None:
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Commands:" in result.output
