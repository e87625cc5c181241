"""How far `auto` stays behind the best attack of the folder, by numbers of references and canaries: docs/results.md, section 7.

On models that `eight_data_sets.py` or `untuned_data.py` left in OUT; they are trained where it holds none. Every row is one
number of references and one of canaries: `auto`, the attack with the highest mean, and their difference target by target.

    python benchmarks/auto_sweep.py --root FOLDER --out OUT [--data german ag_news ...] [--references 2 4 8 16]
        [--canaries 100 300 3000] [--targets 9] [--figure "tpr at 1% fpr"]
"""

from __future__ import annotations

import numpy as np
from untuned_data import CHOICE
from untuned_problems import kept_models, options

import audit
from audit.core.evaluation import AttackFigure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--references", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--canaries", type=int, nargs="*", default=[100, 300, 3000])
    parser.add_argument("--targets", type=int, default=9)
    chosen = parser.parse_args()
    print("| data | references | canaries | figure | `auto` | best other | gap target by target | gap in standard errors |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in chosen.data:
        arrays, _ = kept_models(name, chosen)
        order = np.random.default_rng(CHOICE).permutation(len(arrays["labels"]))
        for canaries in dict.fromkeys(min(count, len(order)) for count in chosen.canaries):
            columns = order[:canaries]
            shown = {key: arrays[key][:, columns] for key in ("included", "logits")} | {"labels": arrays["labels"][columns]}
            for references in chosen.references:
                table = audit.compare_attacks(shown, references=references, targets=chosen.targets).rows
                resolved = canaries >= 300  # below, no threshold has a false positive rate of 1 %
                figure = "tpr at 1% fpr" if resolved else "auc"
                rows = {row.attack: row for row in table if row.figure == figure}
                print(f"| {name} | {references} | {canaries} | {figure} | {cells(rows)} |", flush=True)


def cells(rows: dict[str, AttackFigure]) -> str:
    own = rows["auto"]
    best = max((row for row in rows.values() if row.attack != "auto"), key=lambda row: row.mean)
    ahead = own.mean >= best.mean  # gaps of the table are to the highest mean
    gap, error = (-best.gap, best.gap_error) if ahead else (own.gap, own.gap_error)
    distance = "ahead" if ahead else f"{gap / error:+.1f}"
    return f"{own.mean:.3f} ± {own.error:.3f} | {best.attack} {best.mean:.3f} | {gap:+.3f} ± {error:.3f} | {distance}"


if __name__ == "__main__":
    main()
