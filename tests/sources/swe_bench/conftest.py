"""The recorder needs swebench itself, which the tests do without."""

collect_ignore = ["record.py"]
