"""Golden digests: one per summary of all real data and of the random histories.

`python -m tests.golden.digests` writes them to digests.txt and the fields that they cover to fields.json.
Do that only for a release that changes what numbers mean (SEMANTICS_VERSION). Fields that come later are
left out of the comparison, so that a digest says: what was there is still the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import orjson
from pydantic import BaseModel

from streamer.folding.fold import fold_records
from streamer.folding.groups import DISTRIBUTED, SUMMED
from streamer.schemas.base import NOT_DIGESTED, canonical_json, sha256_hex
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.schemas.wire import records_of_lines
from tests.golden.data import streams
from tests.golden.histories import HISTORIES, history

HERE = Path(__file__).parent
DIGESTS, FIELDS = HERE / "digests.txt", HERE / "fields.json"
CHARACTERS = 24

Shape = dict[str, Any]
"""Field to the shape of its value; an empty shape is a value as a whole; "*" is every key of a map."""


def shape_of(model: type[BaseModel]) -> Shape:
    """The fields of a message that the digest covers."""
    return {name: _shape(field.annotation) for name, field in model.model_fields.items()}


def _shape(annotation: Any) -> Shape:
    if get_origin(annotation) is Annotated:
        return _shape(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        shapes = [_shape(part) for part in get_args(annotation)]
        return next((shape for shape in shapes if shape), {})
    if get_origin(annotation) is dict:
        inner = _shape(get_args(annotation)[1])
        return {"*": inner} if inner else {}
    return shape_of(annotation) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}


def restricted(value: Any, shape: Shape) -> Any:
    """The value with the fields of the shape alone."""
    if not shape or not isinstance(value, Mapping):
        return value
    if "*" in shape:
        return {name: restricted(part, shape["*"]) for name, part in value.items()}
    return {name: restricted(value[name], inner) for name, inner in shape.items() if name in value}


def computed(fields: Mapping[str, Shape]) -> Iterator[str]:
    """Lines `STREAM KIND KEY DIGEST`, of all streams in order."""
    for name, events in streams():
        yield from _of_events(name, events, fields)
    for seed in range(HISTORIES):
        yield from _of_events(f"history/{seed}", history(seed), fields)


def _of_events(name: str, events: Iterable[Mapping[str, Any]], fields: Mapping[str, Shape]) -> Iterator[str]:
    folding = fold_records(records_of_lines(map(orjson.dumps, events)))
    for change in folding.summaries():
        if change.kind not in fields:
            continue  # there were no comparisons
        summary = change.summary or {}
        covered = {field: summary[field] for field in summary.keys() - NOT_DIGESTED}
        digest = sha256_hex(canonical_json(restricted(covered, fields[change.kind])))
        yield f"{name} {change.kind} {change.key} {digest[:CHARACTERS]}"


def _covered(model: type[BaseModel]) -> Shape:
    """The shape of a message without what is not digested, and with the metrics of today alone."""
    shape = {name: inner for name, inner in shape_of(model).items() if name not in NOT_DIGESTED}
    if "statistics" in shape:
        shape["statistics"] = dict.fromkeys(DISTRIBUTED, shape["statistics"]["*"])
    metrics = (*DISTRIBUTED, *SUMMED)
    return shape | {"coverage": {metric: {} for metric in metrics}}


def main() -> None:
    kinds = {"agent_model": AgentModelSummary, "tier": TierSummary, "run": RunSummary}
    fields = {kind: _covered(model) for kind, model in kinds.items()}
    FIELDS.write_text(json.dumps(fields, indent=1, sort_keys=True) + "\n")
    DIGESTS.write_text("\n".join(computed(fields)) + "\n")


if __name__ == "__main__":
    main()
