"""The writing rules that a machine can check: how long sentences are, and which turns they avoid.

`python -m tests.house.language [FILE...]` prints what breaks a rule. `--write` records what is left in
language_allowed.toml; that file may only shrink.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tests.house.prose import Sentence, modules, pages, sentences_of
from tests.house.repository import ROOT

MAX_WORDS = 30
"""Words of one sentence at most."""

MAX_MEAN = 18.0
"""Words of the sentences of one page on average, at most."""

ALLOWED = ROOT / "tests" / "house" / "language_allowed.toml"
"""How many sentences of a file still break a rule."""


@dataclass(frozen=True)
class Turn:
    """A turn that readers stumble over; its pattern finds it in `example`, and passes over `fine`."""

    name: str
    pattern: str
    instead: str
    example: str
    fine: str


_VERB = r"(?:is|are|was|were|has|have|had|can|may|must|will|would|does|do)"
TURNS = (
    Turn("anew", r"\b[Aa]new\b", "again", "It writes them anew.", "It writes them again."),
    Turn("be it", r"\bbe it\b", "even if", "It decides, be it only by its time.", "It must be its own."),
    Turn("whoever", r"\b[Ww]ho(?:so)?m?ever\b", "the noun: a client, a user, a process",
         "Whoever reaches the port may read.", "A client that reaches the port may read."),
    Turn("that which", r"\b(?:that|those) which\b", "the noun", "It is that which limits it.",
         "This limit, which is fixed, applies."),
    Turn("that of, those of", r"\b(?:[Tt]hat|[Tt]hose) of\b",
         "repeat the noun, or use a possessive: the worker's", "The grade is that of its mean.",
         "It says that, of all runs, two differ."),
    Turn("nobody", r"\b[Nn]obody\b", "say what is missing, or who acts: no client, without a reader",
         "It is kept where nobody reads.", "It is kept where no client reads."),
    Turn("none as a subject", rf"\bnone(?: of \w+)? {_VERB}\b|^None of\b",
         "no + noun, or a sentence that says what holds", "The page, or null while none is known.",
         "None if the run is unknown."),
    Turn("is none", r"(?<![Tt]here )\b(?:is|are|was|were) none\b",
         "is not one; better the noun: an invalid event", "An event that is none is put aside.",
         "If there is none, it is made."),
    Turn("had better", r"\b(?:had|has) better\b", "should", "A caller had better wait.",
         "The run had two results."),
    Turn("as of any", r"\b[Aa]s of any\b", "the same as for other values", "The mean, as of any values.",
         "As in any other run."),
    Turn("a pronoun as a whole clause", r"^(?:Those|They|These|It|That)[:,]", "the noun and a verb",
         "They, as a list.", "They stand in a list."),
    Turn("what is ... of", r"\b[Ww]hat (?:is|was|are|were|has|have) (?:\w+ )?of\b",
         "the noun: the files, the summaries of the run", "What is read of the run is shown.",
         "The files of the run are shown."),
    Turn("but for", r"\bbut for\b", "except", "All are sent, but for the last.",
         "All are sent, except the last."),
    Turn("for ever", r"\bfor ever\b(?! (?:event|run|message|record|value|model))",
         "always, or: without a limit", "It waits for ever.", "It waits until the broker answers."),
    Turn("told", r"\b[Tt]old\b(?! apart|:)", "reported, shown, sent, called with",
         "What changed is told once.", "Two runs of one name are told apart by their folders."),
    Turn("three clauses with semicolons", r";.*;", "two or three sentences, or a list",
         "One is read; two are kept; three are lost.", "One is read; two are kept."),
)  # fmt: skip
"""Each with what to write instead, an example, and a sentence that is fine."""

SUMMARY_OPENS = re.compile(r"^(?:They|It|Those|Of|Whose)\b")
"""Words without a noun of their own: a docstring that opens so needs its surroundings to be understood."""


@dataclass(frozen=True)
class Offence:
    """A sentence that breaks a rule; printed as a line that says what to do."""

    sentence: Sentence
    rule: str
    instead: str

    def __str__(self) -> str:
        where = f"{self.sentence.path}:{self.sentence.line}"
        return f"{where}: {self.rule}. Write: {self.instead}.\n    {self.sentence.text}"


def offences(sentences: Iterable[Sentence]) -> Iterator[Offence]:
    """Every rule that a sentence breaks, in the order of the sentences."""
    for sentence in sentences:
        if sentence.words > MAX_WORDS:
            rule = f"{sentence.words} words in one sentence, {MAX_WORDS} are allowed"
            yield Offence(sentence, rule, "one idea a sentence, or a list")
        if sentence.is_summary and SUMMARY_OPENS.search(sentence.text):
            instead = "a noun that a reader of this line alone understands"
            yield Offence(sentence, "a docstring that opens without a noun", instead)
        for turn in TURNS:
            if re.search(turn.pattern, sentence.text):
                yield Offence(sentence, f"the turn “{turn.name}”", turn.instead)


def mean_words(sentences: Iterable[Sentence]) -> float:
    """Mean words of a sentence; 0.0 without sentences."""
    return fmean([sentence.words for sentence in sentences if sentence.words] or [0])


def allowed() -> dict[str, int]:
    return dict(tomllib.loads(ALLOWED.read_text("utf-8"))["offences"])


def counted() -> dict[str, int]:
    """How many offences each file has; files without any are left out."""
    result = (offences(sentences_of(path)) for path in [*pages(), *modules()])
    return dict(Counter(offence.sentence.path for of_file in result for offence in of_file))


def main(arguments: list[str]) -> None:
    """Print the offences of the files that are named, or of all of them; or record their numbers."""
    if arguments == ["--write"]:
        head = ALLOWED.read_text("utf-8").split("[offences]")[0]
        lines = [f'"{path}" = {number}\n' for path, number in sorted(counted().items())]
        ALLOWED.write_text(head + "[offences]\n" + "".join(lines), encoding="utf-8")
        return
    for path in [Path(name).resolve() for name in arguments] or [*pages(), *modules()]:
        for offence in offences(sentences_of(path)):
            print(offence)


if __name__ == "__main__":
    main(sys.argv[1:])
