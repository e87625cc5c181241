"""docs/zoo.md and its figure: each wrong step with what refutes it, and the power of each audit against its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.zoo._survey import PLAN, STEP, Entry, epsilon_of
from audit.zoo._trainings import AUDITS, CANARIES, MANY_RUNS, RUNS

HEAD = """# The zoo: wrong DP-SGD steps, and what refutes them

Each entry is a step with one defect (`audit/zoo`, one file each). All claim the same: noise multiplier 2, clip norm 2, and for
{steps:,} steps at rate {rate} epsilon {claim:.2f} at delta {delta:g} (Renyi accounting). Made, with its figure, by
`audit zoo --page docs/zoo.md`; a test fails where an entry is no longer refuted by the check that names its defect.

Refuted by `audit step`: {refutations} of {wrong} wrong steps, and {accused} of {correct} correct twins. Of the {double} entries
whose epsilon is at least twice the claim, `audit step` or an audit of one training refutes {caught} ({share:.0%}); no step took
more than {longest:.0f} CPU seconds.

Epsilon: what the noise that is left is worth against the worst neighbours in batches of {divisor:.0f}, an upper bound by the
same accountant; infinite where some coordinate, or some record, is released without effective noise. Entries at the claimed
{claim:.2f} leak at other settings only (another noise multiplier or clip norm, to which the checks go), or add more noise
than claimed.

| Entry | What is wrong | Seen in | Epsilon | Failed checks |
|---|---|---|---|---|
"""
POWER = """
## Power against cost

Audits that train see a whole training on 60 ordinary records: {canaries} canaries with coins of their own in one training, read
from the last model's losses (black-box), from the sum of all releases along each canary's direction (white-box), or step by
step; and one canary, in half of {runs} trainings, read from the last model's losses. A cell is the epsilon that is proven at
delta {delta:g} with confidence 95 %, bold where it refutes the claim of {claim:.2f}; a dash where the audit was not run.

![Share of wrong steps that each audit refutes, against its CPU time](images/zoo.png)

| Entry | {audits} |
|---|{rule}|
"""
TAIL = """
What audits that train do not see here, and what would:

- `clip_non_finite`, `clip_half_precision`, `clip_bias_not_counted`, `clip_each_augmentation`, `clip_per_tensor`,
  `auxiliary_loss`: the record that passes the clip is infinite, huge, or pulls on other parameters than these canaries do.
  Plant such records, or use `audit step`, which does.
- `clip_batch_sum`, `batch_statistics`, `class_weights`, `realised_normaliser`: what one record does depends on the rest of the
  batch, and the worst batches are not those of this training.
- `noise_same_tensor`, `noise_same_seed`, `noise_from_batch`, `noise_truncated`, `noise_uniform`, `noise_half_precision`: the
  noise is large enough and wrong in its law. An attack that subtracts repeated noise, or looks for outputs beyond its range,
  would see it; losses and products do not.
- `noise_missing_layer`: the layer without noise is another than the one along which these canaries are measured.
- `noise_skips_empty`: whether the batch was empty is released, not the canary.
- `clip_norm_squared`, `noise_each_piece`: keep the claim at this setting.

From {canaries} guesses in one training, a claim of this size is refuted only where hardly any noise is left.

Not in a step, and so not here: batches that are shuffled but accounted as Poisson samples, rates rounded by drop-last, steps
counted per epoch (`audit.record`, [step checks](step-checks.md)); accountants with the wrong adjacency or formula
(`audit accountant check`, [accountants](accountants.md)); the two wrong formulas for Gaussian noise
([mechanisms](mechanisms.md)); tuning on private data, which no check can see.
"""


def page(entries: Sequence[Entry]) -> str:
    """Return docs/zoo.md; without the part on power where no audit trained."""
    wrong = [entry for entry in entries if entry.wrong]
    double = [entry for entry in wrong if entry.epsilon >= 2 * epsilon_of(PLAN.noise_multiplier)]
    double_hits = [entry for entry in double if any(hit for audit, hit in entry.refutations().items() if audit != MANY_RUNS)]
    head = HEAD.format(
        steps=PLAN.steps,
        rate=PLAN.sample_rate,
        claim=epsilon_of(PLAN.noise_multiplier),
        delta=PLAN.delta,
        divisor=PLAN.divisor,
        refutations=sum(bool(entry.checks) for entry in wrong),
        wrong=len(wrong),
        accused=sum(bool(entry.checks) for entry in entries if not entry.wrong),
        correct=len(entries) - len(wrong),
        double=len(double),
        caught=len(double_hits),
        share=len(double_hits) / max(1, len(double)),
        longest=max(10.0, 10 * math.ceil(max(entry.seconds for entry in entries) / 10)),
    )
    rows = [entry for entry in entries if entry.proofs]
    return head + "".join(_row(entry) for entry in entries) + (_power(rows) if rows else "") + TAIL.format(canaries=CANARIES)


def _row(entry: Entry) -> str:
    epsilon = "infinite" if math.isinf(entry.epsilon) else f"{entry.epsilon:.3g}"
    checks = ", ".join(entry.checks) or "none"
    return f"| `{entry.name}` | {entry.wrong or 'nothing'} | {entry.visibility} | {epsilon} | {checks} |\n"


def _power(entries: Sequence[Entry]) -> str:
    head = POWER.format(
        canaries=CANARIES,
        runs=RUNS,
        delta=PLAN.delta,
        claim=epsilon_of(PLAN.noise_multiplier),
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
