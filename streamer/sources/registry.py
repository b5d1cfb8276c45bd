"""All connectors: ours, then the ones of other packages (see `streamer.sources.plugins`)."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.sources.base import AUTO, Source
from streamer.sources.every_eval_ever import EveryEvalEver
from streamer.sources.fc_eval import FcEval
from streamer.sources.harbor import Harbor
from streamer.sources.inspect import Inspect
from streamer.sources.plugins import load, load_all, plugin_names
from streamer.sources.scylla import Scylla
from streamer.sources.swe_bench import SweBench
from streamer.sources.terminal_bench import TerminalBench

SOURCES: tuple[Source, ...] = (
    *(Inspect(), FcEval(), TerminalBench(), Scylla()),
    *(Harbor(), SweBench(), EveryEvalEver()),
)
"""In the order in which they are asked; the first that detects a run has it.

Inspect comes first since it looks at first bytes alone.
"""

TAKEN = frozenset({AUTO, *(source.name for source in SOURCES)})
"""Names that no other package can give its connector."""

HARNESSES = (AUTO, *(source.name for source in SOURCES), *plugin_names(TAKEN))
"""What `--harness` may say. Connectors of other packages are named without being loaded."""


def sources_for(harness: str) -> Sequence[Source]:
    """The connectors that a `--harness` value admits; connectors of other packages are loaded for it.

    Raises:
        ValueError: it names none.
        PluginError: it names a connector of another package that cannot be used.
    """
    if harness == AUTO:
        return [*SOURCES, *load_all(TAKEN)]
    if harness in TAKEN:
        return [source for source in SOURCES if source.name == harness]
    if harness in plugin_names(TAKEN):
        return [load(harness)]
    raise ValueError(f"harness {harness!r} is unknown; allowed are {', '.join(HARNESSES)}")
