"""Signals that attacks read, and what makes them from models and records."""
