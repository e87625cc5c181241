"""The default estimator of independent trials beside the others that hold for any mechanism, on the same fresh scores.

    python benchmarks/default_trials.py                               the table
    python benchmarks/default_trials.py --write docs/evidence/calibration.md   "The default for independent trials"

Every sample has its own coins number of members, near one half, so that no one block of the estimator's draws decides.
Finished rows are kept in `--store`, one file each, and used again: delete them when the estimators change.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from page_sections import replace_section

from audit import plugins
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds.score_distributions import ScoreLaw

TITLE = "The default for independent trials"
KINDS = ("both_ends", "one_run", "rank_exact")
CONFIDENCE = 0.95
BOOTSTRAPS = 2_000
SPREAD = 0.04  # of the scores, by which the number of members departs from one half, at most
LAWS = (
    ScoreLaw(kind="flat", parameter=1.0),
    ScoreLaw(kind="flat", parameter=3.0),
    ScoreLaw(kind="laplace", parameter=1.0),
    ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5),
)


@dataclass(frozen=True)
class Row:
    """Samples of one law at one size."""

    law: ScoreLaw
    total: int
    draws: int

    def bounds(self, index: int) -> list[float]:
        """Bounds of each estimator on sample `index`."""
        seed = Seed(20261122).child(f"{self.law.name} {self.law.delta} {self.total}", index)
        generator = seed.numpy()
        step = 4 * index // self.draws  # four numbers of members a row: each needs its own draws
        members = self.total // 2 + round((0, 1 / 3, -2 / 3, 1)[step] * SPREAD * self.total)
        included = generator.permutation(self.total) < members
        values = self.law.draw(included, generator)
        scores = Scores(values=values, included=included, game=_game(self.total), mechanism=None)
        options = {"delta": self.law.delta, "confidence": CONFIDENCE, "seed": Seed(0)}
        built = [plugins.build("audit.bounds.estimators", {"kind": kind}) for kind in KINDS]
        return [estimator.lower_bound(scores, **options).epsilon for estimator in built]


def _game(total: int) -> Game:
    return Game(
        adjacency=Adjacency.ADD_REMOVE, access=Access.ALL_STEPS, inclusion=Inclusion.COINS, canaries=total, runs=1,
        independent_noise=True,
    )  # fmt: skip


def measured(row: Row, folder: Path) -> np.ndarray:
    """Return bounds `(draws, estimators)`, from the folder if they are there."""
    words = "".join(letter if letter.isalnum() else "-" for letter in f"{row.law.name} {row.law.delta} {row.total} {row.draws}")
    path = folder / f"{words}-{'-'.join(KINDS)}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([row.bounds(index) for index in range(row.draws)]))
    return np.array(json.loads(path.read_text()))


def reach(rows: list[Row], folder: Path) -> list[str]:
    """Lines of the table of medians and paired differences."""
    lines = [
        f"| law | scores | samples | {' | '.join(f'{kind}, median' for kind in KINDS)} | difference of medians, both_ends "
        "less one_run | mean difference | above the truth, both_ends | one_run | truth |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    generator = np.random.default_rng(0)
    for row in rows:
        result = measured(row, folder)
        first, second = result[:, 0], result[:, 1]
        drawn = generator.integers(0, row.draws, (BOOTSTRAPS, row.draws))
        error = np.std(np.median(first[drawn], axis=1) - np.median(second[drawn], axis=1))
        medians = np.median(result, axis=0)
        mean, spread = np.mean(first - second), np.std(first - second, ddof=1) / row.draws**0.5
        over = [int((column > row.law.epsilon).sum()) for column in (first, second)]
        cells = [
            row.law.name, str(row.total), str(row.draws), *(f"{median:.3f}" for median in medians),
            f"{medians[0] - medians[1]:+.3f} ± {error:.3f}", f"{mean:+.4f} ± {spread:.4f}", *map(str, over),
            f"{row.law.epsilon:.3f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def table(folder: Path) -> list[str]:
    """Return the table with its conclusion."""
    rows = [Row(law, 60, 200) for law in (LAWS[0], LAWS[3])]
    rows += [Row(law, 200, 500 if law.kind == "flat" else 120) for law in LAWS]
    rows += [Row(law, 2000, 60) for law in LAWS[:2]]
    return [
        f"Made by `python benchmarks/default_trials.py --write docs/evidence/calibration.md`. Bounds at {CONFIDENCE:.0%} on "
        "the same fresh scores; the number of members is near one half of the scores and takes four values in a row of the "
        "table. `±` is one standard error, of medians by the bootstrap.",
        "",
        *reach(rows, folder),
        "",
        f"numpy {np.__version__}; Python {platform.python_version()}; {platform.machine()}.",
    ]


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("runs/default-trials"), help="folder of finished rows")
    parser.add_argument("--write", type=Path, help="a Markdown page whose section is replaced")
    options = parser.parse_args()
    lines = table(options.store)
    if options.write:
        replace_section(options.write, TITLE, lines)


if __name__ == "__main__":
    main()
