"""This project's attacks beside other packages' on eight data sets: the tables of docs/results.md, section 9.

Trains the models of `untuned_problems.py` where OUT does not hold what they show, scores models as the target, each with
all others as references, by the attacks of `peer_packages.py` and by ours, keeps the figures in OUT and prints the tables.

    python benchmarks/eight_data_sets.py --root FOLDER --out OUT --sources SOURCES [--data german imdb ...] [--models 17]
        [--targets 17] [--without auto "SACRO-ML LiRA, fixed variance" ...] [--seed 0]

FOLDER holds the data sets as public mirrors give them, SOURCES checkouts of the packages' repositories; `pip install sacroml`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from attack_peers import figures
from peer_packages import OFFLINE, ONLINE, Models, Peer
from untuned_problems import kept_models, options

from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment import leave_one_out
from audit.experiment.attack_comparison import LEAST_NONMEMBERS
from audit.stats.spread import evenly

OURS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "online": {
        "auto": {"kind": "auto"},
        "lira": {"kind": "lira"},
        "rmia": {"kind": "rmia"},
        "learned_combination": {"kind": "learned_combination"},
    },
    "offline": {
        "auto": {"kind": "auto", "online": False},
        "rmia": {"kind": "rmia", "online": False, "temperature": 2.0},
        "lira": {"kind": "lira", "online": False},
    },
}
"""Offline no reference that trained on a record is used for it, and no temperature is fitted on coins."""
PEERS: Mapping[str, Mapping[str, Peer]] = {"online": ONLINE, "offline": OFFLINE}
FIGURES = ("AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--targets", type=int, default=17, help="models that are attacked, evenly spread")
    parser.add_argument("--without", nargs="*", default=[], help="attacks that are left out, ours or others'")
    chosen = parser.parse_args()
    for game in OURS:
        results = {name: measured(name, game, chosen) for name in chosen.data}
        print(f"\n## {game}\n\n{means(results)}\n\n{differences(game, results)}", flush=True)


def measured(name: str, game: str, chosen: argparse.Namespace) -> dict[str, Array]:
    """AUC and both TPRs `(targets, 3)` of every attack; a rate that too few nonmembers resolve is NaN."""
    arrays, _ = kept_models(name, chosen)
    path = chosen.out / f"peers-{game}-{name}-{chosen.models}-{chosen.targets}-{chosen.seed}.npz"
    results: dict[str, Array] = {}
    if path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            results = dict(stored)
    rows = evenly(chosen.models, chosen.targets)
    models = Models(logits=arrays["logits"].astype(np.float64), labels=arrays["labels"], included=arrays["included"])
    for attack, score in attacks(game, models, chosen, rows).items():
        if attack in results or attack.removeprefix("ours: ") in chosen.without:
            continue
        began = time.process_time()
        results[attack] = resolved(figures(score()), models)
        print(f"# {name} {game} {attack} {time.process_time() - began:.1f} CPU s", flush=True)
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, **results)  # type: ignore[arg-type]
        os.replace(temporary, path)
    return results


def attacks(
    game: str, models: Models, chosen: argparse.Namespace, rows: Array
) -> dict[str, Callable[[], leave_one_out.LeaveOneOut]]:
    """What scores the target models `rows` by each attack, ours first."""
    view = View.of(included=models.included, logits=models.logits.astype(np.float32))

    def own(spec: Mapping[str, object]) -> leave_one_out.LeaveOneOut:
        attack = plugins.build("attacks.scorers", dict(spec))
        return leave_one_out.leave_one_out(attack, view, models.labels, Seed(0), rows)

    def other(name: str, peer: Peer) -> leave_one_out.LeaveOneOut:
        score = peer(models, chosen.sources)
        values = np.stack([score(int(row)) for row in rows])
        if np.isnan(values).any():
            raise SystemExit(f"{name} gives {int(np.isnan(values).sum())} scores that are not a number")
        return leave_one_out.LeaveOneOut(values=values, included=models.included[rows], models=rows)

    ours = {f"ours: {name}": partial(own, spec) for name, spec in OURS[game].items()}
    return ours | {name: partial(other, name, peer) for name, peer in PEERS[game].items()}


def resolved(values: Array, models: Models) -> Array:
    """The figures, those NaN that too few nonmembers resolve."""
    nonmembers = int((~models.included).sum(axis=1).min())
    for place, least in enumerate(LEAST_NONMEMBERS.values(), start=1):
        if nonmembers < least:
            values[:, place] = np.nan
    return values


def means(results: Mapping[str, Mapping[str, Array]]) -> str:
    """One row an attack, one column a data set: the three figures' means."""
    lines = ["| attack (AUC / 1 % / 0.1 %) | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for attack in dict.fromkeys(name for rows in results.values() for name in rows):
        figures_by_data = [rows[attack].mean(axis=0) if attack in rows else np.full(3, np.nan) for rows in results.values()]
        lines.append(f"| {attack} | " + " | ".join(" / ".join(map(_number, values)) for values in figures_by_data) + " |")
    return "\n".join(lines)


def differences(game: str, results: Mapping[str, Mapping[str, Array]]) -> str:
    """Each of our attacks minus the strongest other package's, target by target: mean ± standard error."""
    lines = ["| data | figure | strongest of the others | " + " | ".join(OURS[game]) + " |"]
    lines.append("|---|---|---|" + "---|" * len(OURS[game]))
    for data, rows in results.items():
        for place, figure in enumerate(FIGURES):
            power = {peer: np.nan_to_num(rows[peer][:, place].mean(), nan=-1.0) for peer in PEERS[game] if peer in rows}
            if not power:
                continue
            best = max(power, key=lambda peer: power[peer])
            if np.isnan(rows[best][:, place]).any():
                continue
            ours = [rows.get(f"ours: {name}") for name in OURS[game]]
            cells = ["not run" if own is None else _difference(own[:, place] - rows[best][:, place]) for own in ours]
            lines.append(f"| {data} | {figure} | {best} ({_number(rows[best][:, place].mean())}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _difference(gap: Array) -> str:
    """Mean and standard error, in bold where it lies below zero by more than two of them."""
    mean, error = gap.mean(), gap.std(ddof=1) / len(gap) ** 0.5
    mark = "**" if mean < -2 * error else ""
    return f"{mark}{mean:+.4f} ± {error:.4f}{mark}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


if __name__ == "__main__":
    main()
