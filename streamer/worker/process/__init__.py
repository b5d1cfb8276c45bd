"""The process around it: signals, logs, topics, housekeeping, probes and metrics."""
