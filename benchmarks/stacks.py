"""What py-spy's sampled stacks say: the share of each part of the work, and of the functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.common import table

TOP = 8

PARTS = {
    "starting Python": ("<frozen importlib",),
    "decode": ("schemas/wire.py",),
    "count into groups": ("folding/groups.py", "Scores.count", "RunState.count"),
    "compare agents": ("folding/pairs/",),
    "summarise": (
        "folding/summaries.py",
        "folding/uncertainty.py",
        "folding/plan.py",
        "Run.take_summaries",
        "Grades.",
    ),
    "score, and write scored trials": ("Scores.", "folding/score/__init__.py", "Run.take_scored"),
    "slots (who wins)": ("folding/slots.py", "folding/state.py"),
    "state pages": ("folding/run.py",),
    "Redis": ("streamer/storage/redis.py", "streamer/storage/entries.py", "redis/"),
    "produce: encode, compress, send": ("aiokafka/producer/", "aiokafka/codec.py", "storage/outbox.py"),
    "fetch and unpack": (
        "aiokafka/consumer/",
        "aiokafka/client.py",
        "aiokafka/conn.py",
        "streamer/storage/log.py",
        "worker/transport.py",
    ),
    "the processor itself": (
        "worker/agents.py",
        "worker/partition.py",
        "worker/publisher.py",
        "worker/__init__.py",
        "worker/tables.py",
    ),
    "Faust": ("faust/", "mode/"),
    "event loops and threads": ("asyncio/", "selectors.py", "threading.py"),
    "reading the file": ("bench_fold.py", "streamer/folding/fold.py"),
}
"""Functions or files of each part; the innermost function of a stack that is one of them decides."""

SHARED = ("canonical_json (", "sha256_hex (")
"""Functions that several parts use; their callers decide."""

REST = "rest"


def parts(folded: str, microseconds: float) -> str:
    """Share of each part, and what it makes of the processor time of an event.

    >>> print(parts("a (faust/x.py:1);b (schemas/wire.py:2);c (y:3) 3\\na (faust/x.py:1) 1\\n", 20.0))
    part    share %  us an event
    ------  -------  -----------
    decode  75       15
    Faust   25       5
    """
    result, total = Counter[str](), 0
    for frames, count in _stacks(folded):
        result[_part(frames)] += count
        total += count
    rows = [
        (part, round(100 * n / total, 1), round(microseconds * n / total, 1))
        for part, n in result.most_common()
    ]
    return table([("part", "share %", "us an event"), *rows])


def functions(folded: str, top: int = TOP) -> str:
    """Own and cumulated share of functions in py-spy's raw output, the greatest of either first.

    >>> print(functions("run (a.py:1);cut (b.py:2) 3\\nrun (a.py:9) 1\\n"))
    own %  with callees %  function
    -----  --------------  ----------
    75     75              cut (b.py)
    25     100             run (a.py)
    """
    own, cumulated, total = Counter[str](), Counter[str](), 0
    for frames, count in _stacks(folded):
        total += count
        own[frames[-1]] += count
        for frame in set(frames):
            cumulated[frame] += count
    ours = [frame for frame, _ in cumulated.most_common() if "streamer/" in frame and "__main__" not in frame]
    expected = dict.fromkeys([frame for frame, _ in own.most_common(top)] + ours[:top])
    rows = [(round(100 * own[f] / total, 1), round(100 * cumulated[f] / total, 1), f) for f in expected]
    return table([("own %", "with callees %", "function"), *rows])


def _stacks(folded: str) -> Iterator[tuple[list[str], int]]:
    """Frames of each stack, outermost first, and how often it was seen; broken frames left out."""
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_function(frame) for frame in stack.split(";") if frame.strip() and "__doc__" not in frame]
        if frames:
            yield frames, int(count)


def _part(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, places in PARTS.items():
            if any(place in frame for place in places) and not frame.startswith(SHARED):
                return part
    return REST


def _function(frame: str) -> str:
    """Without the line number: `cut (streamer/x.py:12)` -> `cut (streamer/x.py)`."""
    name, _, place = frame.rpartition(" (")
    return f"{name} ({place.rstrip(')').rpartition(':')[0]})" if ":" in place else frame
