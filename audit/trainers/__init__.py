"""Ways to train, one a file."""
