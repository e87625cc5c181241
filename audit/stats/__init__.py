"""Pure float64 functions on arrays: no type of ours, no torch, no global randomness."""
