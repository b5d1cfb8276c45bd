"""Ids that would break keys if nobody encoded them."""

from __future__ import annotations

WORDS = [*":|{}%/", "a b", "a:b|c{d}e%f/g", "{}", "}{x", "%7C", "π 漢字 🦀", "*?[a-z]", "'\"\\"]
HOSTILE = [*WORDS, "x" * 512]
IDS = [f"id{number}" for number in range(len(HOSTILE))]
"""Test ids, since pytest escapes some of these."""
