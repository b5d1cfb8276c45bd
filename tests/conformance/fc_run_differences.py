"""Where the ruled numbers of the shared fc-eval run directories differ from fc-eval's."""

from __future__ import annotations

SUB_TRIALS = {
    "fc-nop-oracle-gpt5": {"": 100, "D8": 5, "D8 R2": 2, "R2": 10, "R5 D8": 2, "R5 R2": 1},
    "fc-single-terminus": {"R20 R21": 1, "R20 R21 R1": 4, "R21": 1, "R21 R8": 2, "R8": 14, "R8 R3": 8},
    "fc-no-oracle-same-framework": {"": 19, "B4": 1, "R2": 5, "R5": 1, "R5 R7 R21": 1, "R7": 1,
        "R7 R20 R21": 1, "R21": 5, "R21 R2": 2},
    "fc-single-nop": {"": 4, "R4": 3, "R5 R4": 1},
    "fc-multi-of-one": {"R5 R21": 1, "R8": 2, "R8 R3": 2, "R20 R21": 2, "R20 R21 R1": 2, "R22 R8 R3": 1},
    "fc-rough": {"": 44, "B4 R21": 1, "D8": 1, "D8 R2": 4, "R2": 4, "R5": 1, "R5 D8": 2, "R5 D8 R2": 1,
        "R5 R21": 1, "R5 R7 R21": 1, "R7": 2, "R7 R2": 2, "R7 R20 R21": 1, "R7 R21": 2, "R21": 5,
        "R21 R2": 3, "R21 R7 R2": 1},
    "fc-two-attempts": {"": 55, "D8": 5, "R2": 3, "R5 R7 R21": 1, "R7 R20 R21": 2, "R21": 2, "R22": 1},
}  # fmt: skip
"""Run -> rulings -> how many sub-trials they make differ from fc-eval's; "" is those that are equal.

Beside the rulings of test_compatibility:
B4: fc-eval stumbles over a log and drops all of it.
D8: failing is relative to the oracle, from numbers before any fallback.
R2: fc-eval writes a cost of 0.0 where it knows none.
R3: advantages are recomputed where fc-eval's single-agent path keeps the claimed ones.
R8: cost and length count in runs of one agent too.
"""

RUN_LEVEL = {
    "fc-nop-oracle-gpt5": {"nop:nop": "success",
        "terminus-2:openai/gpt-5": "speedup success advantages cost weighted"},
    "fc-single-terminus": {
        "terminus-2:openai/gpt-5": "speedup success counts advantages cost weighted length"},
    "fc-no-oracle-same-framework": {
        "terminus-2:anthropic/claude-sonnet-4-20250514": "success counts advantages cost weighted length",
        "terminus-2:openai/gpt-5": "speedup success counts advantages cost weighted length"},
    "fc-multi-of-one": {
        "terminus-2:openai/gpt-5-2025-08-07": "speedup success advantages cost weighted length"},
    "fc-rough": {"terminus-2:openai/gpt-5": "speedup success counts advantages cost weighted",
        "terminus-2:openai/gpt-5-2025-08-07": "speedup success counts advantages cost weighted length"},
    "fc-two-attempts": {"openhands:anthropic/claude-opus-4-1": "speedup counts advantages cost weighted",
        "oracle:oracle": "speedup advantages"},
}  # fmt: skip
"""Run -> agent:model -> the fields of its summary that differ from fc-eval's, each through its sub-trials."""

LEFT_OUT = {"fc-no-oracle-same-framework": 2, "fc-rough": 1, "fc-two-attempts": 1}
"""Run -> trials of several agents that crashed as a whole: no file says how any agent ended (R28)."""
