"""Formats of a report, one file each."""
