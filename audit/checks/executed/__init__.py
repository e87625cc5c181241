"""What a trainer measured of itself, compared with the event that was accounted for: one check a file."""
