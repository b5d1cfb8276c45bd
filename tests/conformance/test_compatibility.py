"""docs/compatibility.md says what the cases say, and leaves no ruling out."""

from __future__ import annotations

from tests.conformance import make_compatibility
from tests.conformance import test_formulacode_merge as merge
from tests.conformance import test_formulacode_run as run
from tests.conformance.compatibility import DIFFERENCES
from tests.conformance.fc_run_differences import SUB_TRIALS


def test_the_document_is_what_the_cases_say() -> None:
    wanted = make_compatibility.document()
    assert make_compatibility.DOCUMENT.read_text(encoding="utf-8") == wanted, (
        "run: python -m tests.conformance.make_compatibility"
    )


def test_every_ruling_that_moves_a_number_is_explained() -> None:
    counted = [*merge.DIFFERS, *run.DIFFERS, *(held for found in SUB_TRIALS.values() for held in found)]
    assert {name for held in counted for name in held.split()} <= {held.ruling for held in DIFFERENCES}
