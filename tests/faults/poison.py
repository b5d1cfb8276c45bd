"""Events that must be rejected, each once, and records in private topics that must be left out."""

from __future__ import annotations

import itertools
import random

import orjson

from streamer.storage.kafka import Names
from streamer.storage.log import CONFIGURATION_KEY, EPOCH_KEY, LOG_KEY
from streamer.worker.partition import checkpoint_key
from tests.faults.traffic import Message

_GOOD = {
    "type": "trial_result",
    "run_id": "plain/0",
    "task_id": "t",
    "agent": "a",
    "model": "m",
    "resolved": True,
}
DEPTH = 100_000
MEBIBYTE = 2**20


def poison(seed: int, partitions: int, serial: itertools.count[int]) -> list[Message]:
    """One of each kind, all different from earlier ones, in any partition."""
    rng, values = random.Random(seed), [_numbered(value, next(serial)) for value in _values()]
    return [Message(rng.randrange(partitions), b"poison", value, poison=True) for value in values]


def private_poison(
    rng: random.Random, names: Names, partitions: int
) -> list[tuple[str, int, bytes, bytes | None]]:
    """Topic, partition, key and value of records that no worker writes into its private topics.

    A checkpoint is written over, too: then the partition is folded again.
    """
    pages = [rng.choice(_PAGE_KEYS) for _ in range(6)] + [rng.randbytes(rng.randrange(9)) for _ in range(3)]
    records: list[tuple[str, int, bytes, bytes | None]] = [
        (names.trials_changelog, rng.randrange(partitions), key, rng.choice((b"", b"null", rng.randbytes(9))))
        for key in pages
    ]
    lost = rng.randrange(partitions)
    checkpoint = rng.choice((None, b"", b"{}", b"\xff", b'{"v":2000}'))
    records.append((names.trials_changelog, lost, checkpoint_key(lost).encode(), checkpoint))
    records += [(names.streamer_meta, 0, rng.choice(_META_KEYS), value) for value in _NO_META]
    rng.shuffle(records)
    return records


_PAGE_KEYS = (b"", b"\xff\xfe", b"no page", b"/covered/", b"/repair/", b"/quarantined/", b"/w/1")
_META_KEYS = (EPOCH_KEY, LOG_KEY, CONFIGURATION_KEY, b"", b"\xff")
_NO_META = (b"\xff\x00", b"../elsewhere", b'{"epoch":"3"}', b'{"epoch":1' + b"0" * 400 + b"}")


def _numbered(value: bytes, number: int) -> bytes:
    return value.replace(b"#", str(number).encode())


def _values() -> list[bytes]:
    good = orjson.dumps(_GOOD | {"trial_name": "#"})
    return [
        b"\xff\xfe not UTF-8 #",
        b'{"type": "trial_result", "trial_name": "#", "labels": ' + b"[" * DEPTH + b"]" * DEPTH + b"}",
        b'{"deep": "#", "a":' * 1 + b'{"a":' * DEPTH + b"1" + b"}" * DEPTH + b"}",
        good[:-1] + b',"trajectory": "' + b"x" * MEBIBYTE + b'"}',
        good[:-1] + b',"input_tokens": 1' + b"0" * 400 + b"}",
        good[:-1] + b',"cost_usd": NaN}',
        good[:-1] + b',"cost_usd": 1e999}',
        good[:-1] + b',"duration_seconds": -Infinity}',
        good.replace(b'"plain/0"', b'"run\\u0000with\\u001b[31mcontrol"'),
        good.replace(b'"t"', b'"' + b"t" * 600 + b'"'),
        good[:-1] + b',"run_id": 7}',  # a duplicate key: the last one counts, and is no text
        good.replace(b"true", b'"true"'),
        b'{"type": "trial_exploded", "run_id": "plain/0", "#": 0}',
        good[:-1] + b',"schema_version": 99}',
        b'["#"]',
        b'{"type": "trial_result", "run_id": "plain/0", "trial_name": "#',
    ]
