"""The recorder needs harbor itself, which the tests do without."""

collect_ignore = ["record.py"]
