"""Attribute inference on real people: what a model shows of each sensitive column of Adult, German credit and Location-30.

Each column is redrawn, for records of the pool, from its law given the rest of the record, so that the chance of a right
guess without the model is known; then models are trained on the redrawn records, with and without DP-SGD, and the attack
names the value of largest likelihood. Prints a row a column, as docs/use/beyond-membership.md shows them. Reports are
read, not made again, if OUT has them already.

    python benchmarks/sensitive_columns.py --root FOLDER --out OUT [--data adult german location30]

FOLDER holds adult/, german_credit/ and location30/.
"""

from __future__ import annotations

import argparse
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

import audit
from audit.config.read import load as load_config
from reports.formats.json import from_json

EPSILON = 3.0
GERMAN = [
    "account",
    "duration",
    "history",
    "purpose",
    "amount",
    "savings",
    "employment",
    "rate",
    "status-sex",
    "debtors",
    "residence",
    "property",
    "age",
    "plans",
    "housing",
    "credits",
    "job",
    "dependants",
    "telephone",
    "foreign",
    "risk",
]
NUMBERS = {
    "duration": [4, 72], "amount": [0, 20000], "rate": [1, 4], "residence": [1, 4], "age": [18, 80], "credits": [1, 4],
    "dependants": [1, 2],
}  # fmt: skip
# data set: (name shown, attribute, values)
SENSITIVE: dict[str, list[tuple[str, Any, int]]] = {
    "adult": [
        ("income", "label", 2),
        ("age", "age", 4),
        ("marital status", "marital-status", 7),
        ("race", "race", 5),
        ("relationship", "relationship", 6),
        ("sex", "sex", 2),
    ],
    "german": [
        ("credit risk", "label", 2),
        ("age", "age", 4),
        ("status and sex", "status-sex", 5),
        ("foreign worker", "foreign", 2),
        ("savings", "savings", 5),
        ("credit history", "history", 5),
    ],
    "location30": [
        ("kind of user", "label", 30),
        ("commonest place", [0], 2),
        ("second place", [1], 2),
        ("third place", [2], 2),
    ],
}


def make_data_section(name: str, root: Path, out: Path) -> dict[str, Any]:
    """Return the `data` section of a config."""
    if name == "adult":
        adult: dict[str, Any] = load_config("beyond-membership-adult").config.model_dump(mode="json")["data"]
        return {**adult, "root": str(root)}
    if name == "german":
        names = [column for column in GERMAN[:-1] if column not in NUMBERS]
        table = {"kind": "table", "path": "german_credit/german.data.gz", "separator": " ", "columns": GERMAN, "label": "risk"}
        sizes = {"train": 200, "pool": 600, "test": 200}
        return {**table, "categorical": names, "ranges": NUMBERS, "root": str(root), **sizes}
    write_location30(root / "location30" / "dataset_location.tgz", out / "location30.npz")
    return {"kind": "npz", "path": "location30.npz", "root": str(out), "train": 1000, "pool": 2000, "test": 1000}


def write_location30(archive: Path, path: Path) -> None:
    """Write the table as arrays, the commonest places first."""
    with tarfile.open(archive) as members:
        stream = members.extractfile("bangkok")
        assert stream is not None
        text = stream.read().decode().replace('"', "")
    table = np.loadtxt(text.splitlines(), delimiter=",", dtype=np.int64)
    order = np.argsort(-table[:, 1:].mean(axis=0), kind="stable")
    np.savez(path, x=table[:, 1:][:, order].astype(np.float32), y=table[:, 0] - 1)


def make_config(name: str, attribute: Any, values: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return the audit of one column: 1,000 answers on models of 500 redrawn records each."""
    prior = "uniform" if attribute == "label" else "conditional"
    return {
        "version": 1,
        "name": f"sensitive-{name}",
        "title": f"Attribute inference on {name}",
        "seed": 20261122 << 64,  # shorter ones are refused
        "delta": 1e-5,
        "confidence": 0.95,
        "certificates": 0,
        "data": data,
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 100, "epochs": 60},
        "mechanisms": [
            {"name": "without-dp", "kind": "non_private"},
            {"name": "dp-sgd", "kind": "dp_sgd", "target_epsilon": EPSILON, "clip_norm": 1.0},
        ],
        "games": [
            {
                "name": "column",
                "access": "final_model",
                "adjacency": "replace_one",
                "canaries": {"kind": "redrawn_attribute", "attribute": attribute, "values": values, "prior": prior},
                "count": 500,
                "runs": 2,
                "references": 8,
                "scorers": [{"kind": "offset", "online": False}],
                "estimators": [{"kind": "one_run_secrets", "guess_fractions": [1.0]}],
            }
        ],
        "accountants": ["pld"],
        "output": {"formats": ["json"]},
    }


def make_row(column: str, values: int, report: audit.AuditReport) -> str:
    """Return a row of the table."""
    attacks = [mechanism.games[0].attacks[0] for mechanism in report.mechanisms]
    without, private = (attack.guesses for attack in attacks)
    assert without is not None and private is not None and private.allowed is not None
    shares = [f"{guesses.right / guesses.secrets:.1%}" for guesses in (without, private)]
    proven = " / ".join(f"{max(bound.epsilon for bound in attack.bounds):.2f}" for attack in attacks)
    return f"| {column} | {values} | {without.baseline:.1%} | {shares[0]} | {shares[1]} | {private.allowed:.1%} | {proven} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="+", choices=sorted(SENSITIVE), default=sorted(SENSITIVE))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.data:
        data = make_data_section(name, options.root, options.out)
        print(f"{name}\n| Column | Values | Without the release | Without DP-SGD | At epsilon {EPSILON:g} | Allowed | Proven |")
        for column, attribute, values in SENSITIVE[name]:
            folder = options.out / f"{name}-{column.replace(' ', '-')}"
            if not folder.is_dir():
                audit.run(make_config(name, attribute, values, data), output=folder)
            print(make_row(column, values, from_json((folder / "report.json").read_bytes())), flush=True)


if __name__ == "__main__":
    main()
