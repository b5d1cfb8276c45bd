"""Live, exact, replayable results for LLM-agent benchmarks."""
