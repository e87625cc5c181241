"""Readers of data files, one format a file."""
