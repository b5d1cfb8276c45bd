"""Claims about the repository itself."""
