"""Plug-ins of harnesses: a harness calls them while it runs, and its events are published at once.

A hook makes the same events as the connector of its harness makes of the files. It hands work over and
returns: neither the broker nor the disk holds up a harness, and no error of ours reaches it.
"""
