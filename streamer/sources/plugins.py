"""Connectors of other packages: entry points of the group `streamer.sources`.

A package that has, in its pyproject.toml,

    [project.entry-points."streamer.sources"]
    my-harness = "my_package.my_module:MyHarness"

makes `--harness my-harness` known; `auto` asks it after ours. It is loaded when it is first needed. It
gives a class (called without arguments) or an object with `name`, `detect`, `plan` and `trials` as in
`streamer.sources.base.Source`; `skip` and `part` may be missing. An error in it is reported once, with its
name, and stops nothing else.
"""

from __future__ import annotations

import functools
import logging
from collections import defaultdict
from collections.abc import Collection, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions, Item, RunPlan, Source, Unreadable
from streamer.sources.files import clean_name

GROUP = "streamer.sources"
NEEDED = ("detect", "plan", "trials")
"""Methods without which nothing is a connector."""

_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """A connector of another package cannot be used; the text says which, whose and why."""


@functools.cache
def _offers() -> dict[str, list[EntryPoint]]:
    """Name to the different entry points of that name; one that is installed twice counts once."""
    offers: dict[str, list[EntryPoint]] = defaultdict(list)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.value not in (held.value for held in offers[entry.name]):
            offers[entry.name].append(entry)
    return dict(offers)


def plugin_names(taken: Collection[str]) -> tuple[str, ...]:
    """Names of other packages' connectors except those that are `taken`, in order; nothing is loaded."""
    return tuple(name for name in _offers() if name not in taken)


def load_all(taken: Collection[str]) -> list[Source]:
    """Every connector of another package that works; for each other one the reason is reported once."""
    for name in _offers().keys() & set(taken):
        _warn(f"{_described(name)} is left out: streamer has a connector of that name; it needs another")
    return [source for name in plugin_names(taken) if (source := _loaded_or_warned(name))]


@functools.cache
def load(name: str) -> Source:
    """The connector of an entry point.

    Raises:
        PluginError: two packages give the name, or it cannot be imported, or is no connector.
    """
    if len(_offers()[name]) > 1:
        raise PluginError(f"{_described(name)} is left out: the name is given twice; uninstall one of them")
    try:
        loaded = _offers()[name][0].load()
        source = loaded() if isinstance(loaded, type) else loaded
        missing = [method for method in NEEDED if not callable(getattr(source, method, None))]
        own_name = getattr(source, "name", None)
    except Exception as error:
        raise PluginError(f"{_described(name)} cannot be loaded: {_reason(error)}") from error
    if missing:
        raise PluginError(f"{_described(name)} is no connector: it has no method {', '.join(missing)}")
    if own_name != name:
        raise PluginError(f"{_described(name)} is left out: its object calls itself {own_name!r}")
    return _Guarded(source, _described(name))


@functools.cache
def _loaded_or_warned(name: str) -> Source | None:
    try:
        return load(name)
    except PluginError as error:
        _warn(str(error))
        return None


@functools.cache
def _warn(text: str) -> None:
    """Say it, once in this process."""
    _log.warning("%s", text)


def _described(name: str) -> str:
    givers = (f"{entry.value} of {entry.dist.name if entry.dist else '?'}" for entry in _offers()[name])
    return f"connector {name!r} ({', '.join(givers)})"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Guarded:
    """A connector whose exceptions become what connectors say of files; the methods of `Source`."""

    def __init__(self, source: Any, described: str) -> None:
        self.name: str = source.name
        self._source = source
        self._described = described

    def detect(self, path: Path) -> bool:
        try:
            return bool(self._source.detect(path))
        except Exception as error:
            _warn(f"{self._described} fails in detect, so it is not asked about that path: {_reason(error)}")
            return False

    def skip(self, directory: Path) -> bool:
        try:
            return hasattr(self._source, "skip") and bool(self._source.skip(directory))
        except Exception as error:
            _warn(f"{self._described} fails in skip, so nothing is skipped: {_reason(error)}")
            return False

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        try:
            plan: RunPlan = self._source.plan(path, options)
        except Exception as error:
            plan = RunPlan(clean_name(path), problems=[self._failed(path, "plan", error)])
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        partly = {"within": within} if hasattr(self._source, "part") else {}
        try:
            for item in self._source.trials(path, plan, options, **partly):
                if within is None or item.path.is_relative_to(within):
                    yield item
        except Exception as error:
            yield self._failed(within or path, "trials", error)

    def part(self, run: Path, changed: Path) -> Path | None:
        try:
            return self._source.part(run, changed) if hasattr(self._source, "part") else None
        except Exception as error:
            _warn(f"{self._described} fails in part, so runs are read as a whole: {_reason(error)}")
            return None

    def _failed(self, path: Path, method: str, error: Exception) -> Unreadable:
        return Unreadable(path, f"{self._described} fails in {method}: {_reason(error)}")
