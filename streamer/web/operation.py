"""One path of the API: what may be asked there, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from streamer.web.models import Query
from streamer.web.problems import Refused

JSON = "application/json"

Answer = BaseModel | Sequence[BaseModel] | bytes


class BadQuery(Refused):
    """The part after the question mark cannot be answered."""

    status = 400


class NoSuchTrial(Refused):
    """The run has no such trial."""

    status = 404

    def __init__(self, run_id: str, trial_id: str) -> None:
        super().__init__(f"Run {run_id!r} has no trial {trial_id!r}; /api/runs/.../trials lists those it has")


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
