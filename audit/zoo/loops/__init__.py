"""Wrong loops around a correct step, one a file: batches, rates and numbers of steps that are not those accounted for."""
