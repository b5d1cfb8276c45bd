"""Who may open the page of `streamer up`, and what is printed about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HOST, TOKEN = "STREAMER_WEB_HOST", "STREAMER_WEB_TOKEN"
"""Variables that the page's process reads."""


@dataclass(frozen=True, slots=True)
class WebAccess:
    """Who may open the page.

    Attributes:
        host: address that it listens on.
        token: others must know it; None: no token is asked for, which only this machine's own address allows.
        says: lines for the user, where the page is; (): the address on this machine.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    says: Sequence[str] = ()

    def environment(self) -> Mapping[str, str]:
        """The variables of the page's process.

        >>> WebAccess().environment(), WebAccess("0.0.0.0", "secret").environment()
        ({'STREAMER_WEB_HOST': '127.0.0.1'}, {'STREAMER_WEB_HOST': '0.0.0.0', 'STREAMER_WEB_TOKEN': 'secret'})
        """
        return {HOST: self.host} | ({TOKEN: self.token} if self.token else {})

    def lines(self, port: int) -> list[str]:
        """Where the page is, as `streamer up` prints it.

        >>> WebAccess().lines(8720)
        ['  Web page   http://127.0.0.1:8720/']
        """
        first, *others = self.says or (f"http://127.0.0.1:{port}/",)
        return [f"  Web page   {first}", *(f"             {line}" for line in others)]
