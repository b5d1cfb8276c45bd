"""The verdict of a gate as Markdown: a comment for a pull request, a summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.inference.comparisons import GateVerdict
from streamer.report.as_markdown import name, text
from streamer.views.formatting import of_planned
from streamer.views.gate_verdict import GateResult
from streamer.views.gate_words import counts, not_common, saved_line, verdict_line

MARKS = {GateVerdict.PASS: "✅", GateVerdict.FAIL: "❌", GateVerdict.UNDECIDED: "❔"}


def gate_markdown(result: GateResult) -> bytes:
    """The verdict, both sides, both answers. Names are shown as text, whatever they hold."""
    lines = [f"### {MARKS[result.verdict]} Gate: {text(result.verdict)}", "", text(verdict_line(result)), ""]
    lines += ["| | run | agent:model | trials | passed |", "| :-- | :-- | :-- | --: | --: |"]
    lines += _sides(result)
    said = (*result.words, counts(result), *not_common(result), saved_line(result))
    lines += ["", *(f"- {text(line)}" for line in said if line)]
    return ("\n".join(lines) + "\n").encode()


def _sides(result: GateResult) -> Iterable[str]:
    for title, side in (("candidate", result.candidate), ("baseline", result.baseline)):
        if side is not None:
            trials = f"{of_planned(side.known, side.planned)} | {side.passed:,}"
            yield f"| {title} | {_name(side.run_id)} | {_name(side.agent_model)} | {trials} |"


def _name(value: str | None) -> str:
    return text(None) if value is None else name(value)
