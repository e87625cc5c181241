"""Tests; not installed."""
