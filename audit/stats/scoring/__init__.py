"""Membership scores from observations: pure functions on arrays."""
