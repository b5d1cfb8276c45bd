"""The shared parts of page, terminal, reports and command-line tables. Data come as arguments."""
