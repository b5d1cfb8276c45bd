"""Opening the demo's page in a browser, where there is one that a person looks at."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

PAGE_SECONDS = 30.0
"""So long the page has to begin."""

BROWSER_POLL_SECONDS = 0.1


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that is opened here is seen by the person at this terminal.

    >>> has_display({"DISPLAY": ":0"}, "linux"), has_display({}, "linux"), has_display({}, "darwin")
    (True, False, True)
    >>> has_display({"SSH_CONNECTION": "10.0.0.1 22"}, "darwin"), has_display({"CI": "true"}, "darwin")
    (False, False)
    """
    if environment.get("CI"):
        return False
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        return True
    return platform == "darwin" and not environment.get("SSH_CONNECTION")


def open_page(address: str, given_up: threading.Event, opens: Callable[[str], object] | None = None) -> None:
    """Open the page in a browser as soon as it answers; nothing where there is no browser, or it never does.

    A browser that would need this terminal (lynx, w3m) is not opened.

    Args:
        address: of the page.
        given_up: set: the page is not needed any more.
        opens: opens an address; None: the browser that the system prefers.
    """
    if opens is None:
        if not has_display(os.environ, sys.platform):
            return
        try:
            browser = webbrowser.get()
        except webbrowser.Error:
            return
        if type(browser) is webbrowser.GenericBrowser:
            return
        opens = open_quietly
    deadline = time.monotonic() + PAGE_SECONDS
    while time.monotonic() < deadline and not given_up.wait(BROWSER_POLL_SECONDS):
        if _answers(address):
            opens(address)
            return


def open_quietly(address: str) -> None:
    """Open an address in the preferred browser, in a process whose output does not tear the screen."""
    command = [sys.executable, "-m", "webbrowser", address]
    nowhere = subprocess.DEVNULL
    subprocess.run(command, check=False, stdin=nowhere, stdout=nowhere, stderr=nowhere)  # noqa: S603 - ours


def _answers(address: str) -> bool:
    """Whether a page on this machine answers; a proxy of the user is not asked."""
    with suppress(OSError, HTTPException), build_opener(ProxyHandler({})).open(address, timeout=1.0):
        return True
    return False
