"""Any randomised function `(data, rng) -> output` held against its claimed epsilon and delta, from its outputs alone."""
