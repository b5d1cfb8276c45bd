"""Tasks for `inspect eval` on mockllm, which need no network. Run by inspect_ai, never imported by tests.

Six samples in three epochs: two scorers, one of which gives a dictionary; an error; a sample that runs into
its token limit; tokens from a cache. The scores depend on the sample and the epoch alone. The same tasks run
on older versions, whose mockllm takes no function: there every answer costs the same, and as those versions
count, the cached tokens are part of the input.
"""
# mypy: ignore-errors

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import anyio
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, mean, scorer, stderr
from inspect_ai.solver import generate, solver

SECONDS = float(os.environ.get("ARITHMETIC_SECONDS", "0.01"))
"""How long the model takes."""

VALUES = "CICPN"


async def answer(input, tools, tool_choice, config):
    await anyio.sleep(SECONDS)
    output = ModelOutput.from_content("mockllm/model", "4")
    tokens = 1000 if "5 + 5" in input[-1].text else 100
    output.usage = ModelUsage(
        input_tokens=tokens, output_tokens=7, total_tokens=tokens + 37, input_tokens_cache_read=30
    )
    return output


def older_answers():
    while True:
        output = ModelOutput.from_content("mockllm/model", "4")
        output.usage = ModelUsage(
            input_tokens=130, output_tokens=7, total_tokens=137, input_tokens_cache_read=30
        )
        yield output


IS_OLDER = tuple(map(int, version("inspect-ai").split("."))) < (0, 3, 184)


@solver
def careful():
    async def solve(state, generate):
        once = os.environ.get("ARITHMETIC_BROKEN_ONCE")  # a file that says that it has been broken
        if once and state.sample_id == 4 and not Path(once).exists():
            Path(once).touch()
            raise RuntimeError("no such tool")
        broken = os.environ.get("ARITHMETIC_BROKEN")
        if broken and f"{state.sample_id}/{state.epoch}" == broken:
            raise RuntimeError("no such tool")
        return await generate(state)

    return solve


@scorer(metrics=[accuracy(), stderr()])
def graded():
    async def score(state, target):
        return Score(value=VALUES[(int(state.sample_id) * 7 + state.epoch * 5) % 5 - state.epoch % 2])

    return score


@scorer(metrics={"style": [mean()], "length": [mean(), stderr()]})
def quality():
    async def score(state, target):
        style = float("nan") if state.epoch == 3 else 0.25 * state.epoch
        return Score(value={"style": style, "length": int(state.sample_id) ** state.epoch})

    return score


@task
def addition(epochs: int = 3):
    questions = [Sample(input=f"{n} + {n}", target=str(2 * n), id=n) for n in range(1, 7)]
    model = get_model("mockllm/model", custom_outputs=older_answers() if IS_OLDER else answer)
    return Task(
        dataset=questions,
        solver=[careful(), generate()],
        scorer=[graded(), quality()],
        epochs=Epochs(epochs),
        model=model,
        token_limit=1000,
    )
