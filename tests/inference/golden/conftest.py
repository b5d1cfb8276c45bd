"""make.py needs inspect_ai, which the tests do not."""

collect_ignore = ["make.py"]
