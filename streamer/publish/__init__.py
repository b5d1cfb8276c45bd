"""The parts that harnesses publish with: publishers, queue, validation, delivery, events spilled to disk."""
