"""The usual result, read in a sixth of the time: a trial of its own without FormulaCode's sections.

:func:`plain_trial` is sure of what it accepts: each of its events, field for field, is what
:func:`schemas.decode.decode` gives. Whatever it is not sure of it leaves alone, so pydantic stays the
authority on what is allowed, and on what an error says.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import Meta, Struct

from schemas.base import is_plausible
from schemas.canonical import PLAIN, canonical_json, encode_plain
from schemas.events import TrialResult
from schemas.identity import UNKNOWN
from schemas.limits import (
    MAX_COUNT,
    MAX_ID_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_ORDINAL,
    MAX_REVISION,
    MAX_TEXT_CHARACTERS,
)

_Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARACTERS)]
_Key = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
_ShortText = Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]
_Ordinal = Annotated[int, Meta(ge=1, le=MAX_ORDINAL)]
_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Amount = Annotated[float, Meta(ge=0, le=PLAIN)]
_Score = Annotated[float, Meta(ge=-PLAIN, le=PLAIN)]

_MAX_BYTES = 64 * 1024
_LARGE_BYTES = 2048
"""Larger results mostly have benchmarks, which is faster to look for than to find while reading."""

_SEPARATORS = slice(4, 20, 3)
_SEPARATED = frozenset(f"--{between}::{after}" for between in "T " for after in ".Z+")
"""What stands at those places of a time that is written in the usual way."""

_LENGTHS_Z = frozenset({20, *range(22, 28)})
"""Lengths of a time in UTC that ends in Z: without decimals, and with 1 to 6."""

_LENGTHS_OFFSET = frozenset({25, *range(27, 33)})
"""Likewise where it ends in +00:00."""


class PlainTrial(Struct, forbid_unknown_fields=True, gc=False, kw_only=True, omit_defaults=True):
    """A :class:`~schemas.events.TrialResult` of a trial of its own, with no section of FormulaCode's.

    It has that model's fields by the same names, with the same values; what cannot occur in it is null.
    The fields are in the order of canonical JSON.
    """

    agent: _Key = UNKNOWN
    agent_index: None = None
    attempt: _Ordinal = 1
    benchmarks: None = None
    cache_read_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    claimed: None = None
    cost_usd: _Amount | None = None
    duration_seconds: _Amount | None = None
    failure_mode: _ShortText | None = None
    finished_at: Any = None
    harness: _ShortText | None = None
    input_tokens: _Count | None = None
    model: _Key = UNKNOWN
    output_tokens: _Count | None = None
    resolved: bool | None = None
    revision: Annotated[int, Meta(ge=-MAX_REVISION - 1, le=MAX_REVISION)] = 0
    run_id: _Id
    schema_version: Literal[1] = 1
    score: _Score | None = None
    shard: Annotated[str, Meta(max_length=MAX_ID_CHARACTERS)] = ""
    snapshot: None = None
    speedup_percentage: None = None
    started_at: Any = None
    subtest: _Key | None = None
    task_id: _Id
    tests: None = None
    tier: _Key | None = None
    trajectory_length: _Count | None = None
    trial_id: _Text | None = None
    trial_name: _Text | None = None
    type: Literal["trial_result"]

    def canonical_content(self, model: str) -> bytes:
        """Canonical JSON of :func:`schemas.events.known_content`, with the model by that name.

        msgspec leaves out what *is* the default, which text that was read never is, though it be equal.
        """
        if model == UNKNOWN != self.model:
            return canonical_json(orjson.loads(self.canonical_content(self.model)) | {"model": model})
        held = self.agent, self.model, self.revision
        self.agent = UNKNOWN if self.agent == UNKNOWN else self.agent
        self.model = UNKNOWN if model == UNKNOWN else model
        self.revision = 0
        content = encode_plain(self)
        self.agent, self.model, self.revision = held
        return content


AnyTrial = TrialResult | PlainTrial

_decode = msgspec.json.Decoder(PlainTrial).decode


def _within_the_day(text: str) -> datetime:
    """The time in a text whose hour is below 24, which Python takes for midnight from 3.14 on."""
    if text[11:13] == "24":
        raise ValueError
    return datetime.fromisoformat(text)


_from_iso = datetime.fromisoformat if sys.version_info < (3, 14) else _within_the_day


def plain_trial(value: bytes | None, *, for_score: bool = False) -> PlainTrial | None:
    """The result in `value` if it is a usual one; None: :func:`~schemas.decode.decode` has to look at it.

    Text beyond ASCII, escapes and times in other zones than UTC are not usual. So control characters
    cannot occur: JSON allows them as escapes only, but for U+007F.

    Args:
        for_score: `value` was accepted before, by either way, and is read for its score alone: its times
            stay text where it has a duration, since the score does not need them then.

    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t"}').task_id
    't'
    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t", "colour": 1}') is None
    True
    """
    if value is None or not value.isascii() or 0x5C in value or 0x7F in value:
        return None
    if len(value) > _LARGE_BYTES and (len(value) > _MAX_BYTES or b'"benchmarks":{' in value):
        return None
    try:
        trial = _decode(value)
        if for_score and trial.duration_seconds is not None:
            return trial
        if trial.started_at is not None:
            trial.started_at = _moment(trial.started_at)
        if trial.finished_at is not None:
            trial.finished_at = _moment(trial.finished_at)
    except (ValueError, RecursionError):
        return None
    return trial


def _moment(text: Any) -> datetime:
    """The time in a text; raises ValueError if it is not the usual one, or not plausible."""
    if text.__class__ is not str or text[_SEPARATORS] not in _SEPARATED:
        raise ValueError
    if len(text) not in (_LENGTHS_OFFSET if text[-6:] == "+00:00" else _LENGTHS_Z if text[-1] == "Z" else ()):
        raise ValueError
    moment = _from_iso(text)
    if not is_plausible(moment):
        raise ValueError
    return moment
