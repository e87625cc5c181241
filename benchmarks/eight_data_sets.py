"""This project's attacks beside other packages' on eight data sets: the tables of docs/evidence/results.md.

Trains the models of `untuned_problems.py` if OUT does not hold their outputs, scores models as the target, each with
all others as references, by our attacks, and prints the tables. Figures of other packages on these models are read from
`eight_data_sets_peers.csv`; if SOURCES is given, their own code scores the models again (`peer_packages.py`).

    python benchmarks/eight_data_sets.py --root FOLDER --out OUT [--data german imdb ...] [--targets 17] [--without lira ...]
    pip install sacroml fpdf2; python benchmarks/eight_data_sets.py --root FOLDER --out OUT --sources SOURCES [--store]
        [--models 17] [--seed 0]

FOLDER holds the data sets as public mirrors give them, SOURCES checkouts of the packages' repositories.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from attack_peers import figures
from peer_packages import OFFLINE, ONLINE, Models, Peer
from stored_peers import FIGURES, store, stored
from untuned_problems import kept_game, options, stem

import attacks
import audit.stats
from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.experiment.describe import leave_one_out
from audit.experiment.external.attack_comparison import LEAST_NONMEMBERS
from audit.stats.spread import evenly

OURS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "online": {
        "auto": {"kind": "auto"},
        "lira": {"kind": "lira"},
        "rmia": {"kind": "rmia"},
        "learned_combination": {"kind": "learned_combination"},
        "near_records": {"kind": "near_records"},
    },
    "offline": {
        "auto": {"kind": "auto", "online": False},
        "rmia": {"kind": "rmia", "online": False, "temperature": 2.0},
        "lira": {"kind": "lira", "online": False},
    },
}
"""Offline no reference that trained on a record is used for it, and no temperature is fitted on coins."""
PEERS: Mapping[str, Mapping[str, Peer]] = {"online": ONLINE, "offline": OFFLINE}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sources", type=Path, default=None, help="checkouts: other packages score the models again")
    parser.add_argument("--store", action="store_true", help="keep what they find beside this file")
    parser.add_argument("--games", nargs="*", choices=list(OURS), default=list(OURS))
    parser.add_argument("--targets", type=int, default=17, help="models that are attacked, evenly spread")
    parser.add_argument("--without", nargs="*", default=[], help="attacks that are left out, ours or others'")
    chosen = parser.parse_args()
    if chosen.store and (chosen.sources is None or chosen.targets < chosen.models):
        parser.error("--store keeps what other packages find on all models; give --sources and no smaller --targets")
    for game in chosen.games:
        results = {name: measured(name, game, chosen) for name in chosen.data}
        print(f"\n## {game}\n\n{means(results)}\n\n{differences(game, results)}", flush=True)


def measured(name: str, game: str, chosen: argparse.Namespace) -> dict[str, Array]:
    """AUC and both TPRs `(targets, 3)` of every attack, ours first; a rate that too few nonmembers resolve is NaN."""
    view, labels = kept_game(name, chosen)
    models = Models(logits=np.asarray(view["logits"], np.float64), labels=labels, included=np.asarray(view.included, bool))
    rows = evenly(chosen.models, chosen.targets)

    def score_ours(spec: Mapping[str, object]) -> leave_one_out.LeaveOneOut:
        attack = plugins.build("attacks.scorers", dict(spec))
        return leave_one_out.leave_one_out(attack, view, labels, Seed(0), rows)

    ours = {f"ours: {attack}": partial(score_ours, spec) for attack, spec in OURS[game].items() if attack not in chosen.without}
    path = chosen.out / f"ours-{game}-{stem(name, chosen)}-{chosen.targets}-{version()}.npz"
    results = kept_figures(path, ours, models)
    peers = other_packages(name, game, chosen, models, rows)
    return results | {attack: values for attack, values in peers.items() if attack not in chosen.without}


def other_packages(name: str, game: str, chosen: argparse.Namespace, models: Models, rows: Array) -> dict[str, Array]:
    """What others find: as stored, or by their own code if their sources are there."""
    probability = models.true_probability.mean(axis=1)
    if chosen.sources is None:
        return {attack: values[rows] for attack, values in stored(game, name, probability).items()}

    def score(attack: str, peer: Peer) -> leave_one_out.LeaveOneOut:
        item = peer(models, chosen.sources)
        values = np.stack([item(int(row)) for row in rows])
        if np.isnan(values).any():
            raise SystemExit(f"{attack} gives {int(np.isnan(values).sum())} scores that are not a number")
        return leave_one_out.LeaveOneOut(values=values, included=models.included[rows], models=rows)

    peers = {attack: partial(score, attack, peer) for attack, peer in PEERS[game].items() if attack not in chosen.without}
    results = kept_figures(chosen.out / f"peers-{game}-{stem(name, chosen)}-{chosen.targets}.npz", peers, models)
    if chosen.store:
        store(game, name, probability, results)
    return results


def kept_figures(
    path: Path, attacks: Mapping[str, Callable[[], leave_one_out.LeaveOneOut]], models: Models
) -> dict[str, Array]:
    """The figures of each attack, those taken from the file that it holds."""
    results: dict[str, Array] = {}
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            results = dict(file)
    for attack, score in attacks.items():
        if attack in results:
            continue
        began = time.process_time()
        results[attack] = resolved(figures(score()), models)
        print(f"# {path.stem} {attack} {time.process_time() - began:.1f} CPU s", flush=True)
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, **results)  # type: ignore[arg-type]
        os.replace(temporary, path)
    return {attack: results[attack] for attack in attacks}


def version() -> str:
    """Which code our attacks are: figures of another are not taken from OUT."""
    digest = hashlib.sha256()
    for module in (attacks, audit.stats):
        for file in sorted(Path(module.__path__[0]).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


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
            cells = ["not run" if values is None else _difference(values[:, place] - rows[best][:, place]) for values in ours]
            lines.append(f"| {data} | {figure} | {best} ({_number(rows[best][:, place].mean())}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _difference(gap: Array) -> str:
    """Mean and standard error, in bold if it is below zero by more than two of them."""
    mean, error = gap.mean(), gap.std(ddof=1) / len(gap) ** 0.5
    mark = "**" if mean < -2 * error else ""
    return f"{mark}{mean:+.4f} ± {error:.4f}{mark}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


if __name__ == "__main__":
    main()
