"""Figures, drawn once for all formats."""
