"""Where summaries go: the names of topics and keys, Redis, and a recording sink for tests."""
