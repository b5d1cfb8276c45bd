"""The Redis adapter: keys, clients, and the sink that keeps Redis at what the workers publish."""
