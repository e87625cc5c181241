"""How far `auto` stays behind the best attack of the folder, by numbers of references and canaries: docs/evidence/results.md.

On models that `eight_data_sets.py` or `untuned_data.py` left in OUT; they are trained if it holds none. Every row is one
number of references and one of canaries: `auto`, the attack with the highest mean, and their difference target by target.
Offline no attack uses a reference that trained on the canary that it scores.

    python benchmarks/auto_sweep.py --root FOLDER --out OUT [--data german ag_news ...] [--references 2 4 8 16]
        [--canaries 100 300 3000] [--targets 9] [--models 17] [--pool 10000] [--offline] [--without-inputs]
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace

import numpy as np
from untuned_data import CHOICE
from untuned_problems import kept_game, kept_models, options

from audit import plugins
from audit.core.evaluation import AttackFigure
from audit.core.protocols import Attack
from audit.core.views import View
from audit.experiment.external.attack_comparison import compare

FOLDER = "attacks.scorers"
FIXED: dict[str, dict[str, object]] = {"rmia": {"temperature": 2.0}}
"""Settings that are fitted on coins of references otherwise; offline there are none."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--references", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--canaries", type=int, nargs="*", default=[100, 300, 3000])
    parser.add_argument("--targets", type=int, default=9)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--without-inputs", action="store_true", help="show outputs alone, as files of recorded outputs do")
    chosen = parser.parse_args()
    attacks = offline() if chosen.offline else {name: plugins.build(FOLDER, {"kind": name}) for name in plugins.names(FOLDER)}
    print("| data | references | canaries | figure | `auto` | best other | gap target by target | gap in standard errors |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in chosen.data:
        arrays, _ = kept_models(name, chosen)
        order = np.random.default_rng(CHOICE).permutation(len(arrays["labels"]))
        for canaries in dict.fromkeys(min(count, len(order)) for count in chosen.canaries):
            view, labels = kept_game(name, chosen, order[:canaries])
            shown = outputs_alone(view) if chosen.without_inputs else view
            for references in chosen.references:
                began = time.process_time()
                table = compare(attacks, shown, labels, references=references, targets=chosen.targets).rows
                resolved = canaries >= 300  # below, no threshold has a false positive rate of 1 %
                figure = "tpr at 1% fpr" if resolved else "auc"
                rows = {row.attack: row for row in table if row.figure == figure}
                print(f"| {name} | {references} | {canaries} | {figure} | {cells(rows)} |", flush=True)
                print(f"# {time.process_time() - began:.0f} CPU s", flush=True)


def offline() -> dict[str, Attack]:
    """The attacks that have an offline form, and those that ask for no references; nothing is fitted on coins of canaries."""
    attacks: dict[str, Attack] = {}
    for name in plugins.names(FOLDER):
        settings = {field.name for field in dataclasses.fields(plugins.find(FOLDER, name))}
        form = {"kind": name} | ({"online": False} if "online" in settings else {}) | FIXED.get(name, {})
        attack = plugins.build(FOLDER, form)
        if "online" in settings or not attack.needs.references:
            attacks[name] = attack
    return attacks


def outputs_alone(view: View) -> View:
    return replace(view, signals={"logits": view["logits"]})


def cells(rows: dict[str, AttackFigure]) -> str:
    auto_row = rows["auto"]
    best = max((row for row in rows.values() if row.attack != "auto"), key=lambda row: row.mean)
    ahead = auto_row.mean >= best.mean  # gaps of the table are to the highest mean
    gap, error = (-best.gap, best.gap_error) if ahead else (auto_row.gap, auto_row.gap_error)
    distance = "ahead" if ahead else f"{gap / error:+.1f}"
    return f"{auto_row.mean:.3f} ± {auto_row.error:.3f} | {best.attack} {best.mean:.3f} | {gap:+.3f} ± {error:.3f} | {distance}"


if __name__ == "__main__":
    main()
