"""The recorder needs every-eval-ever and inspect_ai, which the tests do without."""

collect_ignore = ["record.py"]
