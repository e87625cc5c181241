"""The zoo: wrong DP code beside correct twins, in steps, loops around them and releases, and what refutes each."""
