"""Live boards in a terminal: the runs, and one run.

Read-only. State comes from Redis as it changes, newest trials and rejections from the log.
"""
