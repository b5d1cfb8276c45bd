"""What may be concluded from a run, finished or not: pure functions of plain numbers."""
