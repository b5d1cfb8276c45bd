"""Publish events and read current state, from code."""
