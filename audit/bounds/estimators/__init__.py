"""Lower bounds on epsilon, one a file."""
