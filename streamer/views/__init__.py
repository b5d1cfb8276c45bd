"""Boards as data for page, terminal, reports and command-line tables. All data are arguments."""
