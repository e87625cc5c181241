"""Lower bounds of a game: estimators, claim tests, group privacy, power, simulated error rates."""
