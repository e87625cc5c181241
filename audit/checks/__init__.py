"""Checks of what was executed and of how membership was decided."""
