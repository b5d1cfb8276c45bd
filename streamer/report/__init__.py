"""A run as a file: Markdown, HTML, CSV, Parquet, JSON; and two runs compared."""
