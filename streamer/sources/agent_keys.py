"""The agent whose numbers a key of fc-eval means: the spellings of an agent, and the lookup of R7.

One agent appears in three spellings. Configurations and results write `terminus-2:openai/gpt-5` (D4).
Reports normalise the model (E10). The container is handed the spelling of file names, with the agent's
position in front: `agent-3-terminus-2:openai-gpt-5` (E11). Logs use what the container was handed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from streamer.model_names import baseline_model, model_for_reporting
from streamer.schemas.identity import UNKNOWN
from streamer.sources.files import text

_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9\n .]")
_POSITION = re.compile(r"\Aagent-([0-9]{1,9})-(?=[^:])")


class ConfiguredAgent(NamedTuple):
    """An LLM agent as the harness is configured with it; the model is None where no file says it."""

    label: str
    model: str | None

    @property
    def key(self) -> str:
        """The agent's key as the harness writes it into results (D4)."""
        return f"{self.label}:{self.model or UNKNOWN}"


class Subject(NamedTuple):
    """The agent that a log is read for.

    Attributes:
        key: `agent:model` as the harness is configured with it (D4).
        position: place of the agent in its trial, from 1.
        others: keys of the other agents of the run's configuration.
    """

    key: str
    position: int = 1
    others: Collection[str] = ()


def model_of(label: str, model: str | None) -> str | None:
    """The model of an agent; a baseline's is the baseline itself, however it is capitalised (R7).

    >>> model_of("oracle", "Oracle"), model_of("oracle", "openai/gpt-5"), model_of("Oracle", "oracle")
    ('oracle', 'openai/gpt-5', 'oracle')
    """
    return None if model is None else baseline_model(label, model)


def agent_of_key(key: Any) -> ConfiguredAgent | None:
    """The agent of a key `label:model`; None for what is no key."""
    label, colon, model = (text(key) or "").partition(":")
    return ConfiguredAgent(label, model_of(label, model or None)) if label and colon else None


def spelled_for_files(name: str) -> str:
    """A label or a model as file names have it (E11).

    >>> spelled_for_files("openai/gpt_5@v1.2")
    'openai-gpt-5-v1.2'
    """
    return _NOT_IN_FILE_NAMES.sub("-", name)


def container_key(position: int, agent: ConfiguredAgent) -> str:
    """The key that the harness hands to the container of an agent (E11).

    >>> container_key(3, ConfiguredAgent("terminus-2", "openai/gpt-5"))
    'agent-3-terminus-2:openai-gpt-5'
    """
    label, model = spelled_for_files(agent.label), spelled_for_files(agent.model or UNKNOWN)
    return f"agent-{position}-{label}:{model}"


def key_for_reporting(key: str) -> str:
    """The key with its model normalised for reporting (E10, R7).

    >>> key_for_reporting("terminus-2:@openai/gpt-5"), key_for_reporting("oracle:Oracle")
    ('terminus-2:openai/gpt-5', 'oracle:oracle')
    """
    label, colon, model = key.partition(":")
    return label + colon + (model_of(label, model_for_reporting(model)) or "")


def own_key(keys: Iterable[str], subject: Subject, last_agent: str | None = None) -> str | None:
    """The key under which an agent's numbers stand in the log of its own sub-trial; None for none (R7).

    The exact key wins, then the key normalised for reporting, then the key as file names spell it:

    >>> subject = Subject("t-2:openai/gpt-5", 3, {"nop:nop", "t-2:qwen/q3"})
    >>> own_key(["nop:nop", "t-2:openai/gpt-5", "agent-3-t-2:openai-gpt-5"], subject)
    't-2:openai/gpt-5'
    >>> own_key(["t-2:@openai/gpt-5", "t-2:openai-gpt-5"], subject)
    't-2:@openai/gpt-5'
    >>> own_key(["agent-1-nop:nop", "agent-3-t-2:openai-gpt-5"], subject)
    'agent-3-t-2:openai-gpt-5'
    >>> own_key(["t-2:openai-gpt-5"], subject)
    't-2:openai-gpt-5'

    A log may name a dated model that no configuration has. Then the log's last agent counts if it has
    the label, else the only key with the label:

    >>> own_key(["nop:nop", "t-2:gpt-5-0807"], subject)
    't-2:gpt-5-0807'
    >>> own_key(["t-2:gpt-5-0807", "t-2:gpt-5-0901"], subject, last_agent="t-2:gpt-5-0901")
    't-2:gpt-5-0901'

    Neither is taken if it is another agent of the run, in any spelling, or has another position:

    >>> own_key(["agent-4-t-2:qwen-q3"], subject, last_agent="agent-4-t-2:qwen-q3")
    >>> own_key(["t-2:qwen-q3"], subject)
    >>> own_key(["agent-4-t-2:gpt-5-0807"], subject)

    Two keys that fit equally well do not count:

    >>> own_key(["t-2:openai-gpt-5", "agent-3-t-2:openai-gpt-5"], subject)
    >>> own_key(["t-2:gpt-5-0807", "t-2:gpt-5-0901"], subject)
    """
    known = list(dict.fromkeys(keys))
    if subject.key in known:
        return subject.key
    reported = key_for_reporting(subject.key)
    spelled = _spellings(subject.key)
    others = {key_for_reporting(other) for other in subject.others} - {reported}
    for fits in (
        [key for key in known if key_for_reporting(key) == reported],
        [key for key in known if key_for_reporting(key) not in others and _is_spelled(key, subject, spelled)],
    ):
        if fits:
            return fits[0] if len(fits) == 1 else None
    others_spelled = frozenset().union(*map(_spellings, others))
    labelled = [key for key in known if _has_label(key, subject)]
    guess = last_agent if last_agent in labelled else labelled[0] if len(labelled) == 1 else None
    return None if guess is None or _is_another(guess, subject.position, others_spelled) else guess


def _spellings(key: str) -> frozenset[str]:
    """A key as file names spell it (E11): as it is, and normalised for reporting."""
    return frozenset(map(_spelled, (key, key_for_reporting(key))))


def _spelled(key: str) -> str:
    label, colon, model = key.partition(":")
    return spelled_for_files(label) + colon + spelled_for_files(model)


def _is_spelled(key: str, subject: Subject, spelled: frozenset[str]) -> bool:
    """Whether a key is the agent's as file names spell it, perhaps with its own position in front."""
    return not spelled.isdisjoint(_spellings(key) | _spellings(_without(subject.position, key)))


def _has_label(key: str, subject: Subject) -> bool:
    """Whether a key has the agent's label, perhaps with a position in front of it."""
    return _label(subject.key) in (_label(key), _label(_POSITION.sub("", key)))


def _is_another(key: str, position: int, others: Collection[str]) -> bool:
    """Whether a key carries another position, or is one of others in any spelling."""
    match = _POSITION.match(key)
    if match and int(match[1]) != position:
        return True
    return not (_spellings(key) | _spellings(_POSITION.sub("", key))).isdisjoint(others)


def _without(position: int, key: str) -> str:
    """The key without this position in front of it."""
    match = _POSITION.match(key)
    return key[match.end() :] if match and int(match[1]) == position else key


def _label(key: str) -> str:
    return spelled_for_files(key.partition(":")[0])
