"""Values for the fields of an event, by its JSON Schema: usual ones, ones at a limit, ones beyond it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from random import Random
from typing import Any

from streamer.schemas.base import NO_CONTROL_CHARACTERS

Schema = Mapping[str, Any]


class Reach(Enum):
    """How far a value goes."""

    USUAL = "what harnesses send"
    EDGE = "valid, at a limit or just under it"
    BEYOND = "not valid, just over a limit or far over it"


USUAL: Mapping[str, Sequence[Any]] = {
    "shard": ("", "", "", "part 1"),
    "agent": ("a1", "a2", "a3", "nop", "oracle", None),
    "model": ("claude-opus-4-5", "openai/gpt-5", "@m", None),
    "agent_index": (None, None, 1, 2, 3),
    "tier": (None, "T0", "T1", "T2"),
    "subtest": (None, "01", "02"),
    "attempt": (1, 1, 1, 2, 3),
    "revision": (0, 0, 1, 2, 3, 1_767_225_600_000_000_000),
    "harness": ("fc-eval", "terminal-bench", "scylla", "harbor"),
    "failure_mode": ("unset", "agent_timeout", "test_timeout", "parse_error", "unknown_agent_error", "other"),
    "tasks": (0, 1, 20, ["task 1", "task 2"]),
    "attempts": (1, 2, 5),
    "agent_models": (["a1:claude-opus-4-5", "a2:@m"], ["a1:x", "nop:x", "oracle:x", "a3:x"], []),
    "tiers": (["T0", "T1"], []),
    "subtests": ({"T0": 2, "T1": 3}, {}),
    "baselines": (["nop", "oracle"], ["a1"], []),
    "baseline_tier": ("T0", "T1"),
    "grading_profile": ("specified", "scylla-2026", "specified@0.7:0.3", "unheard-of"),
    "infrastructure_failures": (["test_timeout"], []),
    "benchmark": ("formulacode", "other benchmark"),
    "labels": ({"team": "x"}, {}),
    "metrics": (
        {"reward": 0.5},
        {"reward": 1.0, "judge/style": -2.5},
        {"reward": {"direction": "lower"}},
        {},
    ),
    "primary_metric": ("pass_rate", "metrics/reward", "metrics/unheard-of"),
    "artifacts": (
        [{"name": "log", "path": "a/b.log"}],
        [{"name": "log", "url": "https://example.org/x"}],
        [],
    ),
    "score": (0.0, 0.25, 0.5, 1.0, -1.0, 7.0),
}
"""What some fields usually hold; of the others, something of their type."""

CLAIMS = (
    "agent_advantage", "agent_advantage_level1", "agent_advantage_level4", "num_benchmarks",
    "num_valid_benchmarks", "task_speedup", "success",
)  # fmt: skip
RATIOS = (0.5, 1.0, 1.25, 0.0, -1.0, 1e-300, 1e300, 1e308, 5e-324, None, "x", 2**53, True)

TIMES = {
    Reach.USUAL: ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.250Z", "2026-03-01T00:00:00.5+02:00"),
    Reach.EDGE: (
        "1999-12-31T23:59:59.999999Z", "2000-01-01T00:00:00Z", "2199-12-31T23:59:59.999999Z",
        "2200-01-01T00:00:00Z", "2199-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "2026-01-02t03:04:05.123456789z",
        "9999-12-31T23:59:59-00:00", "0001-01-01T00:00:00+00:00", "2024-02-29T12:00:00+23:59",
    ),
    Reach.BEYOND: (
        "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00", "10000-01-01T00:00:00Z",
        "2026-02-30T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T09:30:00", "2026-01-31",
        1_767_225_600, 1.5,
        "0000-01-01T00:00:00Z", "2026-01-31T23:59:60Z",
    ),
}  # fmt: skip
"""2000 to 2199 are the years that count; 1 to 9999 those that can be read."""

FAR_INTEGERS = (2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -1, -(2**63), -(2**63) - 1)
FAR_NUMBERS = (-1.0, -5e-324, float("inf"), float("-inf"), float("nan"), 10**400)
NEAR_NUMBERS = (0.0, -0.0, 5e-324, 2.2e-308, 1e-9, 0.1 + 0.2, 1e15 + 0.5, 2**53, 1e292, 1e308)

ALPHABETS = ("x", "é", "€", "\U0001f600", '"', "\\", "|", "%2F", "/:", "\u2028", "\ufeff", "\u202e", " ")
NAMES = ("x", "_", ".-", "A9")
CONTROLS = ("\x00", "\x01", "\x1b[31m", "\n", "\x7f", "\x9b")
SURROGATE = "\ud800"

MOST_CHARACTERS = 32_000
MOST_ENTRIES = 10_001
"""More would make an event of more than 1 MiB."""


class Values:
    """Makes values. The same random numbers give the same values; `definitions` is what `$ref` refers to."""

    def __init__(self, rng: Random, definitions: Mapping[str, Schema]) -> None:
        self._rng = rng
        self._definitions = definitions
        self._serial = 0

    def of(self, name: str, schema: Schema, reach: Reach) -> Any:
        if reach is Reach.USUAL and name in USUAL:
            return self._rng.choice(USUAL[name])
        if "$ref" in schema:
            name = str(schema["$ref"]).rpartition("/")[2]
            return self.of(name, self._definitions[name], reach)
        if "anyOf" in schema:
            kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
            is_null = reach is Reach.USUAL and self._rng.random() < 0.1
            return None if is_null else self.of(name, self._rng.choice(kinds), reach)
        if "const" in schema or "enum" in schema:
            allowed = [schema["const"]] if "const" in schema else schema["enum"]
            return 99 if reach is Reach.BEYOND else self._rng.choice(allowed)
        if schema.get("format") == "date-time":
            return self._rng.choice(TIMES[reach])
        make: Callable[[str, Schema, Reach], Any] = getattr(self, f"_{schema.get('type')}", self._json)
        return make(name, schema, reach)

    def text(self, characters: int, alphabet: Sequence[str] = ALPHABETS) -> str:
        """A text of so many characters, nearly always one that did not occur before."""
        self._serial += self._rng.random() < 0.9
        start = f"{self._serial:x}."
        rest = self._rng.choice(alphabet)
        return (start + rest * characters)[:characters]

    def _string(self, name: str, schema: Schema, reach: Reach) -> Any:
        rng = self._rng
        most, least = schema.get("maxLength", 1024), schema.get("minLength", 0)
        with_controls = "pattern" not in schema
        is_name = schema.get("pattern", NO_CONTROL_CHARACTERS) != NO_CONTROL_CHARACTERS
        if is_name and reach is not Reach.BEYOND:
            start = "https://x/" if "http" in schema["pattern"] else ""
            length = rng.randrange(9, 12) if reach is Reach.USUAL else rng.choice((most, most - 1))
            return start + self.text(length - len(start), NAMES)
        if reach is Reach.USUAL:
            return f"{name} {rng.randrange(12)}"
        if reach is Reach.EDGE:
            length = rng.choice((most, most, most, most - 1, least, least + 1))
            return self.text(length, ALPHABETS + CONTROLS if with_controls else ALPHABETS)
        if least and rng.random() < 0.1:
            return ""
        if rng.random() < 0.2:
            return "text with " + rng.choice((SURROGATE, *(() if with_controls else CONTROLS)))
        length = rng.choice((most + 1, most + 1, most + 1, 2 * most, 16 * most, 100 * most, 500 * most))
        return self.text(min(length, max(most + 1, MOST_CHARACTERS)))

    def _integer(self, name: str, schema: Schema, reach: Reach) -> int:
        least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        if reach is Reach.USUAL:
            return self._rng.randrange(max(0, least), min(2_000, most + 1))
        if reach is Reach.EDGE:
            return int(self._rng.choice((least, least + 1, most - 1, most, most)))
        far = [number for number in FAR_INTEGERS if not least <= number <= most]
        return int(self._rng.choice((least - 1, most + 1, *far, *(2**53 for _ in far if most < 2**53))))

    def _number(self, name: str, schema: Schema, reach: Reach) -> float:
        rng = self._rng
        if reach is Reach.USUAL:
            return round(rng.random() * 100, rng.randrange(6))
        if reach is Reach.BEYOND:
            return rng.choice([n for n in FAR_NUMBERS if not schema["minimum"] <= n <= schema["maximum"]])
        edges = (schema["minimum"], schema["maximum"], sys.float_info.max)
        return rng.choice([n for n in (*edges, *NEAR_NUMBERS) if schema["minimum"] <= n <= schema["maximum"]])

    def _boolean(self, name: str, schema: Schema, reach: Reach) -> Any:
        return self._rng.choice(("true", 1, 0.0, [])) if reach is Reach.BEYOND else self._rng.random() < 0.5

    def _array(self, name: str, schema: Schema, reach: Reach) -> list[Any]:
        if "prefixItems" in schema:  # a task and an attempt
            return [self.of("item", part, reach) for part in schema["prefixItems"]]
        count = self._count(schema.get("maxItems", 100), reach)
        if reach is Reach.EDGE and count <= 20:
            return [self.of("item", schema["items"], Reach.EDGE) for _ in range(count)]
        if "$ref" in schema["items"]:
            return [self.of("item", schema["items"], Reach.USUAL) for _ in range(count)]
        return [f"item {number}" for number in range(count)]

    def _object(self, name: str, schema: Schema, reach: Reach) -> dict[str, Any]:
        if "properties" in schema:
            return self._section(schema, reach)
        any_name = {NO_CONTROL_CHARACTERS: schema.get("additionalProperties")}
        [(pattern, values)] = schema.get("patternProperties", any_name).items()
        names = {"pattern": pattern, **schema.get("propertyNames", {})}
        count = self._count(schema.get("maxProperties", 100), reach)
        keys = [self._name_of_entry(name, number, count, names, reach) for number in range(count)]
        return {key: self._entry(name, values, count, reach) for key in keys}

    def _name_of_entry(self, name: str, number: int, count: int, schema: Schema, reach: Reach) -> str:
        if reach is Reach.EDGE and count <= 100:
            return str(self._string(name, schema, Reach.EDGE))
        if name == "claimed" and number < len(CLAIMS):
            return CLAIMS[number]
        return f"{name}_{number}"

    def _entry(self, name: str, schema: Schema, count: int, reach: Reach) -> Any:
        if name == "benchmarks":
            return self._benchmark()
        if name == "claimed":
            return self._rng.choice(RATIOS)
        return self.of(name, schema, reach if count <= 100 else Reach.USUAL)

    def _benchmark(self) -> Any:
        rng = self._rng
        way = rng.random()
        if way < 0.7:
            return {"agent/nop": round(rng.random() * 2, 3), "oracle/nop": round(rng.random() * 2, 3)}
        if way < 0.85:
            return {name: rng.choice(RATIOS) for name in ("agent_s", "nop_s", "oracle_s")}
        if way < 0.95:
            return {"agent/nop": rng.choice(RATIOS), "oracle/nop": rng.choice(RATIOS)}
        return self._json("", {}, Reach.EDGE)

    def _section(self, schema: Schema, reach: Reach) -> dict[str, Any]:
        """Counts of tests or snapshots, an artifact, a metric's plan: usual values, but for one."""
        properties, rng = schema["properties"], self._rng
        ways = schema.get("oneOf", [{"required": []}])
        needed = {*schema.get("required", ()), *rng.choice(ways)["required"]}
        optional = properties.keys() - {part for way in ways for part in way["required"]}
        chosen = [part for part in properties if part in needed or (part in optional and rng.random() < 0.6)]
        section = {part: self.of(part, properties[part], Reach.USUAL) for part in chosen}
        odd = rng.choice(chosen or [*properties])
        return section if reach is Reach.USUAL else section | {odd: self.of(odd, properties[odd], reach)}

    def _json(self, name: str, schema: Schema, reach: Reach) -> Any:
        deep: Any = [1.5, None, {"a": [True, "é"]}]
        for _ in range(self._rng.choice((0, 1, 30))):
            deep = {"a": deep}
        odd: tuple[Any, ...] = (None, 0, -1.5, "text", [], {}, deep, 2**63 - 1, -(2**63), 1e308)
        return self._rng.choice((2**64, float("nan"), float("inf")) if reach is Reach.BEYOND else odd)

    def _count(self, most: int, reach: Reach) -> int:
        if reach is Reach.USUAL:
            return self._rng.randrange(4)
        if reach is Reach.BEYOND and (most <= 100 or self._rng.random() < 0.2) and most < MOST_ENTRIES:
            return most + 1
        few = self._rng.random() < 0.9
        return min(self._rng.choice((0, 1, 5, 20) if few else (most - 1, most)), MOST_ENTRIES)
