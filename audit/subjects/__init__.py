"""Ways to read a model that is already trained, one a file."""
