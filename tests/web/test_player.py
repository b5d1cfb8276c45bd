"""The player's page: its policy fits what stands in it, and a recording cannot leave its element."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode

from streamer.web.app import player

HOSTILE = '{"version": 2}\n[0, "o", "</script><script>alert(1)</script><!--"]\n\u2028'


def test_the_policy_allows_exactly_the_script_and_the_style_of_the_page() -> None:
    answer = player(HOSTILE, "x")
    body = bytes(answer.body).decode()
    policy = answer.headers["content-security-policy"]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", body, re.DOTALL)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_a_hostile_recording_and_title_stay_text() -> None:
    body = bytes(player(HOSTILE, "</title><script>alert(1)</script>\u202e").body).decode()
    assert body.count("<script") == 2
    assert "<!--" not in body.split("<script>")[0]
    [data] = re.findall(r'id="recorded">(.*?)</script>', body, re.DOTALL)
    assert json.loads(data) == HOSTILE
    assert "\u202e" not in body.split("</title>")[0]


def test_the_licence_stands_in_the_page() -> None:
    assert b"Apache License" in bytes(player("", "x").body)
