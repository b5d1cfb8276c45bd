"""Make evaluations.tar.gz again: results that every-eval-ever's own converter wrote from logs of inspect_ai.

Needs Python 3.12 and `pip install 'every-eval-ever[inspect]==0.3.0' inspect-ai==0.3.285`, which the tests do
without. Run it in an empty directory: `python record.py` leaves evaluations.tar.gz there. The model is
inspect_ai's mockllm, which answers what `ANSWERS` says; the logs name it as a model that the converter
knows. Paths of the machine are replaced.
"""
# mypy: ignore-errors

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from every_eval_ever.cli import main as every_eval_ever
from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import tool

HERE = Path.cwd().resolve()
QUESTIONS = {"two": "2", "three": "3", "four": "4", "five": "5"}
"""Sample to its target."""

ANSWERS = {"two": "2", "three": "it is 3, not 4", "four": "5", "five": "5"}
"""Sample to what the model says: `match` wants the target at the end, `includes` anywhere."""


NAME = "gpt-4o-mini"
"""The name that the model gets in the logs."""


@tool
def add():
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: one
            y: the other
        """
        return x + y

    return execute


@solver
def failing():
    async def solve(state, generate):
        if state.sample_id == "four" and state.epoch == 2:
            raise RuntimeError("no credit left for key sk-proj-4f9a8b7c6d5e4f3a2b1c0d9e8f7a")
        return state

    return solve


def answers(message, tools, choice, config):
    question = next(m.text for m in message if m.role == "user")
    output = ModelOutput.from_content(NAME, ANSWERS[question.split()[-1]])
    if tools and message[-1].role != "tool":
        output = ModelOutput.for_tool_call(NAME, "add", {"x": 1, "y": 1})
    output.usage = ModelUsage(input_tokens=20, output_tokens=5, total_tokens=37, input_tokens_cache_read=12)
    return output


def samples():
    return [Sample(id=name, input=f"Write {name}", target=target) for name, target in QUESTIONS.items()]


def run(name, epochs, solvers, scorers):
    task = Task(dataset=samples(), solver=solvers, scorer=scorers, name=name, epochs=Epochs(epochs, "mean"))
    model = get_model("mockllm/model", custom_outputs=answers)
    [log] = eval(task, model=model, log_dir="logs", fail_on_error=False, display="none")
    log.eval.model = f"openai/{NAME}"
    write_eval_log(log, log.location)
    options = ("--source_organization_name", "acme", "--eval_library_version", "0.3.285")
    every_eval_ever(["convert", "inspect", "--log_path", log.location, "--output_dir", "data", *options])


def pack():
    with tarfile.open("evaluations.tar.gz", "w:gz") as archive:
        for path in sorted(file for file in Path("data").rglob("*.json*") if file.is_file()):
            info = archive.gettarinfo(path)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            content = path.read_text().replace(str(HERE), "/bench").encode()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def main():
    run("arithmetic", 2, [failing(), generate()], [match(), includes()])
    run("with-tools", 1, [use_tools(add()), generate()], [match()])
    pack()


if __name__ == "__main__":
    main()
