"""Events on the disk while the broker is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamer.publish.spill import spill_dir
from streamer.settings import Settings


def test_each_broker_and_namespace_has_a_spill_of_its_own(tmp_path: Path) -> None:
    def place(**fields: Any) -> Path:
        return spill_dir(Settings(data_dir=tmp_path, **fields))

    places = [
        place(bootstrap="a:9092"),
        place(bootstrap="b:9092"),
        place(bootstrap="a:9092", namespace="team"),
        place(bootstrap="a:9092", embedded=True),
    ]
    assert len(set(places)) == 4
    assert place(bootstrap="b:1", embedded=True) == places[3]
    assert {place.parent for place in places} == {tmp_path / "spill"}
