"""Harness connectors: run directories on disk to events."""
