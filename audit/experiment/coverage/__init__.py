"""Classes of attack that a report lists as run or not run, one a file."""
