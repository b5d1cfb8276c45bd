"""Sealing: what every published value of a run has besides its content."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.keys import GroupId, rfc3339
from streamer.aggregate.run_state import RunState
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex


def sealed(
    run: RunState,
    group: GroupId,
    body: dict[str, Any] | None,
    way: dict[str, Any],
    epoch: int,
    made_with: str,
) -> SummaryChange:
    """Canonical bytes of a body, its digest, and the fields that tell the way; a tombstone of None.

    Args:
        way: further fields that are not in the digest.
    """
    version = run.state_version
    if body is None:
        return SummaryChange.tombstone(run.run_id, group, epoch, version)
    body |= {"type": group.type, "run_id": run.run_id, "semantics_version": SEMANTICS_VERSION}
    digested = canonical_json(body)
    digest = sha256_hex(digested)
    way = way | {
        "epoch": epoch,
        "state_version": version,
        "last_event_at": rfc3339(run.last_event_at),
        "digest": digest,
        "made_with": made_with,
        "degraded": None,
    }
    value = digested[:-1] + b"," + canonical_json(way)[1:]
    return SummaryChange(run.run_id, group, value, body | way, epoch, version, digest)
