"""What harnesses publish with: publishers, their queue, validation, delivery, and events spilled to disk."""
