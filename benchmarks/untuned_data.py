"""Attacks on four data sets that no scorer was developed on: the table of docs/evidence/results.md.

Trains the models of `untuned_problems.py`, keeps their outputs in OUT and compares attacks on some of the canaries, every
model once the target.

    python benchmarks/untuned_data.py --root FOLDER --out OUT [--data german imdb ag_news bank] [--models 17]
        [--canaries 300] [--references 16] [--seed 0]

FOLDER holds german_credit/, imdb_subset/, ag_news/ and bank_marketing/ as public mirrors give them.
"""

from __future__ import annotations

import numpy as np
from untuned_problems import kept_models, options

import audit

ATTACKS = ("loss", "offset", "attack_r", "lira", "rmia", "learned_combination", "auto")
CHOICE = 5  # seed of which canaries are looked at


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--canaries", type=int, default=300)
    parser.add_argument("--references", type=int, default=None)
    chosen = parser.parse_args()
    print("| data | attack | figure | mean ± standard error | gap to the best |\n|---|---|---|---|---|")
    for name in chosen.data:
        arrays, _ = kept_models(name, chosen)
        columns = np.random.default_rng(CHOICE).permutation(len(arrays["labels"]))[: chosen.canaries]
        shown = {
            "included": arrays["included"][:, columns],
            "logits": arrays["logits"][:, columns],
            "labels": arrays["labels"][columns],
        }
        result = audit.compare_attacks(shown, ATTACKS, battery=False, references=chosen.references)
        for row in result.rows:
            cells = (f"{row.mean:.3f} ± {row.error:.3f}", f"{row.gap:+.3f} ± {row.gap_error:.3f}")
            print("| " + " | ".join((name, row.attack, row.figure, *cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
