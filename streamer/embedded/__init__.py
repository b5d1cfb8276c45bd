"""Broker and Redis in one process tree, for one machine: what `streamer up` runs."""
