"""Optimisers on the flat parameters of N models, one file each."""
