"""Messages on the wire as pydantic models, exported as JSON Schema and AsyncAPI."""
