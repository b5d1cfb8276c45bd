"""Who gets in, who may do what, and what is never said aloud."""
