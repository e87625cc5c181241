"""Multiples of 16 rows and parameters; `audit.engine.parameter_layout.Layout` says why."""

ALIGNMENT = 16


def align_up(count: int) -> int:
    """Return `count` rounded up to a multiple of 16, at least 16."""
    return max(ALIGNMENT, -(-count // ALIGNMENT) * ALIGNMENT)
