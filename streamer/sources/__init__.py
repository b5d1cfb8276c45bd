"""Harness connectors, which turn run directories into events, with one module for each harness.

- `base`: the interface of a connector, and the removal of secrets from texts.
- `files`: readers for broken files. `convert`: all connectors, copies of runs, pooled runs.
- `tail/`: following a directory.
"""
