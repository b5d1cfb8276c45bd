"""The tree that architecture.md draws is the tree that is there."""

from __future__ import annotations

import re

from tests.house.repository import ROOT, pyproject, tracked_files

PAGE = "docs/architecture.md"
TREE = re.compile(r"^```\n(streamer/\n.*?)^```$", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?P<indent> *)(?P<name>[\w.]+/?)(?: +(?P<says>\S.*))?$")


def drawn() -> list[tuple[str, str]]:
    """(path, description) of each line of the tree on the page."""
    result = TREE.findall((ROOT / PAGE).read_text("utf-8"))
    assert len(result) == 1, f"{PAGE} draws {len(result)} trees that begin with streamer/"
    lines, above = [], ""
    for text in result[0].splitlines():
        match = LINE.match(text)
        assert match, f"{PAGE}: {text!r} is not `name description`"
        above = match["name"] if not match["indent"] else above
        lines.append(((above if match["indent"] else "") + match["name"], match["says"] or ""))
    return lines


def there() -> set[str]:
    """Top folders that hold Python or the documents, and every package and module right under streamer/."""
    result = {"docs/", "schemas/"}
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        if path.suffix == ".py" and len(parts) > 1:
            result.add(f"{parts[0]}/")
            if parts[0] == "streamer":
                result.add("/".join(parts[:2]) + ("/" if len(parts) > 2 else ""))
    return result - {"streamer/__init__.py"}


def test_the_drawn_tree_has_every_package_and_root_module_once_and_nothing_else() -> None:
    assert sorted(path for path, _ in drawn()) == sorted(there())


def test_every_line_of_the_drawn_tree_says_what_is_there() -> None:
    assert [path for path, says in drawn() if not says] == ["streamer/"]


def test_the_tree_of_streamer_stands_in_the_order_of_the_layers() -> None:
    """So that a package imports only what stands above it."""
    layers: list[str] = pyproject()["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {name: number for number, layer in enumerate(reversed(layers)) for name in layer.split(" | ")}
    paths = [path for path, _ in drawn() if path.startswith("streamer/")][1:]
    floors = [floor[path.removeprefix("streamer/").removesuffix("/").removesuffix(".py")] for path in paths]
    assert floors == sorted(floors)
