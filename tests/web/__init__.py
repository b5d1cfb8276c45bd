"""Tests of streamer/artifacts: files that trials left."""
