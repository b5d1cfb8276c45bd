"""Files that trials left: opened read-only below one directory, and read as steps, lines or diffs."""
