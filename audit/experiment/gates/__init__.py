"""Policy gates: what a report has to show for a release, one a file."""
