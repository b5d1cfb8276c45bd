"""What crosses a wire: events in, summaries out. Pydantic models, exported as JSON Schema and AsyncAPI."""
