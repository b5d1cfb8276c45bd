"""The page's modules as one script: each once, the imported ones first, all of it understood."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamer.web import report
from streamer.web.report import OURS, script


def a_module(folder: Path, name: str, source: str) -> Path:
    file = folder / f"{name}.js"
    file.write_text(source)
    return file


def test_what_a_module_imports_stands_before_it_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "OURS", tmp_path)
    a_module(tmp_path, "base", "export const one = 1;\n")
    a_module(tmp_path, "left-hand", 'import { one } from "./base.js";\nexport function two() {}\n')
    entry = a_module(
        tmp_path,
        "entry",
        'import { one } from "./base.js";\nimport { two } from "./left-hand.js";\ntwo(one);\n',
    )
    made = script(entry)
    made_of = re.findall(r"^const (module_\w+)", made, re.MULTILINE)
    assert made_of[-3:] == ["module_base", "module_left_hand", "module_entry"]
    assert len(made_of) == len(set(made_of))
    assert "const { two } = module_left_hand;" in made
    assert "return { two };" in made


@pytest.mark.parametrize("source", ['import x from "./base.js";\n', "export default 1;\n", "export { a };\n"])
def test_a_module_that_does_more_than_is_understood_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=r"entry\.js: .* cannot be put into a report"):
        script(a_module(tmp_path, "entry", source))


def test_the_modules_of_the_report_are_understood() -> None:
    for entry in OURS.glob("*.js"):
        made = script(entry)
        assert not re.search(r"^(?:import|export)\b", made, re.MULTILINE)
