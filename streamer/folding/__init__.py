"""The state of runs, slots and groups, and what changed. Pure."""
