"""The meaning of keys and columns."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

TEXT = """\
Enter  open the run under the cursor   Esc  back, or show everything again
s      sort by the next column         r    turn the order around
/      filter                          Tab  next table; arrow keys scroll it
?      this page                       q    quit

State  complete: all planned trials are in; finished: the harness ended it;
       running; silent for 10 minutes: stalled, or unfinished without a plan
*      grade: planned trials are missing; pass@k: some tasks lack attempts
?      grade: trials wait for their judge
–      not known; columns that nobody knows, or that do not fit, are left out

pass rate  share of successes (tests, else verdict)
accuracy   share of trials that the harness calls resolved
all trials accuracy of a run of several agents; pass@k is by agent only then
w/o infra  accuracy without infrastructure failures, and how many those are
composite  median of the mean of pass rate and judge's score
rests on   what gives the grade: composite, or without a judge pass rate
cost/pass  known cost per pass in USD; inf: no pass
speedup    FormulaCode's mean over trials; advantage: over the human solution
uplift     what the grade rests on over the baseline tier's, minus 1
left, per hour, in all: the pace since the start, in event time, carried on

In scripts: streamer query run RUN --json, streamer subscribe run
"""


class HelpScreen(ModalScreen[None]):
    """Over the screen that asked for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss", "Back", key_display="Esc")
    ]

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll(id="help"):
            yield Static(TEXT, markup=False)
