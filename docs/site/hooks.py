"""The pages of the site: the repository's own, as they stand, at the paths that they have there.

mkdocs calls the functions whose names begin with `on_`. Pages are written for GitHub. Where Python-Markdown
reads them in another way, `for_python_markdown` changes the text that it gets.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
FIRST = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PICTURES = (".png", ".svg")
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?!\w+:|#)([^)#\s]+)", re.MULTILINE)
ITEM = re.compile(r"( *)((?:[-*]|\d+\.) +)\S")
SHOWN = "---\nsearch: {{exclude: true}}\n---\n# {name}\n\n````{language}\n{text}\n````\n"
FENCE = re.compile(r" *(```+|~~~+)")


def on_config(config: MkDocsConfig) -> None:
    """Give each version a folder of its own."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    config.site_dir = str(Path(config.site_dir) / version)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the repository, and whatever they link to.

    A linked file that is no page and no picture gets a page that shows its text.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    tracked = set(listed.stdout.split("\0"))
    waiting = [*FIRST, *(name for name in tracked if re.match(r"docs/(?!site/).*\.md$", name))]
    added = set(waiting)

    def on_site(match: re.Match[str]) -> str:
        """A link to a folder leads to its README, one to a file without a page to the page that shows it."""
        link = match[2]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        if f"{target}/README.md" in tracked:
            target, link = f"{target}/README.md", posixpath.join(link, "README.md")
        if target in tracked and target not in added:
            added.add(target)
            waiting.append(target)
        shown = target in tracked and not target.endswith((".md", *PICTURES))
        return match[1] + link + ".md" * shown

    while waiting:
        name = waiting.pop()
        path = ROOT / name
        if name.endswith(PICTURES):
            files.append(File.generated(config, name, abs_src_path=str(path)))
        elif name.endswith(".md"):
            text = LINK.sub(on_site, for_python_markdown(path.read_text("utf-8")))
            files.append(File.generated(config, name, content=text))
        else:
            text = SHOWN.format(name=name, language=path.suffix[1:], text=path.read_text("utf-8"))
            hidden = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, f"{name}.md", content=text, inclusion=hidden))


def for_python_markdown(text: str) -> str:
    """The same page with lists and tables as Python-Markdown reads them.

    It wants an empty line before a list, four spaces for each level of a list, and no backslash before a pipe
    in code.
    """
    lines: list[str] = []
    offsets: list[int] = []  # where the text of each list that is open begins
    fence = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        item = None if fence else ITEM.match(line)
        after_blank = not lines or not lines[-1].strip()
        if line.strip() and not fence and (item or after_blank or line.startswith("#")):
            while offsets and indent < offsets[-1]:
                offsets.pop()
        level, width = len(offsets), offsets[-1] if offsets else 0
        if item:
            if not after_blank and not offsets and not in_list(lines):
                lines.append("")
            offsets.append(len(item[1] + item[2]))
        lines.append("    " * level + line[min(indent, width) :] if line.strip() else "")
        if mark := FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        elif not fence and line.lstrip().startswith("|"):
            lines[-1] = re.sub("`[^`]+`", lambda code: code[0].replace(r"\|", "|"), lines[-1])
    return "\n".join(lines) + "\n"


def in_list(lines: list[str]) -> bool:
    """Does the block that these lines end with begin with a list item?"""
    for line in reversed(lines):
        if ITEM.match(line):
            return True
        if not line.strip():
            return False
    return False


def on_post_build(config: MkDocsConfig) -> None:
    """List the versions for the selector, and send readers of the first address to the newest."""
    site = Path(config.site_dir).parent
    names = sorted((one.parent.name for one in site.glob("*/index.html")), key=Version, reverse=True)
    versions = [{"version": name, "title": name, "aliases": []} for name in names]
    (site / "versions.json").write_text(json.dumps(versions), "utf-8")
    page = f'<!doctype html><title>streamer</title><meta http-equiv="refresh" content="0; url={names[0]}/">'
    (site / "index.html").write_text(page, "utf-8")
