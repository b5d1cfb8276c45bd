"""`streamer gate`: judge a run against another one while it goes on; the exit code is the verdict."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import click

from streamer.cli.errors import UNVERIFIABLE, explain, silence_stdout
from streamer.cli.gate_sides import Gate
from streamer.cli.options import FiniteRange, json_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import print_json, print_line, say
from streamer.inference.comparisons import GateVerdict
from streamer.report.gate_markdown import gate_markdown
from streamer.schemas.base import METRIC_NAME
from streamer.schemas.canonical import canonical_json
from streamer.schemas.details import NAMED
from streamer.schemas.metrics import PRIMARY_METRIC, can_have_board
from streamer.settings import Settings
from streamer.views.gate import GATED, Terms
from streamer.views.gate_verdict import GateResult, Question
from streamer.views.gate_words import counts, not_common, saved_line, verdict_line

EXIT_CODES = {GateVerdict.PASS: 0, GateVerdict.FAIL: 1, GateVerdict.UNDECIDED: UNVERIFIABLE}

STUDY = (
    "Simulated with --max-drop 0.02 (docs/inference.md): a candidate as good as its baseline fails question "
    "final in 40 % of runs of 89 tasks and in 19 % of 500, but question ability in at most 3 %. Ability "
    "finds a drop of 10 points in 27 % of runs of 89 tasks, in 62 % with three attempts, in 93 % of 500 "
    "tasks."
)
"""False alarms and power, as benchmarks simulate them."""


class Exact(click.ParamType):
    """A number without rounding: 0.02 is 1/50."""

    name = "number"

    def __init__(self, low: str, high: str | None = None, *, open_: bool = False) -> None:
        self._low, self._high, self._open = low, high, open_

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """The number; what is not one, or lies outside, is used wrongly."""
        if isinstance(value, Fraction):
            return value
        try:
            found = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no number; write one like 0.02", param, ctx)
        low, high = Fraction(self._low), None if self._high is None else Fraction(self._high)
        at_edge = self._open and found in (low, high)
        if found < low or (high is not None and found > high) or at_edge:
            allowed = f"from {self._low} on" if high is None else f"between {self._low} and {self._high}"
            self.fail(f"{value} is not {allowed}", param, ctx)
        return found


def _gated_metric(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in GATED or (value.startswith(NAMED) and can_have_board(value)):
        return value
    raise click.BadParameter(
        f"{value!r} is no metric that a gate judges: {', '.join(GATED)}, or metrics/NAME ({METRIC_NAME})"
    )


@click.command(epilog=STUDY)
@click.argument("candidate", metavar="CANDIDATE")
@click.option("--against", metavar="BASELINE", help="What CANDIDATE is compared with.")
@click.option(
    "--max-drop",
    type=Exact("0"),
    default="0.02",
    show_default=True,
    help="CANDIDATE may be worse by so much, in the metric's unit: 0.02 of a pass rate are 2 points.",
)
@click.option(
    "--question",
    type=click.Choice(["final", "ability"]),
    default="final",
    show_default=True,
    help="Which answer decides. final: this run's pass rate at its end. ability: on tasks like these.",
)
@click.option(
    "--level",
    type=Exact("0", "1", open_=True),
    default="0.95",
    show_default=True,
    help="Of final: probability that the verdict is never wrong, however early it comes. Of ability: that an "
    "agent no worse than BASELINE never fails early. An early failure shows that it is worse, not that it is "
    "worse by more than --max-drop.",
)
@click.option(
    "--metric",
    callback=_gated_metric,
    default=PRIMARY_METRIC,
    show_default=True,
    help=f"{', '.join(GATED)}, or metrics/NAME. All but pass_rate are judged at the end only.",
)
@click.option(
    "--target", type=Exact("0", "1"), metavar="RATE", help="Final pass rate that CANDIDATE must reach."
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up after so long, undecided. A run that has not begun is waited for only with this.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the verdict there, as a comment for a pull request.",
)
@click.option(
    "--on-verdict",
    metavar="CMD",
    help="Run this then, without a shell; it gets the verdict as JSON on stdin and may stop the harness.",
)
@json_option
@with_settings
def gate_command(
    candidate: str,
    against: str | None,
    max_drop: Fraction,
    question: Question,
    level: Fraction,
    metric: str,
    target: Fraction | None,
    timeout: float | None,
    markdown: Path | None,
    on_verdict: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Say whether CANDIDATE is at most --max-drop worse than BASELINE, as soon as that is certain.

    Each is a run, RUN/AGENT:MODEL, or a file that `streamer fold` reads; FILE/AGENT:MODEL and FILE/RUN name
    one of several. Runs are followed in the event log until the verdict is certain or both are over.

    Exit codes, for CI: 0 pass. 1 fail. 2 used wrongly. 3 undecided: at the end, after --timeout, or because
    something could not be read or written.
    """
    if against is None and target is None:
        raise click.UsageError("nothing to judge: give --against BASELINE, --target RATE, or both")
    if metric == PRIMARY_METRIC and max_drop > 1:
        raise click.UsageError(f"--max-drop {float(max_drop):g} of a pass rate is more than 1")
    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise click.UsageError(f"--markdown {markdown}: there is no folder {markdown.parent}")
    program = _program(on_verdict)
    terms = Terms(question, metric, max_drop, 1 - level, target)
    tell = say if as_json else print_line
    try:
        gate = Gate(candidate, against, terms, settings, price_table(settings.prices_file))
        result = gate.run(timeout, tell)
        if markdown is not None:
            markdown.write_bytes(gate_markdown(result))
    except (click.UsageError, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        text = error.format_message() if isinstance(error, click.ClickException) else explain(error, settings)
        say(f"streamer: undecided: {text}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error
    verdict = canonical_json(result.model_dump(mode="json"))
    try:
        _show(result, verdict, as_json=as_json)
    finally:
        if program:
            _call(program, verdict)
    raise click.exceptions.Exit(EXIT_CODES[result.verdict])


def _show(result: GateResult, verdict: bytes, *, as_json: bool) -> None:
    """Print the verdict. Where that fails, as on a full disk, the command must not end like a failed gate."""
    try:
        if as_json:
            print_json(verdict)
        else:
            _print_gate(result)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        say(f"streamer: {result.verdict}, but stdout cannot be written: {error.strerror or error}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error


def _print_gate(result: GateResult) -> None:
    print_line(verdict_line(result))
    for line in (*result.words, counts(result), *not_common(result)):
        print_line(f"  {line}")
    if saved := saved_line(result):
        print_line(f"  {saved}")


def _program(on_verdict: str | None) -> list[str]:
    """The command of --on-verdict; what can never run is used wrongly."""
    try:
        program = shlex.split(on_verdict or "")
    except ValueError as error:
        raise click.UsageError(f"--on-verdict {on_verdict!r}: {error}") from error
    if on_verdict is not None and (not program or shutil.which(program[0]) is None):
        raise click.UsageError(f"--on-verdict {on_verdict!r}: there is no such program")
    return program


def _call(program: list[str], verdict: bytes) -> None:
    """Hand the verdict to the program; what it prints goes to stderr, and it changes nothing here."""
    try:
        done = subprocess.run(  # noqa: S603  (the user chose the program)
            program, input=verdict + b"\n", stdout=click.get_binary_stream("stderr"), check=False
        )
    except OSError as error:
        say(f"streamer: --on-verdict could not run: {error}")
        return
    say(f"--on-verdict ended with exit code {done.returncode}")
