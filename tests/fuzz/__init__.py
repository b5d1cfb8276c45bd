"""Bad input of every kind, seeded and bounded: see docs/fuzzing.md.

mutations  documents -> broken ones
documents  real and simulated documents to break
targets    what reads them, and what it has to answer
run        the command
live       events that are published to real workers
"""
