"""The usual result, read in a sixth of the time: a trial of its own without FormulaCode's sections.

:func:`plain_trial` is sure of what it accepts: each of its events, field for field, is what
:func:`schemas.decode.decode` gives. Whatever it is not sure of it leaves alone, so pydantic stays the
authority on what is allowed, and on what an error says.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from schemas.base import MAX_COUNT, MAX_ID_CHARACTERS, UTC_TIME
from schemas.events import TrialResult
from schemas.identity import UNKNOWN

_Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARACTERS)]
_Ordinal = Annotated[int, Meta(ge=1, le=2**31)]
_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Amount = Annotated[float, Meta(ge=0)]

_MAX_BYTES = 64 * 1024
_is_utc_time = re.compile(UTC_TIME.removesuffix("$")).fullmatch


class PlainTrial(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A :class:`~schemas.events.TrialResult` of a trial of its own, with no section of FormulaCode's.

    It has that model's fields by the same names, with the same values; what cannot occur in it is null.
    """

    type: Literal["trial_result"]
    schema_version: Literal[1] = 1
    run_id: _Id
    shard: Annotated[str, Meta(max_length=MAX_ID_CHARACTERS)] = ""
    task_id: _Id
    attempt: _Ordinal = 1
    agent: _Id = UNKNOWN
    model: _Id = UNKNOWN
    agent_index: None = None
    tier: _Id | None = None
    subtest: _Id | None = None
    revision: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0
    trial_id: str | None = None
    trial_name: str | None = None
    harness: str | None = None
    resolved: bool | None = None
    failure_mode: str | None = None
    score: float | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_read_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    cost_usd: _Amount | None = None
    duration_seconds: _Amount | None = None
    started_text: str | None = msgspec.field(name="started_at", default=None)
    finished_text: str | None = msgspec.field(name="finished_at", default=None)
    trajectory_length: _Count | None = None
    tests: None = None
    snapshot: None = None
    claimed: None = None
    speedup_percentage: None = None
    benchmarks: None = None

    @property
    def started_at(self) -> datetime | None:
        """As `TrialResult.started_at`."""
        return None if self.started_text is None else datetime.fromisoformat(self.started_text)

    @property
    def finished_at(self) -> datetime | None:
        """As `TrialResult.finished_at`."""
        return None if self.finished_text is None else datetime.fromisoformat(self.finished_text)

    def known_content(self) -> dict[str, Any]:
        """See :func:`schemas.events.known_content`: equal results have equal content."""
        values = zip(_NAMES, msgspec.structs.astuple(self), strict=True)
        content = {name: value for name, value in values if value is not None}
        content.pop("revision", None)
        for name, default in _DEFAULTS:
            if content.get(name) == default:
                del content[name]
        for name, at in (("started_at", self.started_at), ("finished_at", self.finished_at)):
            if at is not None:
                content[name] = at
        return content


AnyTrial = TrialResult | PlainTrial

_NAMES = tuple(name.replace("_text", "_at") for name in PlainTrial.__struct_fields__)
_DEFAULTS = [
    (name, field.default)
    for name, field in TrialResult.model_fields.items()
    if not field.is_required() and field.default is not None and name != "revision"
]
"""Fields whose default is not null, and that default."""

_decode = msgspec.json.Decoder(PlainTrial).decode


def plain_trial(value: bytes | None) -> PlainTrial | None:
    """The result in `value` if it is a usual one; None: :func:`~schemas.decode.decode` has to look at it.

    Text beyond ASCII, escapes and times in other zones than UTC are not usual. So control characters
    cannot occur: JSON allows them as escapes only, but for U+007F.

    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t"}').task_id
    't'
    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t", "colour": 1}') is None
    True
    """
    if value is None or len(value) > _MAX_BYTES or not value.isascii() or b"\\" in value or b"\x7f" in value:
        return None
    try:
        trial = _decode(value)
        for text in (trial.started_text, trial.finished_text):
            if text is not None:
                if not _is_utc_time(text):
                    return None
                datetime.fromisoformat(text)
    except ValueError:
        return None
    return trial
