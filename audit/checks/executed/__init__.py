"""What a trainer measured of itself, held against the event that was accounted for: one check a file."""
