"""Boards as data for page, terminal, reports and command-line tables. Data come as arguments."""
