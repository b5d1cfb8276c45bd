"""R7: an agent finds its own entry of a log, in every spelling, and never another agent's."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sources.files import ConfiguredAgent, Subject, agent_of_key, container_key, model_of, own_key

GPT = "terminus-2:openai/gpt-5"
QWEN = "terminus-2:fireworks/qwen3"
IN_CONTAINER = "agent-3-terminus-2:openai-gpt-5"
BARE = "terminus-2:openai-gpt-5"
OTHERS_IN_CONTAINER = ["agent-1-nop:nop", "agent-2-oracle:oracle", "agent-4-terminus-2:fireworks-qwen3"]


def a_subject(key: str = GPT, position: int = 3) -> Subject:
    return Subject(key, position, {"nop:nop", "oracle:oracle", GPT, QWEN} - {key})


def test_the_harness_spells_the_key_for_the_container_with_the_agents_position() -> None:
    assert container_key(3, ConfiguredAgent("terminus-2", "openai/gpt-5")) == IN_CONTAINER
    assert (
        container_key(1, ConfiguredAgent("my_agents.Best", "accounts/x/y_z"))
        == "agent-1-my-agents.Best:accounts-x-y-z"
    )
    assert container_key(2, ConfiguredAgent("a", None)) == "agent-2-a:unknown"


@pytest.mark.parametrize("key", [GPT, "terminus-2:@openai/gpt-5", IN_CONTAINER, BARE])
def test_every_spelling_of_the_agent_is_found_among_the_others(key: str) -> None:
    for keys in itertools.permutations([*OTHERS_IN_CONTAINER, key]):
        assert own_key(keys, a_subject()) == key


def test_a_closer_spelling_wins_over_a_looser_one() -> None:
    spellings = [GPT, "terminus-2:@openai/gpt-5", IN_CONTAINER, "terminus-2:dated"]
    for first in range(len(spellings)):
        assert own_key(reversed(spellings[first:]), a_subject()) == spellings[first]


def test_two_keys_that_fit_equally_well_are_none() -> None:
    assert own_key([IN_CONTAINER, BARE], a_subject(), last_agent=BARE) is None
    assert own_key(["terminus-2:@openai/gpt-5", "terminus-2:@@openai/gpt-5"], a_subject()) is None
    assert own_key(["terminus-2:dated-1", "terminus-2:dated-2"], a_subject()) is None


def test_a_model_that_no_configuration_names_is_found_by_the_label() -> None:
    assert own_key(["nop:nop", "agent-3-terminus-2:dated"], a_subject()) == "agent-3-terminus-2:dated"
    both = ["terminus-2:dated-1", "terminus-2:dated-2"]
    assert own_key(both, a_subject(), last_agent="terminus-2:dated-2") == "terminus-2:dated-2"
    assert own_key(both, a_subject(), last_agent="oracle:oracle") is None
    assert own_key(["openhands:dated"], a_subject(), last_agent="openhands:dated") is None


@pytest.mark.parametrize("other", [QWEN, "agent-4-terminus-2:fireworks-qwen3", "terminus-2:fireworks-qwen3"])
def test_the_numbers_of_the_other_model_of_the_framework_are_never_taken_where_its_own_are_missing(
    other: str,
) -> None:
    """One of two models crashed: its log holds the other's entry alone, as only key and as last agent."""
    for last_agent in (None, other):
        assert own_key(["nop:nop", other], a_subject(), last_agent) is None
        assert own_key([other], a_subject(QWEN, 4), last_agent) == other


def test_a_key_with_another_position_is_never_taken() -> None:
    for key in ("agent-4-terminus-2:dated", "agent-4-terminus-2:openai-gpt-5"):
        assert own_key([key], a_subject(), last_agent=key) is None
    assert own_key([IN_CONTAINER], a_subject(GPT, 4)) is None


def test_two_agents_whose_file_names_are_equal_keep_their_exact_keys_apart() -> None:
    slash, dash = Subject("t:openai/x", 1, {"t:openai-x"}), Subject("t:openai-x", 2, {"t:openai/x"})
    assert own_key(["t:openai-x"], dash) == "t:openai-x"
    assert own_key(["t:openai-x"], slash) is None
    assert own_key(["agent-1-t:openai-x"], slash) == "agent-1-t:openai-x"
    assert own_key(["agent-1-t:openai-x"], dash) is None


def test_an_agent_may_be_named_like_a_position() -> None:
    subject = Subject("agent-7-x:m/n", 1, {"agent-8-x:m/n"})
    for key in ("agent-7-x:m/n", "agent-7-x:m-n", "agent-1-agent-7-x:m-n"):
        assert own_key([key], subject) == key
    assert own_key(["agent-8-x:m-n"], subject) is None


@pytest.mark.parametrize(
    ("label", "model", "expected"),
    [
        ("oracle", "Oracle", "oracle"),
        ("nop", "NOP", "nop"),
        ("oracle", "openai/gpt-5", "openai/gpt-5"),
        ("Oracle", "Oracle", "Oracle"),
        ("oracle", None, None),
    ],
)
def test_a_baseline_is_its_label_and_its_model_is_too_however_it_is_capitalised(
    label: str, model: str | None, expected: str | None
) -> None:
    assert model_of(label, model) == expected
    assert agent_of_key(f"{label}:{model or ''}") == ConfiguredAgent(label, expected)


def test_a_baseline_is_found_however_its_model_is_capitalised() -> None:
    assert own_key(["oracle:Oracle"], a_subject("oracle:oracle", 2)) == "oracle:Oracle"
    assert own_key(["oracle:openai/gpt-5", "oracle:Oracle"], a_subject("oracle:oracle", 2)) == "oracle:Oracle"


KEYS = st.from_regex(r"(agent-[1-4]-)?(t|t-2|nop)(:[a-c/@-]{0,3})?", fullmatch=True)


@given(st.lists(KEYS, max_size=5), KEYS, st.integers(1, 4), st.sets(KEYS, max_size=3), st.none() | KEYS)
def test_what_is_found_is_a_key_of_the_log_whatever_the_order(
    keys: list[str], key: str, position: int, others: set[str], last_agent: str | None
) -> None:
    subject = Subject(key, position, others)
    found = own_key(keys, subject, last_agent)
    assert found is None or found in keys
    assert own_key(reversed(keys), subject, last_agent) == found
    if key in keys:
        assert found == key
