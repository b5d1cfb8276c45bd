"""Protocols of clients and server: connections, checks, incoming events, outgoing streams."""
