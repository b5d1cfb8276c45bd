"""Follow a run directory: what it says is published, as soon as it says it.

scan           the directory -> the events that `convert` would make of it, whole or one part of it
file_stability whether a file is as the scan saw it, or still being written
diagnostics    problems, and when to report them
ledger         what was published, and what has to be, so that the log says what the directory says
deletions      published results that the directory no longer holds
ledger_file    the ledger on disk, so that a restart goes on where it was
incremental    changed parts, read at once and alone
read_queue     which parts wait to be read
run_index      which run a path belongs to, runs that came since the last whole scan included
file_watcher   which paths changed
follow         all of it together; a scan of the whole, now and then
lag_watch      whether a worker takes the events that are published
session        one `tail` from start to end
"""
