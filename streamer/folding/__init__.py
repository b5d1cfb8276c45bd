"""Run state: slots, groups, the run; and what changed. Pure."""
