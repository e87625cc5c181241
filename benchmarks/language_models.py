"""Each kind of text canary without privacy, at epsilon 8 and at epsilon 2: writes the tables of docs/use/language-models.md.

    OMP_NUM_THREADS=1 python benchmarks/language_models.py --texts ag_news/test.csv.gz --column 2

A GPT-2 and a LLaMA of two layers from scratch on real texts (on made-up sentences without `--texts`), with the steps of the
quickstart; needs the extra `llm`. Each row is one audit, kept in `--store` as soon as it is done; a second call continues
there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import audit
from audit.core.game_results import AttackResult
from audit.core.results import AuditReport

COINS = (
    "new_token",
    "searched_token",
    "rare_bigrams",
    "random_tokens",
    "unlikely_suffix",
    "formatted_secret",
    "held_out",
)
SECRET = {"kind": "redrawn_secret", "length": 1}
EPSILONS = (None, 8, 2)
COUNTS = (125, 250, 500, 1000)
SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 2},
    "llama": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
}
COLUMNS = "Claimed | AUC | TPR at 1 % | Exposure (by chance) | Proven epsilon | Ceiling | Perplexity | Processor s |"
RULE = "|---" * 9 + "|"
PRIVATE = {"kind": "dp_sgd", "clip_norm": 1.0, "trainer": "language_model", "training": {"batch_size": 192, "steps": 50}}


def config(data: dict[str, Any], shape: str, epsilon: float | None, game: dict[str, Any]) -> dict[str, Any]:
    """One audit: a shape, a training and a game."""
    mechanism = (
        {"name": "none", "kind": "non_private", "trainer": "language_model"}
        if epsilon is None
        else {"name": "private", "target_epsilon": epsilon, **PRIVATE}
    )
    return {
        "version": 1,
        "name": "language-models",
        "title": "Text canaries",
        "seed": 20261122 << 64,  # shorter ones are refused
        "delta": 1e-5,
        "certificates": 0,
        "data": {**data, "unused_tokens": game["count"]},
        "model": {"kind": "language_model", "architecture": shape, "options": SHAPES[shape]},
        "training": {"optimizer": "adamw", "learning_rate": 0.003, "batch_size": 64, "steps": 120},
        "mechanisms": [mechanism],
        "games": [game],
        "accountants": ["pld"],
        "output": {"formats": ["json"]},
    }


def game(canaries: Any, count: int) -> dict[str, Any]:
    """One kind of canary, scored by the loss before training less the loss after it."""
    secret = isinstance(canaries, dict)
    return {
        "name": canaries["kind"] if secret else canaries,
        "access": "log_probabilities",
        "canaries": canaries,
        "count": count,
        "scorers": ["reference_difference"],
        "estimators": ["one_run_secrets" if secret else "one_run"],
        **({"adjacency": "replace_one"} if secret else {}),
    }


def figures(report: AuditReport, seconds: float) -> str:
    """The row of an audit, without its first column."""
    (mechanism,) = report.mechanisms
    ((attack,),) = (result.attacks for result in mechanism.games)
    (bound,) = attack.bounds
    claimed = "none" if not mechanism.claims else f"{mechanism.claims[0].epsilon:.2f}"
    perplexity = next(metric.value for metric in mechanism.utility if metric.name == "perplexity")
    proven = f"{bound.epsilon:.2f} | {bound.ceiling:.2f} | {perplexity:.1f} | {seconds:.0f}"
    return f"{claimed} | {_rates(attack)} | {proven} |"


def _rates(attack: AttackResult) -> str:
    guesses = attack.guesses
    if guesses is not None and guesses.exposure is not None:
        return f"- | - | {guesses.exposure:.2f} ({guesses.null_exposure:.2f})"
    rate = next(point.tpr for point in attack.tpr_at if point.target_fpr == 0.01)
    return f"{attack.auc:.3f} | {'-' if rate is None else f'{rate:.3f}'} | -"


def measured(store: Path, data: dict[str, Any], shape: str, epsilon: float | None, rules: dict[str, Any]) -> str:
    """The figures of one audit, from the store if they are there."""
    key = f"{shape}-{epsilon}-{rules['name']}-{rules['count']}"
    rows = json.loads(store.read_text()) if store.is_file() else {}
    if key not in rows:
        start = time.process_time()
        report = audit.run(config(data, shape, epsilon, rules))
        rows[key] = figures(report, time.process_time() - start)
        store.write_text(json.dumps(rows, indent=1))
        print(key, rows[key], flush=True)
    return str(rows[key])


def replaced(page: str, name: str, table: str) -> str:
    """The page with another table between the marks of that name."""
    start, end = f"<!-- {name} of benchmarks/language_models.py -->", f"<!-- end of the {name} -->"
    if start not in page or end not in page:
        raise SystemExit(f"the page lacks the lines '{start}' and '{end}' that the table stands between")
    return f"{page.split(start, maxsplit=1)[0]}{start}\n\n{table}\n\n{end}{page.split(end)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", help="file of texts; made-up sentences without it")
    parser.add_argument("--column", default="text", help="of the text in that file")
    parser.add_argument("--count", type=int, default=250, help="canaries of each kind")
    parser.add_argument("--coins", nargs="+", default=COINS, help="kinds of canaries that are in or out by coins")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--store", type=Path, default=Path("language-models.json"), help="rows that are done")
    parser.add_argument("--docs", type=Path, default=Path("docs/use/language-models.md"))
    options = parser.parse_args()
    page = options.docs.read_text(encoding="utf-8")
    data: dict[str, Any] = {"kind": "sentences", "count": 3000}
    if options.texts:
        data = {"kind": "text", "path": options.texts, "column": options.column}
    data |= {"length": 32, "train": 500, "pool": 1000, "test": 200}
    rules = [game(name, options.count) for name in options.coins] + [game(SECRET, options.count)]
    lines = [f"| Model | Canary | {COLUMNS}", RULE + "---|"]
    for shape in options.shapes:
        for rule in rules:
            for epsilon in EPSILONS:
                lines.append(f"| {shape} | {rule['name']} | {measured(options.store, data, shape, epsilon, rule)}")
    page = replaced(page, "table", "\n".join(lines))
    lines = [f"| Canaries | {COLUMNS}", RULE]
    for count in COUNTS:
        for epsilon in EPSILONS[:2]:
            row = measured(options.store, data, options.shapes[0], epsilon, game("new_token", count))
            lines.append(f"| {count} | {row}")
    options.docs.write_text(replaced(page, "counts", "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
