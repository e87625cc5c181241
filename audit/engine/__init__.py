"""Torch mechanics: data, models, sampling, clipping, the ensemble."""
