"""What goes into the training data, one kind a file."""
