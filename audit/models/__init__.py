"""Models that configs name."""
