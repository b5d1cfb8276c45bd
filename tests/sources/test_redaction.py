"""What looks like a secret leaves messages, labels and artifacts, wherever an event is made."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from streamer.sources.base import READ_CHARACTERS, VENDOR_KEYS, fit_event, without_secrets
from tests.sources.builders import converted, trials_of
from tests.sources.harbor import a_job, a_trial_result

RANDOM = "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c"
KEYS = [
    f"sk-ant-api03-{RANDOM}",
    f"sk-proj-{RANDOM}",
    f"sk_live_{RANDOM[:24]}",
    "AKIAIOSFODNN7EXAMPLE",
    f"AIza{RANDOM[:35]}",
    f"ya29.{RANDOM}",
    f"ghp_{RANDOM[:36]}",
    f"github_pat_{RANDOM}",
    f"glpat-{RANDOM[:20]}",
    f"xoxb-{RANDOM[:24]}",
    f"hf_{RANDOM[:34]}",
    f"gsk_{RANDOM}",
    f"xai-{RANDOM}",
    f"pplx-{RANDOM}",
    f"r8_{RANDOM[:37]}",
    f"nvapi-{RANDOM}",
    f"tvly-{RANDOM[:32]}",
    f"lsv2_pt_{RANDOM}",
    f"e2b_{RANDOM}",
    f"dckr_pat_{RANDOM[:27]}",
    f"npm_{RANDOM[:36]}",
    f"pypi-{RANDOM}{RANDOM}",
    f"SG.{RANDOM[:22]}.{RANDOM[:43]}",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "Incorrect key provided: {}. See the docs", "['{}']", "x={}&y=1"])
def test_a_vendors_key_is_taken_out_wherever_it_stands(key: str, around: str) -> None:
    cleaned = without_secrets(around.format(key))
    assert key not in cleaned
    assert RANDOM[:20] not in cleaned
    assert "[secret]" in cleaned


def test_every_vendors_pattern_has_an_example_here() -> None:
    for pattern in VENDOR_KEYS:
        assert [key for key in KEYS if re.fullmatch(pattern, key)], pattern


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [secret]"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", "{'Authorization': 'Basic [secret]'}"),
        ("curl -H 'authorization: abcdef'", "curl -H 'authorization: [secret]'"),
        ("git clone https://me:hunter2@host/x.git", "git clone https://[secret]@host/x.git"),
        ("DB_PASSWORD=hunter2 make", "DB_PASSWORD=[secret] make"),
        ('{"password": "hunter2"}', '{"password": "[secret]"}'),
        ("mysql --password hunter2 -u me", "mysql --password [secret] -u me"),
        ("OPENAI_API_KEY=abcd1234efgh", "OPENAI_API_KEY=[secret]"),
        ("run --api-key abcd1234efgh", "run --api-key [secret]"),
        ("'token': 'abcd1234efgh'", "'token': '[secret]'"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[secret]"),
        ("GET https://b/x?X-Amz-Signature=ab&z=1", "GET https://b/x?X-Amz-Signature=[secret]&z=1"),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "[secret]"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a [private key] b"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "[private key]"),
    ],
)
def test_what_is_named_a_secret_is_taken_out(text: str, left: str) -> None:
    assert without_secrets(text) == left
    assert without_secrets(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: Unexpected token: function",
        "max_tokens=100000000, 512 tokens left",
        "KeyError: 'api_key'",
        "no module named secrets; passwordless login failed",
        "git@github.com:a/b.git, see https://host/path?page=2",
        "task-1234567890123456789 failed tests: test_token_expiry, test_sk-1",
        "RuntimeError: exit code 3",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert without_secrets(text) == text


def an_event(**fields: object) -> dict[str, object]:
    return {"type": "trial_result", "run_id": "r", "task_id": "t", **fields}


def test_messages_labels_and_artifacts_of_an_event_lose_secrets() -> None:
    fitted, reasons = fit_event(
        an_event(
            message=f"  401 with {KEYS[0]}\n",
            labels={"command": "x --password hunter2", "size": "big"},
            artifacts=[
                {"name": "log", "path": "t/log.txt"},
                {"name": "trace", "url": "https://b/x?X-Amz-Signature=abcdef"},
            ],
        )
    )
    assert fitted is not None
    assert fitted["message"] == "401 with [secret]"
    assert fitted["labels"] == {"command": "x --password [secret]", "size": "big"}
    assert fitted["artifacts"] == [{"name": "log", "path": "t/log.txt"}]
    assert list(reasons) == ["artifacts"]


def test_a_long_message_is_cut_after_secrets_were_taken_out() -> None:
    """A key across the limit does not leave its first half."""
    long = "x" * 4050 + f" {KEYS[0]} " + "y" * 10 * READ_CHARACTERS
    fitted, _ = fit_event(an_event(message=long))
    assert fitted is not None
    assert len(fitted["message"]) == 4096
    assert "sk-ant" not in fitted["message"]
    assert fitted["message"].endswith(f"... (cut, of {len(long):,} characters)")


def test_an_empty_message_is_no_message() -> None:
    fitted, reasons = fit_event(an_event(message=" \n"))
    assert fitted == an_event()
    assert not reasons


def test_a_connectors_message_passes_here(tmp_path: Path) -> None:
    failed = {"exception_type": "AuthenticationError", "exception_message": f"bad key {KEYS[1]}"}
    events, report = converted(a_job(tmp_path / "job", a_trial_result(exception_info=failed)))
    assert trials_of(events)[0]["message"] == "AuthenticationError: bad key [secret]"
    assert not report.left_out


def test_any_text_of_the_longest_length_is_read() -> None:
    """Patterns that try many beginnings at many ends would not come back from these."""
    chance = random.Random(7)
    for piece in ("sk-", "--api-key ", "password ", "a://", "-----BEGIN ", "Bearer ", "eyJaaaaa.", "token= "):
        assert isinstance(without_secrets(piece * (READ_CHARACTERS // len(piece))), str)
    letters = "sk-_. =:'\"/@aB1\n"
    assert isinstance(without_secrets("".join(chance.choices(letters, k=READ_CHARACTERS))), str)
