"""Write docs/evidence/zoo.md and its figure: what refutes each entry of the zoo, and the power of each audit against its cost.

    python benchmarks/zoo_page.py -o docs/evidence/zoo.md [--keep FOLDER] [ENTRY...]

Trains with every step. With `--keep` what trainings proved is stored, and taken from there while the code stays the same.
"""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from zoo_trainings import AUDITS, CANARIES, MANY_RUNS, RUNS, Proof, prove

from audit import plugins
from audit.execution import code
from audit.zoo._survey import LOOP, LOOP_PLAN, LOOPS, PLAN, RELEASE, STEP, STEPS, Entry, claim_epsilon, folders, survey

Proofs = Mapping[str, Sequence[Proof]]  # of audits that train, by the name of a step


def _read_parts() -> dict[str, str]:
    """Return the texts of page.md by name; each begins after a line of `%%` and its name."""
    text = Path(__file__).with_name("zoo_page.md").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("%% ")[1:])
    return {name: content for name, _, content in parts}


def is_worth_double(entry: Entry) -> bool:
    """Return whether the entry is worth twice its claim: a step by its upper bound, what is bracketed by the lower end."""
    return bool(entry.wrong) and entry.truth[entry.audit == STEP] >= 2 * entry.claim


def refutations(entry: Entry, proofs: Proofs) -> dict[str, bool]:
    """Return which audits refute the claim, the checks first."""
    trained = {proof.audit: proof.epsilon > entry.claim for proof in proofs.get(entry.name, ())}
    return {entry.audit: bool(entry.checks)} | trained


def page(entries: Sequence[Entry], proofs: Proofs) -> str:
    """Return docs/evidence/zoo.md; without the part on power if no audit trained."""
    steps, loops, releases = ([entry for entry in entries if entry.audit == audit] for audit in (STEP, LOOP, RELEASE))
    double = [entry for entry in steps if is_worth_double(entry)]
    hits = [refutations(entry, proofs) for entry in double]
    double_hits = [row for row in hits if any(hit for audit, hit in row.items() if audit != MANY_RUNS)]
    beside = [entry for entry in (*loops, *releases) if is_worth_double(entry)]
    beside_hits = [entry for entry in beside if entry.checks]
    texts = _read_parts()
    head = texts["head"].format(
        summary="".join(
            _summary(title, group) for title, group in (("steps", steps), ("loops", loops), ("releases", releases))
        ),
        double=len(double),
        caught=len(double_hits),
        share=len(double_hits) / max(1, len(double)),
        beside=len(beside),
        beside_caught=len(beside_hits),
        beside_share=len(beside_hits) / max(1, len(beside)),
        steps=PLAN.steps,
        rate=PLAN.sample_rate,
        claim=claim_epsilon(PLAN.noise_multiplier),
        delta=PLAN.delta,
        divisor=PLAN.divisor,
    )
    rows = [entry for entry in steps if entry.name in proofs]
    loops_text = (
        texts["loops"]
        .rstrip("\n")
        .format(
            records=LOOP_PLAN.records,
            noise=LOOP_PLAN.noise_multiplier,
            batch=LOOP_PLAN.batch_size,
            steps=LOOP_PLAN.steps,
            delta=LOOP_PLAN.delta,
            shuffled=len(plugins.find(LOOPS, "shuffled_batches")().batches(LOOP_PLAN, np.random.default_rng(0))[0]),
        )
    )
    parts = [head, *map(_row, steps)]
    for title, text, group in (("Loops", loops_text, loops), ("Releases", texts["releases"].rstrip("\n"), releases)):
        if group:
            parts += [texts["table"].format(title=title, text=text), *map(_other_row, group)]
    return "".join([*parts, _power(texts["power"], rows, proofs) if rows else "", texts["tail"].format(canaries=CANARIES)])


def _summary(title: str, entries: Sequence[Entry]) -> str:
    """Return one row on the entries of a kind, or nothing if there are none."""
    if not entries:
        return ""
    wrong = [entry for entry in entries if entry.wrong]
    accusations = sum(bool(entry.checks) for entry in entries if not entry.wrong)
    longest = max(entry.seconds for entry in entries)
    refutations = f"{sum(bool(entry.checks) for entry in wrong)} of {len(wrong)}"
    return f"| {title} | {entries[0].audit} | {refutations} | {accusations} of {len(entries) - len(wrong)} | {longest:.2g} |\n"


def _other_row(entry: Entry) -> str:
    low, high = (_epsilon(end) for end in entry.truth)
    truth = low if low == high else f"{low} to {high}"
    checks = ", ".join(entry.checks) or "none"
    defect = entry.wrong or "nothing"
    return (
        f"| `{entry.name}` | {defect} | {entry.visibility} | {entry.claim:.3g} | {truth} | {checks} | {entry.seconds:.2g} |\n"
    )


def _epsilon(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _row(entry: Entry) -> str:
    checks = ", ".join(entry.checks) or "none"
    return f"| `{entry.name}` | {entry.wrong or 'nothing'} | {entry.visibility} | {_epsilon(entry.truth[1])} | {checks} |\n"


def _power(text: str, entries: Sequence[Entry], proofs: Proofs) -> str:
    head = text.format(
        canaries=CANARIES,
        runs=RUNS,
        delta=PLAN.delta,
        claim=claim_epsilon(PLAN.noise_multiplier),
        audits=" | ".join((STEP, *AUDITS)),
        rule="|".join("---" for _ in (STEP, *AUDITS)),
    )
    rows = [f"| `{entry.name}` | {' | '.join(_cells(entry, proofs))} |\n" for entry in entries]
    costs = [f"{seconds:.2g}" for _, seconds, _ in power(entries, proofs)]
    shares = [f"{share:.0%}" for _, _, share in power(entries, proofs)]
    return (
        head + "".join(rows) + f"| wrong steps refuted | {' | '.join(shares)} |\n| median CPU seconds | {' | '.join(costs)} |\n"
    )


def _cells(entry: Entry, proofs: Proofs) -> list[str]:
    hits, epsilons = refutations(entry, proofs), {proof.audit: proof.epsilon for proof in proofs[entry.name]}
    cells = ["**refuted**" if entry.checks else "passed"]
    for audit in AUDITS:
        value = f"{epsilons[audit]:.2f}" if audit in epsilons else "-"
        cells.append(f"**{value}**" if hits.get(audit) else value)
    return cells


def power(entries: Sequence[Entry], proofs: Proofs) -> list[tuple[str, float, float]]:
    """Return for each audit its name, the median of its CPU seconds, and the share of wrong steps that it refutes."""
    rows = []
    for audit in (STEP, *AUDITS):
        hits = [(entry, row[audit]) for entry in entries if audit in (row := refutations(entry, proofs))]
        costs = sorted(entry.seconds if audit == STEP else _proof_seconds(proofs[entry.name], audit) for entry, _ in hits)
        wrong = [hit for entry, hit in hits if entry.wrong]
        if wrong:
            rows.append((audit, costs[len(costs) // 2], sum(wrong) / len(wrong)))
    return rows


def _proof_seconds(proofs: Sequence[Proof], audit: str) -> float:
    return next(proof.seconds for proof in proofs if proof.audit == audit)


def draw(points: Sequence[tuple[str, float, float]], path: Path) -> None:
    """Write a figure with one point for each audit.

    Args:
        points: name, CPU seconds, and the share of wrong steps that the audit refutes.
        path: of the image; its folder is made.
    """
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, seconds, share in points:
        axes.plot(seconds, 100 * share, "o", color="#1f4e79")
        axes.annotate(name.strip("`"), (seconds, 100 * share), xytext=(6, 6), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", ylim=(-5, 112), xlabel="CPU seconds per entry (median)", ylabel="wrong steps refuted (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def train(name: str, folder: Path | None) -> list[Proof]:
    """Return what audits that train prove of a step, from `folder` if the same code left it there."""
    file = None if folder is None else folder / f"{name}-{code.digest()[:12]}.json"
    if file is not None and file.is_file():
        return [Proof(**row) for row in json.loads(file.read_text("utf-8"))]
    print(f"  {name}", file=sys.stderr)
    proofs = prove(plugins.find(STEPS, name)(), PLAN)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([dataclasses.asdict(proof) for proof in proofs]), "utf-8")
    return proofs


def main() -> None:
    """Write the page and its figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ENTRY", help="entries of the page; default: all")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page; its figure comes into ../images")
    parser.add_argument("--keep", type=Path, help="folder for what trainings proved")
    arguments = parser.parse_args()
    entries = survey(arguments.names)
    proofs = {entry.name: train(entry.name, arguments.keep) for entry in entries if folders()[entry.name] == STEPS}
    figure_folder = arguments.output.absolute().parents[1] / "images"  # as the page links to it
    draw(power(entries, proofs), figure_folder / "zoo.png")
    arguments.output.write_text(page(entries, proofs), encoding="utf-8")


if __name__ == "__main__":
    main()
