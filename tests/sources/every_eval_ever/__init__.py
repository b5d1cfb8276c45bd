"""Evaluations that every-eval-ever 0.3.0 itself wrote, recorded by record.py; and a builder of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sources.builders import Event, unpacked

EVALUATIONS = Path(__file__).parent / "evaluations.tar.gz"


def unpack_evaluations(home: Path) -> Path:
    """The evaluations `arithmetic` (two epochs, two scorers, one error) and `with-tools`."""
    return unpacked(EVALUATIONS, home)


def rows_in(file: Path) -> list[Event]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def a_row(sample: str = "s1", score: float = 1.0, *, correct: bool = True, **fields: Any) -> Event:
    """A row with what the schema asks for."""
    row: Event = {"schema_version": "0.3.0", "evaluation_id": "bench/acme_m/1700000000", "model_id": "acme/m"}
    row |= {"evaluation_name": "bench", "sample_id": sample, "interaction_type": "single_turn"}
    row |= {"input": {"raw": "?", "reference": ["1"]}, "output": {"raw": ["1"]}, "answer_attribution": []}
    return row | {"evaluation": {"score": score, "is_correct": correct}} | fields


def a_file(path: Path, *rows: Event | str) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
