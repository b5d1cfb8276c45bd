"""FormulaCode: per-benchmark speedups, task metrics, failure semantics, the per-agent task payload."""
