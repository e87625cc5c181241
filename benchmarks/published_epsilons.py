"""Published (epsilon, delta, noise, rate, steps), each compared with the proven bracket: writes the table of the evidence page.

    python benchmarks/published_epsilons.py docs/evidence/tables/published-epsilons.csv

Rows are from the pages that they name, as they stood; steps are epochs times data over batch size, rounded down.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from audit.accounting.published import PublishedTraining, decide
from audit.core.rounding import down, up

TF_NEW = "tensorflow/privacy, tutorials/README.md at 047e1ee"
TF_OLD = "tensorflow/privacy, tutorials/README.md, the version with compute_dp_sgd_privacy.py"
OPACUS_OLD = "pytorch/opacus, examples/mnist_README.md at 0698adf"
OPACUS_NEW = "pytorch/opacus, examples/mnist_README.md at eb4e69a"
CHARACTERS = "pytorch/opacus, examples/char-lstm_README.md at 0698adf"
FIGURE = "Bu, Dong, Long, Su 2020 (arXiv 1911.11607), Figure 4"
MNIST = 256 / 60_000
ROWS: tuple[tuple[str, float, float, int, float, float], ...] = (
    (f"{TF_OLD}: 1 epoch", 1.1, MNIST, 234, 1e-5, 1.03),
    (f"{TF_OLD}: 2 epochs", 1.1, MNIST, 468, 1e-5, 1.11),
    (f"{TF_OLD}: 15 epochs", 1.3, MNIST, 3515, 1e-5, 1.19),
    (f"{TF_OLD}: 60 epochs", 1.1, MNIST, 14062, 1e-5, 3.01),
    (f"{TF_OLD}: 45 epochs", 0.7, MNIST, 10546, 1e-5, 7.10),
    (f"{TF_NEW}: 1 epoch", 1.12, MNIST, 234, 1e-5, 1.00),
    (f"{TF_NEW}: 2 epochs", 1.12, MNIST, 468, 1e-5, 1.04),
    (f"{TF_NEW}: 60 epochs", 1.12, MNIST, 14062, 1e-5, 2.92),
    (f"{TF_NEW}: 30 epochs", 0.6, MNIST, 7031, 1e-5, 9.74),
    (f"{TF_NEW}: 10 epochs", 1.2, MNIST, 2343, 1e-5, 1.20),
    (f"{OPACUS_OLD}: 1 epoch", 1.3, 0.004, 240, 1e-5, 0.71),
    (f"{OPACUS_OLD}: 15 epochs", 1.3, 0.004, 3600, 1e-5, 1.19),
    (f"{OPACUS_OLD}: 60 epochs", 1.1, 0.004, 14400, 1e-5, 3.01),
    (f"{OPACUS_OLD}: 45 epochs", 0.7, 0.004, 10800, 1e-5, 7.10),
    (f"{OPACUS_NEW}: 15 epochs", 1.3, 0.004, 3600, 1e-5, 1.16),
    (f"{OPACUS_NEW}: 60 epochs", 1.1, 0.004, 14400, 1e-5, 2.91),
    (f"{OPACUS_NEW}: 45 epochs", 0.7, 0.004, 10800, 1e-5, 6.86),
    (f"{CHARACTERS}: 50 epochs", 1.0, 0.05, 1000, 8e-5, 11.83),
    (f"{FIGURE}: moments accountant, 20 epochs", 1.3, MNIST, 4687, 1e-5, 1.34),
    (f"{FIGURE}: central limit, 20 epochs", 1.06, MNIST, 4687, 1e-5, 1.34),
    (f"{FIGURE}: moments accountant, 70 epochs", 0.7, MNIST, 16406, 1e-5, 8.68),
    (f"{FIGURE}: central limit, 70 epochs", 0.638, MNIST, 16406, 1e-5, 8.68),
)
COLUMNS = ("published in", "noise", "rate", "steps", "delta", "published epsilon", "true epsilon", "answer", "margin")


def main(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for source, sigma, rate, steps, delta, epsilon in ROWS:
            answer = decide(PublishedTraining(sigma=sigma, rate=rate, steps=steps, delta=delta, epsilon=epsilon))
            truth = f"{down(answer.lower, 4)} to {up(answer.upper, 4)}"
            margin = f"{answer.margin / (answer.upper if answer.margin > 0 else answer.lower):+.1%}"
            writer.writerow([source, sigma, f"{rate:.4g}", steps, delta, f"{epsilon:.2f}", truth, answer.word, margin])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
