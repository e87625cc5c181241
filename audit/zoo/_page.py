"""docs/evidence/zoo.md and its figure: each entry with what refutes it, and the power of each audit against its cost."""

import importlib.resources
import math
from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.zoo._survey import LOOP, LOOP_PLAN, LOOPS, PLAN, RELEASE, STEP, Entry, claim_epsilon
from audit.zoo._trainings import AUDITS, CANARIES, MANY_RUNS, RUNS


def _read_parts() -> dict[str, str]:
    """Return the texts of page.md by name; each begins after a line of `%%` and its name."""
    text = (importlib.resources.files("audit.zoo") / "page.md").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("%% ")[1:])
    return {name: content for name, _, content in parts}


def page(entries: Sequence[Entry]) -> str:
    """Return docs/evidence/zoo.md; without the part on power if no audit trained."""
    steps, loops, releases = ([entry for entry in entries if entry.audit == audit] for audit in (STEP, LOOP, RELEASE))
    double = [entry for entry in steps if entry.doubles]
    double_hits = [entry for entry in double if any(hit for audit, hit in entry.refutations().items() if audit != MANY_RUNS)]
    beside = [entry for entry in (*loops, *releases) if entry.doubles]
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
    rows = [entry for entry in steps if entry.proofs]
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
    return "".join([*parts, _power(texts["power"], rows) if rows else "", texts["tail"].format(canaries=CANARIES)])


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


def _power(text: str, entries: Sequence[Entry]) -> str:
    head = text.format(
        canaries=CANARIES,
        runs=RUNS,
        delta=PLAN.delta,
        claim=claim_epsilon(PLAN.noise_multiplier),
        audits=" | ".join((STEP, *AUDITS)),
        rule="|".join("---" for _ in (STEP, *AUDITS)),
    )
    rows = [f"| `{entry.name}` | {' | '.join(_cells(entry))} |\n" for entry in entries]
    costs = [f"{seconds:.2g}" for _, seconds, _ in power(entries)]
    shares = [f"{share:.0%}" for _, _, share in power(entries)]
    return (
        head + "".join(rows) + f"| wrong steps refuted | {' | '.join(shares)} |\n| median CPU seconds | {' | '.join(costs)} |\n"
    )


def _cells(entry: Entry) -> list[str]:
    hits, epsilons = entry.refutations(), {proof.audit: proof.epsilon for proof in entry.proofs}
    cells = ["**refuted**" if entry.checks else "passed"]
    for audit in AUDITS:
        value = f"{epsilons[audit]:.2f}" if audit in epsilons else "-"
        cells.append(f"**{value}**" if hits.get(audit) else value)
    return cells


def power(entries: Sequence[Entry]) -> list[tuple[str, float, float]]:
    """Return for each audit its name, the median of its CPU seconds, and the share of wrong steps that it refutes."""
    rows = []
    for audit in (STEP, *AUDITS):
        hits = [(entry, entry.refutations()[audit]) for entry in entries if audit in entry.refutations()]
        costs = sorted(entry.seconds if audit == STEP else _proof_seconds(entry, audit) for entry, _ in hits)
        wrong = [hit for entry, hit in hits if entry.wrong]
        if wrong:
            rows.append((audit, costs[len(costs) // 2], sum(wrong) / len(wrong)))
    return rows


def _proof_seconds(entry: Entry, audit: str) -> float:
    return next(proof.seconds for proof in entry.proofs if proof.audit == audit)
