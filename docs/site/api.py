"""How the API reference reads the client's source: a Griffe extension, which mkdocs.yml names."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n))(?=>>> ).*?(?=\n\n|\Z)", re.DOTALL)
ARGUMENTS = re.compile(r"\n\nArgs:.*", re.DOTALL)


class Client(griffe.Extension):
    """Examples become code. Publishers and readers get what they have from `_Publishing` and `Queries`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        publishers = pkg["client.publisher"]
        for name in ("TrialPublisher", "AsyncTrialPublisher"):  # their arguments stand at their base
            publishers[name].docstring.value += ARGUMENTS.search(publishers["_Publishing"].docstring.value)[0]
        questions = pkg["client.queries.Queries"].members
        for reader in (pkg["client.readers.StateReader"], pkg["client.readers.AsyncStateReader"]):
            for name in [name for name, member in reader.members.items() if asks(member)]:
                reader.set_member(name, griffe.Alias(name, questions[name], parent=reader))
        for question in questions.values():
            if isinstance(question, griffe.Function) and isinstance(question.returns, griffe.ExprSubscript):
                question.returns = question.returns.slice  # Exchange[T] is how it is asked; T is the answer


def asks(member: griffe.Object | griffe.Alias) -> bool:
    """Is it a method like `runs = _asks(Queries.runs)`?"""
    return member.is_attribute and str(member.value).startswith("_asks")
