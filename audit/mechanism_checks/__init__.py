"""Any randomised function `(data, rng) -> output` compared with its claimed epsilon and delta, from its outputs alone."""
