"""Probes of a step, one property each."""
