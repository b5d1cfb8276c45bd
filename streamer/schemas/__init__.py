"""The messages that cross a wire, as pydantic models: exported as JSON Schema and AsyncAPI."""
