"""Correct federations of twelve kinds, audited on many seeds: how often one of them is refuted or called invalid.

    python benchmarks/federated_twins.py --seeds 30 --out twins.jsonl

Each audit plays the games of quickstart-federated that find wrong trainers, on a smaller model. Audits are not made
again if the file has them. A refutation of a correct training has at most the chance that the confidence leaves, 5 % of an
audit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from audit.config import parse
from audit.core.claims import Outcome
from audit.core.results import Status
from audit.execution.store import Store
from audit.experiment.line import assemble, run

CONFIG = """
version: 1
name: twins
seed: {seed}
delta: 1e-5
data: {{kind: digits, train: 200, pool: 20, test: 100}}
model: {{kind: logistic}}
training: {{optimizer: sgd, learning_rate: 1.0, sample_rate: 0.5, steps: 12}}
mechanisms:
  - name: fed
    kind: federated
    clients: 20
    noise: central
    noise_multiplier: 3.0
    trainer: {{kind: federated, local_steps: 1}}
games:
  - {{name: cosines, canaries: signed_cosine, count: 250, scorers: [{product}, {{kind: round_spread, view: {view}}}], {common}}}
  - name: coordinates
    canaries: single_coordinate
    count: 250
    scorers: [{{kind: round_exactness, view: {view}}}, {{kind: round_extreme, view: {view}}}]
    {common_lines}
  - {{name: tensors, canaries: single_tensor, count: 250, scorers: [{product}, {{kind: round_exactness, view: {view}}}],
     {common}}}
  - {{name: nan, canaries: non_finite, count: 150, scorers: [{product}], {common}}}
  - {{name: beside, canaries: {{kind: non_finite, beside: 100}}, count: 1, runs: 25, scorers: [{product}], {common}}}
{lengths}
accountants: [pld]
certificates: 0
"""
LENGTHS = """
  - {{name: lengths, canaries: non_finite, count: 1, runs: 25, scorers: [{{kind: round_total, view: lengths}}], {common}}}
"""
FULL = "training.sample_rate=1"
TWINS: dict[str, tuple[str, ...]] = {
    "as in the quickstart": (),
    "every client in every round": (FULL,),
    "momentum": ("training.optimizer={kind: sgd, momentum: 0.9}",),
    "a small server step": ("training.learning_rate=0.1",),
    "much noise": ("mechanisms.fed.noise_multiplier=12",),
    "little noise": ("mechanisms.fed.noise_multiplier=1",),
    "a small clip norm": ("mechanisms.fed.clip_norm=0.01",),
    "clients weighted by records": ("mechanisms.fed.trainer.example_cap=15",),
    "fixed cohorts": (FULL, "mechanisms.fed.cohorts=4"),
    "noise of the clients": (FULL, "mechanisms.fed.noise=local"),
    "shared noise, a third drops out": (FULL, "mechanisms.fed.noise=distributed", "mechanisms.fed.dropout=0.3"),
    "adaptive clip norm": ("mechanisms.fed.adaptive_clip={quantile: 0.5, rate: 0.2, share: 0.1}",),
}


def audit(twin: str, seed: int) -> str:
    """Return "refuted", "invalid: CHECKS" or "consistent"."""
    overrides = TWINS[twin]
    is_sum = any("noise=local" in override or "noise=distributed" in override for override in overrides)
    common = {
        "access": "secure_sum" if is_sum else "released_models",
        "adjacency": "zero_out",
        "estimators": "[{kind: fdp_rank, statistic: rank}]",
    }
    common_words = ", ".join(f"{key}: {value}" for key, value in common.items())
    text = CONFIG.format(
        seed=seed,
        product="sum_product" if is_sum else "model_product",
        view="sums" if is_sum else "models",
        common=common_words,
        lengths="" if is_sum else LENGTHS.format(common=common_words),
        common_lines="\n    ".join(f"{key}: {value}" for key, value in common.items()),
    )
    resolved = parse(text, overrides)
    with tempfile.TemporaryDirectory() as folder:
        results, _ = run.run(assemble.assemble(resolved.config), Store.start(Path(folder) / "run", resolved.sha256))
    if any(result.outcome is Outcome.VIOLATED for result in results):
        return "refuted"
    failed = sorted({check.code for result in results for check in result.checks if check.status is Status.FAILED})
    return f"invalid: {', '.join(failed)}" if failed else "consistent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {(row["twin"], row["seed"]): row["outcome"] for row in rows}
    with options.out.open("a") as file:
        for seed in range(1000, 1000 + options.seeds):
            for twin in TWINS:
                if (twin, seed) not in known:
                    known[twin, seed] = audit(twin, seed)
                    file.write(json.dumps({"twin": twin, "seed": seed, "outcome": known[twin, seed]}) + "\n")
                    file.flush()
    counts = Counter((twin, outcome) for (twin, _), outcome in known.items())
    print("| correct training | audits | consistent | refuted | invalid |\n|---|---|---|---|---|")
    for twin in TWINS:
        outcomes = {outcome: count for (name, outcome), count in counts.items() if name == twin}
        consistent, refuted, total = outcomes.get("consistent", 0), outcomes.get("refuted", 0), sum(outcomes.values())
        print(f"| {twin} | {total} | {consistent} | {refuted} | {total - consistent - refuted} |")


if __name__ == "__main__":
    main()
