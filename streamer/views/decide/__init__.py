"""What may be said of sides, candidates and runs: comparisons, gates, ranks, forecasts."""
