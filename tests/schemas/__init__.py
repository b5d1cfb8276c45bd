"""Claims about what crosses a wire."""
