"""Releases whose formula, neighbours or search is wrong, one a file: what `audit mechanism` refutes."""
