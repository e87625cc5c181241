"""A search for parameters at which an accountant is wrong: questions by stratum, what is found made small, kept as cases."""
