"""Trade-off curves and privacy loss distributions: pure functions on arrays."""
