"""Attacks that ask for more than a record's outputs, on the models of `untuned_problems.py`: docs/evidence/results.md.

Trains the models, reads what each attack looks at, scores every model once with all others as references; prints AUC and TPR
of each attack and its difference from a fixed one, target by target: mean ± standard error.

    python benchmarks/newer_attacks.py --root FOLDER --out OUT [--data german ...] [--models 17] [--seed 0] [--canaries 1000]
        [--attacks label_only noise_robustness ...] [--minus label_only]
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from attack_peers import figures
from untuned_problems import make_problem, options, trained

from audit import plugins
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe import leave_one_out

ATTACKS: Mapping[str, Mapping[str, object]] = {
    "auto": {"kind": "auto"},
    "learned_combination": {"kind": "learned_combination"},
    "near_records": {"kind": "near_records"},
    "loss": {"kind": "loss"},
    "label_only": {"kind": "label_only"},
    "label_only, calibrated": {"kind": "label_only", "calibrated": True},
    "boundary": {"kind": "boundary"},
    "boundary, calibrated": {"kind": "boundary", "calibrated": True},
    "noise_robustness, alone": {"kind": "noise_robustness", "calibrated": False},
    "noise_robustness": {"kind": "noise_robustness"},
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--canaries", type=int, default=1000, help="records that are attacked")
    parser.add_argument("--attacks", nargs="*", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--minus", choices=list(ATTACKS), default="label_only, calibrated")
    chosen = parser.parse_args()
    names = dict.fromkeys((chosen.minus, *chosen.attacks))
    attacks = {name: plugins.build("attacks.scorers", dict(ATTACKS[name])) for name in names}
    print(f"| data | attack | AUC | TPR at 1 % FPR | AUC minus {chosen.minus} | TPR minus it |\n|---|---|---|---|---|---|")
    for name in chosen.data:
        seed = Seed(chosen.seed).child(name)
        job, subject = trained(make_problem(name, chosen), chosen.root, chosen.models, seed)
        columns = np.sort(np.random.default_rng(5).permutation(len(job.dataset.pool))[: chosen.canaries])
        canaries = Canaries(
            kind="held_out", description="some records", payload=CanaryRecords(records=job.dataset.pool.take(columns))
        )
        base: Array | None = None
        for attack_name, attack in attacks.items():
            began = time.process_time()
            needs = attack.needs
            observed = subject.read(needs.signals | needs.optional, canaries)
            models = View.of(included=job.included[:, columns], **observed)
            result = leave_one_out.leave_one_out(attack, models, job.dataset.pool.labels[columns], Seed(0))
            values = figures(result)[:, :2]
            base = values if base is None else base
            cells = [_cell(values[:, 0]), _cell(values[:, 1]), *(_cell(column, "+") for column in (values - base).T)]
            print("| " + " | ".join([name, attack_name, *cells]) + " |", flush=True)
            print(f"# {name} {attack_name} {time.process_time() - began:.1f} CPU s", flush=True)


def _cell(values: Array, sign: str = "") -> str:
    return f"{values.mean():{sign}.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
