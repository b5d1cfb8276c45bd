r"""What looks like a secret is taken out of the texts of a trial: the one place for all connectors.

`fit_event` calls this for every event that a connector or a hook makes. Agents and harnesses print keys: in
an error of a model's API, in a command line, in a traceback. A message is published and shown, so a secret in
it would be too. Files are never read for this, and artifacts are only named.

| pattern | example | what is left |
|---|---|---|
| private key | `-----BEGIN RSA PRIVATE KEY-----` to its end, or to the end of the text | `[private key]` |
| Authorization | `Bearer eyJ0...`, `Authorization: Basic dXNl...` | `Bearer [secret]` |
| user in a link | `https://me:hunter2@host/` | `https://[secret]@host/` |
| JSON web token | `eyJhbGci.eyJzdWIi.c2lnbmF0` | `[secret]` |
| a vendor's key | `sk-...`, `AKIA...`, `ghp_...`, `hf_...`: see `VENDOR_KEYS` | `[secret]` |
| a named password | `DB_PASSWORD=hunter2`, `"password": "hunter2"`, `--passwd x` | `DB_PASSWORD=[secret]` |
| a named key | `api_key=a1b2c3d4`, `"token": ...`: 8 characters or more, with a digit | `api_key=[secret]` |
| a signed link | `?X-Amz-Signature=...`, `?sig=...` | `?X-Amz-Signature=[secret]` |

A secret that has no such form is not recognised, so a message is no safe place for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from streamer.schemas.limits import MAX_MESSAGE_CHARACTERS

SECRET = "[secret]"  # noqa: S105  (what is written in place of one)
PRIVATE_KEY = "[private key]"

READ_CHARACTERS = 16 * MAX_MESSAGE_CHARACTERS
"""The part of a longer message that is looked at; the rest is left out in any case."""

VENDOR_KEYS = (
    r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # Amazon
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"ya29\.[A-Za-z0-9_-]{20,}",  # Google, OAuth
    r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"gsk_[A-Za-z0-9]{20,}",  # Groq
    r"xai-[A-Za-z0-9]{20,}",
    r"pplx-[A-Za-z0-9]{20,}",  # Perplexity
    r"r8_[A-Za-z0-9]{20,}",  # Replicate
    r"nvapi-[A-Za-z0-9_-]{20,}",  # NVIDIA
    r"tvly-[A-Za-z0-9-]{16,}",  # Tavily
    r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}",  # LangSmith
    r"e2b_[A-Za-z0-9]{20,}",
    r"dckr_pat_[A-Za-z0-9_-]{20,}",  # Docker
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{40,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
)
"""Keys that their vendors made recognisable; one regular expression each."""

_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY"
_PASSWORD = r"(?i:password|passwd|passphrase)"  # noqa: S105
_KEY = r"(?i:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|account[_-]?key|secret|token|credentials?)"
_ASSIGNED = r"[\"']?\s*[=:]\s*[\"']?"
_OPTION = r"(?:\s+|=)[\"']?"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), left)
    for pattern, left in (
        (rf"(?s)-----BEGIN {_PEM}-----.*?(?:-----END {_PEM}-----|\Z)", PRIVATE_KEY),
        (
            r"(?i)\b((?:proxy-)?authorization[\"']?\s*[=:]\s*[\"']?(?:[A-Za-z]+\s+)?)[^\s\"',;]+",
            rf"\1{SECRET}",
        ),
        (r"(?i)\b(Bearer|Basic|Token)\s+(?=[^\s\"']*\d)[A-Za-z0-9._~+/=-]{8,}", rf"\1 {SECRET}"),
        (r"\b([A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/@\"']+@", rf"\1{SECRET}@"),
        (r"\beyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*", SECRET),
        (rf"(?<![A-Za-z0-9])(?:{'|'.join(VENDOR_KEYS)})", SECRET),
        (
            r"(?i)\b(X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature|Credential)|sig|signature)"
            r"=[^\s&\"'#]+",
            rf"\1={SECRET}",
        ),
        (rf"({_PASSWORD}{_ASSIGNED}|--?{_PASSWORD}{_OPTION})(?!\[secret\])[^\s\"',;&]+", rf"\1{SECRET}"),
        (
            rf"({_KEY}{_ASSIGNED}|--?{_KEY}{_OPTION})(?!\[secret\])(?=[^\s\"',;&]*\d)[^\s\"',;&]{{8,}}",
            rf"\1{SECRET}",
        ),
    )
)


def without_secrets(text: str) -> str:
    """The text with a mark in place of all that looks like a secret.

    >>> without_secrets("401: Incorrect API key provided: sk-proj-4f9a8b7c6d5e4f3a2b1c")
    '401: Incorrect API key provided: [secret]'
    >>> without_secrets("psql postgres://me:hunter2@db/x -- DB_PASSWORD=hunter2")
    'psql postgres://[secret]@db/x -- DB_PASSWORD=[secret]'
    >>> without_secrets("SyntaxError: Unexpected token: function, at 512 tokens")
    'SyntaxError: Unexpected token: function, at 512 tokens'
    """
    for pattern, left in _RULES:
        text = pattern.sub(left, text)
    return text


def safe_texts(event: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The event with texts that may be published, and field to reason for what was left out.

    - `message` loses secrets and white space around it, and is cut at its limit. An empty one is left out.
    - Values of `labels` lose secrets.
    - An artifact whose name, path or link has a secret in it is left out: without it the link leads nowhere.
    """
    safe, reasons = dict(event), {}
    if isinstance(message := event.get("message"), str):
        if short := _short_message(without_secrets(message[:READ_CHARACTERS]).strip(), len(message)):
            safe["message"] = short
        else:
            del safe["message"]
    if event.get("type") == "trial_result" and isinstance(labels := event.get("labels"), dict):
        safe["labels"] = {
            key: without_secrets(value) if isinstance(value, str) else value for key, value in labels.items()
        }
    if isinstance(artifacts := event.get("artifacts"), list):
        kept = [artifact for artifact in artifacts if not _has_secret(artifact)]
        if len(kept) < len(artifacts):
            reasons["artifacts"] = (
                f"{len(artifacts) - len(kept)} left out: what looks like a secret is in the link"
            )
            safe["artifacts"] = kept
    return safe, reasons


def _short_message(message: str, whole: int) -> str:
    """The message, cut at its limit with a remark on how long it was."""
    if len(message) <= MAX_MESSAGE_CHARACTERS and whole <= READ_CHARACTERS:
        return message
    remark = f"... (cut, of {whole:,} characters)"
    return message[: MAX_MESSAGE_CHARACTERS - len(remark)] + remark


def _has_secret(artifact: Any) -> bool:
    values = artifact.values() if isinstance(artifact, dict) else ()
    return any(isinstance(value, str) and without_secrets(value) != value for value in values)
