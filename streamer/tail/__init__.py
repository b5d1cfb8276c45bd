"""Follow a run directory: what it says is published, as soon as it says it.

reading    the directory -> the events that `convert` would make of it, whole or one part of it
settling   whether what was complained of a path is still so
complaints what of that the user is told
ledger     what was published, and what has to be, so that the log says what the directory says
gone       which published results it no longer holds
journal    the ledger on disk, so that a restart goes on where it was
ahead      what changed, read at once and alone
pending    which parts wait to be read
runs       which run a path belongs to, those included that came since the whole was read
watching   which paths changed
follow     all of it together; the whole, now and then
consuming  whether a worker takes what is published
"""
