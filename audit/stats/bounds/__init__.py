"""Lower bounds from scores: pure functions on arrays."""
