"""One property of a round each; every file is run."""
