"""The demo opens its page only where a person sees it, and only once it answers."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from streamer.terminal import demo
from streamer.terminal.demo import open_page, open_quietly


@pytest.fixture
def page() -> Iterator[str]:
    """A server that answers."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A desktop, and what its browser was asked to open."""
    for name in ("CI", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    addresses: list[str] = []

    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.BackgroundBrowser("desktop"))
    monkeypatch.setattr(demo, "open_quietly", addresses.append)
    return addresses


def test_the_page_is_opened_once_it_answers(page: str, opened: list[str]) -> None:
    open_page(f"{page}#/run/demo", threading.Event())
    assert opened == [f"{page}#/run/demo"]


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"DISPLAY": "", "SSH_CONNECTION": "10.0.0.1 22"}])
def test_nothing_opens_in_ci_and_over_ssh_without_a_display(
    environment: dict[str, str], page: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    open_page(page, threading.Event())
    assert opened == []


def test_a_browser_that_needs_the_terminal_is_not_opened(
    page: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("false"))
    open_page(page, threading.Event())
    assert opened == []


def test_a_proxy_is_not_asked_for_the_page(
    page: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(demo, "PAGE_SECONDS", 5.0)
    open_page(page, threading.Event())
    assert opened == [page]


def test_what_a_browser_prints_does_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho Opening.\necho warning >&2\necho "$1" > {asked}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    open_quietly("http://127.0.0.1:9/")
    assert asked.read_text() == "http://127.0.0.1:9/\n"
    assert capfd.readouterr() == ("", "")


def test_no_browser_is_no_error(page: str, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    open_page(page, threading.Event())
    assert opened == []


def test_a_page_that_does_not_answer_is_given_up(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PAGE_SECONDS", 0.3)
    open_page("http://127.0.0.1:9/", threading.Event())
    over = threading.Event()
    over.set()
    monkeypatch.setattr(demo, "PAGE_SECONDS", 600.0)
    open_page("http://127.0.0.1:9/", over)
    assert opened == []
