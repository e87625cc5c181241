"""Editions of a report: what each leaves out."""
