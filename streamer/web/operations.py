"""A path of the API: its question, its answer, and how the answer becomes JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from streamer.web.models import Query

JSON = "application/json"

Answer = BaseModel | Sequence[BaseModel] | bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """One path of the API.

    Attributes:
        path: with the names of its parameters in braces.
        summary: what it answers, for people.
        query: what may stand behind the question mark.
        model: what it answers with; `many`: a list of that.
        answer: called with the process's `Web`, the parameters of the path, and the query.
        media: type of the answer; anything but JSON is a file to keep, and `answer` gives its bytes.
    """

    path: str
    summary: str
    query: type[Query]
    model: type[BaseModel]
    many: bool
    answer: Callable[..., Awaitable[Answer]]
    media: str = JSON

    @property
    def file_name(self) -> str | None:
        """What the file is called; None: the answer is JSON, and no file."""
        return None if self.media == JSON else self.path.rpartition("/")[2]


def values_of(answer: Answer) -> Any:
    """An answer as a JSON value."""
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", by_alias=True)
    return [one.model_dump(mode="json", by_alias=True) for one in answer if isinstance(one, BaseModel)]
