"""Harness connectors: run directories on disk to events, one file for each harness.

- `base`: the interface of a connector, and redaction: texts of trials lose what looks like a secret.
- `files`: reading dirty files. `convert`: all connectors, copies of runs, pooled runs.
- `tail/`: following a directory. `simulate/`: writes run directories as harnesses do.
"""
