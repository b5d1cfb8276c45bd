"""The page's own modules as one script, so that a report draws what the page draws.

Only what the page's modules do is understood: imports by name from a file beside it, on one line, and
exports of declarations. Each module becomes a function, so that names do not meet.
"""

from __future__ import annotations

import re
from pathlib import Path

from streamer.web import STATIC
from streamer.web.boards_module import boards_module

OURS = Path(__file__).with_name("static")

_IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def script(entry: Path) -> str:
    """A module with everything that it imports, the imported ones first.

    Raises:
        ValueError: a module does what is not understood.
    """
    modules: dict[str, str] = {"boards": _as_function("boards", boards_module())}
    _add(entry, modules)
    return '"use strict";\n' + "\n".join(modules.values())


def _add(file: Path, modules: dict[str, str]) -> None:
    source = file.read_text(encoding="utf-8")
    for _, imported in _IMPORT.findall(source):
        if imported not in modules:
            _add(_find(imported), modules)
    modules[file.stem] = _as_function(file.stem, source)


def _find(module: str) -> Path:
    ours = OURS / f"{module}.js"
    return ours if ours.exists() else STATIC / "js" / f"{module}.js"


def _as_function(module: str, source: str) -> str:
    exported = [match[1] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(lambda match: f"const {{ {match[1]} }} = {_variable(match[2])};", source)
    body = _EXPORT.sub("", body)
    if left := re.search(r"^(?:import|export)\b.*", body, re.MULTILINE):
        raise ValueError(f"{module}.js: {left[0]!r} cannot be put into a report; import and export by name")
    return f"const {_variable(module)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"


def _variable(module: str) -> str:
    return f"module_{module.replace('-', '_')}"
