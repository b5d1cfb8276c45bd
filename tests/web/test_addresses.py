"""Where the page says it is: addresses that can be opened, and a QR code that other machines can use."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from streamer.web import EVERYWHERE, addresses, announcement, own_addresses, qr_code
from tests.web.serving import Serving

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", [name for name in EVERYWHERE if name])
def test_a_host_that_stands_for_all_is_never_printed(host: str) -> None:
    found = addresses(host, 8720, own_addresses(host))
    assert found
    assert not any(f"//{host}:" in address or f"//[{host}]:" in address for address in found)


def test_the_address_for_others_comes_first_and_they_get_a_code() -> None:
    first, words, *code = announcement("10.1.2.3", 8720, None, on_terminal=True)
    assert (first, words) == ("http://10.1.2.3:8720/", "with a phone in the same network")
    assert code == qr_code("http://10.1.2.3:8720/").splitlines()


def test_the_code_holds_the_token_and_the_printed_lines_do_not() -> None:
    lines = announcement("10.1.2.3", 8720, TOKEN, on_terminal=True)
    assert TOKEN not in "\n".join(lines)
    assert lines[2:] == qr_code(f"http://10.1.2.3:8720/?token={TOKEN}").splitlines()


@pytest.mark.parametrize(("host", "on_terminal"), [("10.1.2.3", False), ("127.0.0.1", True), ("::1", True)])
def test_there_is_no_code_in_a_file_and_none_for_this_machine_alone(host: str, on_terminal: bool) -> None:
    assert len(announcement(host, 8720, TOKEN, on_terminal=on_terminal)) == 1


def test_the_first_printed_address_of_a_server_open_to_all_answers(serving: Serving) -> None:
    [address] = addresses("127.0.0.1", serving.port)
    with closing(socket.create_connection(("127.0.0.1", serving.port), 10)) as connection:
        host = address.split("/")[2]
        connection.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 200")


def test_looking_for_own_addresses_needs_no_network() -> None:
    assert all(":" in one or one.count(".") == 3 for one in own_addresses("::"))
