"""The adapter: everything that knows Faust or patches it, and what the worker uses in its place."""
