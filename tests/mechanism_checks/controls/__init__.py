"""Mechanisms whose epsilon is known exactly: calibrated ones as controls, and their wrong twins."""
