"""Which tokens a server needs. Loads no web server, so that `up` can check them at once."""

from __future__ import annotations

from ipaddress import ip_address

from streamer.web.listening import ServeError

MIN_TOKEN_CHARACTERS = 16


class TokenNeeded(ServeError):
    """Open to other hosts, and no token."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"--host {host} can be reached by others: give a token of {MIN_TOKEN_CHARACTERS} characters or "
            "more, with --token or STREAMER_WEB_TOKEN, or leave --host out and use an SSH tunnel"
        )


class TokenTooShort(ServeError):
    """A token that could be guessed."""

    def __init__(self, option: str) -> None:
        super().__init__(f"{option} is too short: {MIN_TOKEN_CHARACTERS} characters or more are needed")


class SameToken(ServeError):
    """One token for both uses: every viewer could publish."""

    def __init__(self) -> None:
        super().__init__("--token and --publish-token are the same. Give two, so that viewers cannot publish")


def check_tokens(host: str, token: str | None, publish_token: str | None) -> None:
    """That others need a token, and that tokens are good ones.

    Raises:
        ServeError: they are not.
    """
    for option, given in (("--token", token), ("--publish-token", publish_token)):
        if given is not None and len(given) < MIN_TOKEN_CHARACTERS:
            raise TokenTooShort(option)
    if token is not None and token == publish_token:
        raise SameToken
    if token is None and not is_loopback(host):
        raise TokenNeeded(host)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
