"""Two private answers of a home-made library, compared with the epsilon that their documentation claims.

    python audit_mechanism.py

or, from the shell, for one of them: audit mechanism audit_mechanism:noisy_count --epsilon 1 --neighbours records
"""

from __future__ import annotations

import numpy as np

import audit


def noisy_count(data: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
    """Return the sum of 0/1 records with Laplace noise of scale 1: epsilon 1, as claimed."""
    return data.sum() + rng.laplace(0.0, 1.0, size)


def noisy_mean(data: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
    """Return the mean of records in [0, 1] with noise for the number of records at hand, which one record changes."""
    return data.mean() + rng.laplace(0.0, 1.0 / len(data), size)


def main() -> None:
    for function in (noisy_count, noisy_mean):
        report = audit.mechanism(
            function, epsilon=1.0, neighbours="records", size=4, within=True, adjacency="add_remove", samples=20_000
        )
        print(report)
        print()


if __name__ == "__main__":
    main()
