"""What looks like a secret leaves messages, labels and artifacts, wherever an event is made."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from streamer.sources.base import READ_CHARACTERS, VENDOR_KEYS, fit_event, without_secrets
from tests.sources.harbor import a_job, a_trial_result
from tests.sources.outcomes import agree

RANDOM = "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c"
WHOLE = ["sk-ant-api03-", "sk-proj-", "ya29.", "github_pat_", "gsk_", "xai-", "pplx-", "nvapi-", "lsv2_pt_"]
WHOLE += ["e2b_"]
CUT = {"sk_live_": 24, "AIza": 35, "ghp_": 36, "glpat-": 20, "xoxb-": 24, "hf_": 34, "r8_": 37, "tvly-": 32}
CUT |= {"dckr_pat_": 27, "npm_": 36}
KEYS = [prefix + RANDOM for prefix in WHOLE] + [prefix + RANDOM[:length] for prefix, length in CUT.items()]
KEYS += ["AKIAIOSFODNN7EXAMPLE", f"pypi-{RANDOM}{RANDOM}", f"SG.{RANDOM[:22]}.{RANDOM[:43]}"]


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
        ("psql postgres://me:hunter@2@db/x", "psql postgres://[secret]@db/x"),
        ("DB_PASSWORD=hunter2 make", "DB_PASSWORD=[secret] make"),
        ('{"password": "hunter2"}', '{"password": "[secret]"}'),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"[secret]\"}"),
        (r"{\\\"api_key\\\": \\\"abcd1234efgh\\\"}", r"{\\\"api_key\\\": \\\"[secret]\\\"}"),
        ("DB_PASSWORD='two words, 1&2' make", "DB_PASSWORD='[secret]' make"),
        ("PASSWORD=a\\b", "PASSWORD=[secret]"),
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


def fitted(**fields: object) -> tuple[dict[str, object], list[str]]:
    """The given fields as the event has them, and the names of the ones left out."""
    event, reasons = fit_event({"type": "trial_result", "run_id": "r", "task_id": "t", **fields})
    assert event is not None
    return {name: event[name] for name in fields if name in event}, list(reasons)


def test_messages_labels_and_artifacts_of_an_event_lose_secrets() -> None:
    log = {"name": "log", "path": "t/log.txt"}
    trace = {"name": "trace", "url": "https://b/x?X-Amz-Signature=abcdef"}
    labels = {"command": "x --password hunter2", "size": "big"}
    cleaned = {"command": "x --password [secret]", "size": "big"}
    left = {"message": "401 with [secret]", "labels": cleaned, "artifacts": [log]}
    found = fitted(message=f"  401 with {KEYS[0]}\n", labels=labels, artifacts=[log, trace])
    assert found == (left, ["artifacts"])
    assert fitted(message=" \n") == ({}, [])


def test_a_long_message_is_cut_after_secrets_were_taken_out() -> None:
    """A key across the limit does not leave its first half."""
    long = "x" * 4050 + f" {KEYS[0]} " + "y" * 10 * READ_CHARACTERS
    message = str(fitted(message=long)[0]["message"])
    assert (len(message), "sk-ant" in message) == (4096, False)
    assert message.endswith(f"... (cut, of {len(long):,} characters)")


def test_a_connectors_message_passes_here(tmp_path: Path) -> None:
    failed = {"exception_type": "AuthenticationError", "exception_message": f"bad key {KEYS[1]}"}
    job = a_job(tmp_path / "job", a_trial_result(exception_info=failed))
    agree({"message": ["AuthenticationError: bad key [secret]"], "left_out": []}, job)


PIECES = ["sk-", "--api-key ", "password ", "password='", "a://", "-----BEGIN ", "Bearer ", "eyJaaaaa."]
PIECES += ["eyJ-", "token= ", "token=", "--token=", "token=\\"]


def test_any_text_of_the_longest_length_is_read_within_seconds() -> None:
    """Patterns that try many beginnings at many ends would take half a minute for one of these."""
    chance, letters = random.Random(7), "sk-_. =:'\"/@aB1\n\\"
    texts = [piece * (READ_CHARACTERS // len(piece)) for piece in PIECES]
    began = time.process_time()
    for text in (*texts, "".join(chance.choices(letters, k=READ_CHARACTERS))):
        without_secrets(text)
    assert time.process_time() - began < 10
