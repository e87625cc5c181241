"""Mechanisms with an exactly known epsilon: calibrated ones as controls, and their wrong twins."""
