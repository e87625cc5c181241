"""Each kind of text canary without privacy, at epsilon 8 and at epsilon 2: writes the table of docs/language-models.md.

    OMP_NUM_THREADS=1 python benchmarks/language_models.py [--coins new_token random_tokens ...]

A GPT-2 of two layers from scratch on made-up sentences, as in the quickstart; needs the extra `llm`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import audit
from audit.core.game_results import AttackResult
from audit.core.results import AuditReport

START, END = "<!-- table of benchmarks/language_models.py -->", "<!-- end of the table -->"
COINS = ("new_token", "rare_bigrams", "random_tokens", "formatted_secret", "held_out")
SECRET = {"kind": "redrawn_secret", "length": 1}
DATA = {"kind": "sentences", "count": 1200, "length": 32, "unused_tokens": 250, "train": 500, "pool": 500, "test": 200}
EPSILONS = (None, 8, 2)
HEADER = """| Canary | Claimed | AUC | TPR at 1 % | Exposure (by chance) | Proven epsilon | Ceiling | Perplexity |
|---|---|---|---|---|---|---|---|
"""


def config(games: list[dict[str, Any]]) -> dict[str, Any]:
    """The quickstart's model and data with these games on all three trainings."""
    private = {"kind": "dp_sgd", "clip_norm": 1.0, "trainer": "language_model", "training": {"batch_size": 192, "steps": 50}}
    mechanisms = [
        {"name": "none", "kind": "non_private", "trainer": "language_model"}
        if epsilon is None
        else {"name": f"{epsilon:g}", "target_epsilon": epsilon, **private}
        for epsilon in EPSILONS
    ]
    return {
        "version": 1,
        "name": "language-models",
        "title": "Text canaries",
        "seed": 20261122,
        "delta": 1e-5,
        "certificates": 0,
        "data": {
            "kind": "sentences",
            "count": 1200,
            "length": 32,
            "unused_tokens": 250,
            "train": 500,
            "pool": 500,
            "test": 200,
        },
        "model": {"kind": "language_model", "architecture": "gpt2", "options": {"n_layer": 2, "n_embd": 64, "n_head": 2}},
        "training": {"optimizer": "adamw", "learning_rate": 0.003, "batch_size": 64, "steps": 120},
        "mechanisms": mechanisms,
        "games": games,
        "accountants": ["pld"],
        "output": {"formats": ["json"]},
    }


def game(name: str, canaries: Any, count: int, estimator: str) -> dict[str, Any]:
    """One kind of canary, scored by the loss before training less the loss after it."""
    adjacency = {"adjacency": "replace_one"} if estimator == "one_run_secrets" else {}
    return {
        "name": name,
        "access": "log_probabilities",
        "canaries": canaries,
        "count": count,
        "scorers": ["reference_difference"],
        "estimators": [estimator],
        **adjacency,
    }


def rows(report: AuditReport) -> list[str]:
    """One row a game and training."""
    lines = []
    for mechanism in report.mechanisms:
        claimed = "none" if not mechanism.claims else f"{mechanism.claims[0].epsilon:.2f}"
        perplexity = next(metric.value for metric in mechanism.utility if metric.name == "perplexity")
        for result in mechanism.games:
            (attack,) = result.attacks
            (bound,) = attack.bounds
            figures = f"{bound.epsilon:.2f} | {bound.ceiling:.2f} | {perplexity:.1f}"
            lines.append(f"| {result.name} | {claimed} | {_rates(attack)} | {figures} |")
    return sorted(lines, key=lambda line: line.split("|")[1])


def _rates(attack: AttackResult) -> str:
    guesses = attack.guesses
    if guesses is not None and guesses.exposure is not None:
        return f"- | - | {guesses.exposure:.2f} ({guesses.null_exposure:.2f})"
    rate = next(point.tpr for point in attack.tpr_at if point.target_fpr == 0.01)
    return f"{attack.auc:.3f} | {'-' if rate is None else f'{rate:.3f}'} | -"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=250, help="canaries of each kind")
    parser.add_argument("--coins", nargs="+", default=COINS, help="kinds of canaries that are in or out by coins")
    parser.add_argument("--docs", type=Path, default=Path("docs/language-models.md"))
    options = parser.parse_args()
    page = options.docs.read_text(encoding="utf-8")
    if START not in page or END not in page:
        parser.error(f"{options.docs} lacks the lines '{START}' and '{END}' that the table stands between")
    start = time.process_time()
    coins = [game(name.replace("_", "-"), name, options.count, "one_run") for name in options.coins]
    secrets = [game("redrawn-secret", SECRET, options.count, "one_run_secrets")]
    lines = [row for games in (coins, secrets) for row in rows(audit.run(config(games)))]
    table = HEADER + "\n".join(lines)
    print(table)
    print(f"{time.process_time() - start:.0f} s of processor time")
    before, after = page.split(START)[0], page.split(END)[1]
    options.docs.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
