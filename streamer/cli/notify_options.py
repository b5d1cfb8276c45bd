"""Options about notices, which `notify`, `up` and `live` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamer.cli.options import FiniteRange

if TYPE_CHECKING:
    from streamer.notifications.decide import Rules

Command = TypeVar("Command", bound=Callable[..., Any])
URLS = "STREAMER_NOTIFY"
"""Variable that holds URLs, separated by blanks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The values of the options.

    Attributes:
        urls: of notification services; secrets, so that they are never printed.
        rules: what is worth a notice.
        minutes: `--stalled-after` as it was given.
    """

    urls: Sequence[str]
    rules: Rules
    minutes: float | None

    def __repr__(self) -> str:
        return f"Asked({len(self.urls)} URLs, {self.rules})"

    def arguments(self) -> list[str]:
        """The options again, except the URLs, for another process."""
        given = {
            "--budget": self.rules.budget_usd,
            "--stalled-after": self.minutes,
            "--rejection-rate": self.rules.rejections_per_minute,
            "--target": self.rules.target,
        }
        return [part for name, value in given.items() if value is not None for part in (name, repr(value))]


def notify_options(command: Command) -> Command:
    """Give the command --notify and what is worth a notice, as `asked`; None without --notify."""

    @click.option(
        "--notify",
        "urls",
        multiple=True,
        metavar="URL",
        envvar=URLS,
        help=f"Tell this service, a URL as apprise reads it; repeatable. Better in {URLS}: others see the "
        "command line.",
    )
    @click.option("--budget", type=FiniteRange(min=0), metavar="USD", help="Tell when a run costs more.")
    @click.option(
        "--stalled-after",
        type=FiniteRange(min=0, min_open=True),
        metavar="MINUTES",
        help="Tell when a run that has not ended has had no result for so long.",
    )
    @click.option(
        "--rejection-rate",
        type=FiniteRange(min=0),
        metavar="N",
        help="Tell when more than N records are rejected within a minute.",
    )
    @click.option(
        "--target",
        type=FiniteRange(min=0, max=1),
        metavar="SHARE",
        help="Tell when an agent is sure to end with this pass rate, 0 to 1, or can no longer reach it.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        urls: tuple[str, ...],
        budget: float | None,
        stalled_after: float | None,
        rejection_rate: float | None,
        target: float | None,
        **kwargs: Any,
    ) -> Any:
        if not urls and {budget, stalled_after, rejection_rate, target} != {None}:
            raise click.UsageError(
                f"--budget, --stalled-after, --rejection-rate and --target need --notify URL, or {URLS}"
            )
        if not urls:
            return command(*args, asked=None, **kwargs)
        from streamer.notifications.decide import Rules

        silence = None if stalled_after is None else timedelta(minutes=stalled_after)
        rules = Rules(budget, silence, rejection_rate, target)
        return command(*args, asked=Asked(urls, rules, stalled_after), **kwargs)

    return wrapped  # type: ignore[return-value]


def check_urls(asked: Asked) -> None:
    """A URL that no service has, or that apprise is not there, is wrong use."""
    from streamer.notifications.send import BadNotifyUrl, NotifyMissing, Service

    for number, url in enumerate(asked.urls, start=1):
        try:
            Service(url, number, say=lambda line: None).close(0)
        except (BadNotifyUrl, NotifyMissing) as error:
            raise click.UsageError(str(error)) from None
