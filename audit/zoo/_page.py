"""docs/evidence/zoo.md and its figure: each entry with what refutes it, and the power of each audit against its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.zoo._survey import LOOP, LOOP_PLAN, LOOPS, PLAN, RELEASE, STEP, Entry, claim_epsilon
from audit.zoo._trainings import AUDITS, CANARIES, MANY_RUNS, RUNS

HEAD = """# The zoo: wrong DP code, and what refutes it

One defect a class (`audit/zoo`): wrong steps of DP-SGD, wrong loops around a correct step, and releases of which a formula, the
neighbours or a search is wrong; beside them correct twins, which no audit may refute. Made, with its figure, by
`audit zoo --page docs/evidence/zoo.md`; tests fail where an entry is no longer refuted by the check that names its defect.

| Entries | for | refuted | correct twins accused | longest, CPU seconds |
|---|---|---|---|---|
{summary}
Of the {double} steps worth at least twice their claim, `audit step` or an audit of one training refutes {caught} ({share:.0%}).
The {beside} loops and releases that are worth twice their claim are no steps: what is wrong with them is a formula, or how
batches are drawn and counted. The two audits were not tried on them; `audit.record` and `audit mechanism` refute
{beside_caught} ({beside_share:.0%}). What the longest audit of each kind took was measured and stands in the last column.

## Steps

All claim the same: noise multiplier 2, clip norm 2, and for {steps:,} steps at rate {rate} epsilon {claim:.2f} at delta
{delta:g} (Renyi accounting).

Epsilon: what the noise that is left is worth against the worst neighbours in batches of {divisor:.0f}, an upper bound by the
same accountant; infinite where some coordinate, or some record, is released without effective noise. Entries at the claimed
{claim:.2f} leak at other settings only (another noise multiplier or clip norm, to which the checks go), or add more noise
than claimed.

| Entry | What is wrong | Seen in | Epsilon | Failed checks |
|---|---|---|---|---|
"""
TABLE = """
## {title}

{text}

| Entry | What is wrong | Seen in | Claimed epsilon | True epsilon | Failed checks | CPU seconds |
|---|---|---|---|---|---|---|
"""
LOOPS_TEXT = """\
Each trains on {records:,} records with a correct step of noise multiplier {noise:g}, batches of about {batch} records and
{steps} steps, recorded by `audit.record` and held against what its accounting is told. Claimed and true epsilon at delta
{delta:g} are proved brackets. Shuffled batches, {shuffled} records each so that none is left over, are held from above by a
place in the epoch that everybody knows, and from below by the largest release of each epoch where all other records pull
against the one under test: its batch stands out by two clip norms, and by one where its place is empty."""
RELEASES_TEXT = """\
Functions `(data, rng, size)`, given to `audit mechanism` with the neighbours that show most. The true epsilon is exact, or
infinite where an output of one data set cannot come from its neighbour."""
POWER = """
## Power against cost

Audits that train see a whole training on 60 ordinary records: {canaries} canaries with coins of their own in one training, read
from the last model's losses (black-box), from the sum of all releases along each canary's direction (white-box), or step by
step; and one canary, in half of {runs} trainings, read from the last model's losses. A cell is the epsilon that is proven at
delta {delta:g} with confidence 95 %, bold where it refutes the claim of {claim:.2f}; a dash where the audit was not run.

![Share of wrong steps that each audit refutes, against its CPU time](../images/zoo.png)

| Entry | {audits} |
|---|{rule}|
"""
TAIL = """
What audits that train do not see here, and what would:

- `clip_non_finite`, `clip_half_precision`, `clip_bias_not_counted`, `clip_each_augmentation`, `clip_per_tensor`,
  `auxiliary_loss`: the record that passes the clip is infinite, huge, or pulls on other parameters than these canaries do.
  Plant such records, or use `audit step`, which does.
- `clip_batch_sum`, `clip_at_median`, `clip_gradients_of_mean`, `batch_statistics`, `class_weights`, `realised_normaliser`: what
  one record does depends on the rest of the batch, and the worst batches are not those of this training.
- `noise_same_tensor`, `noise_same_seed`, `noise_few_seeds`, `noise_from_batch`, `noise_mirrored`, `noise_truncated`,
  `noise_clamped`, `noise_uniform`, `noise_half_precision`: the noise is large enough and wrong in its law. An attack that
  subtracts repeated noise, or looks for outputs beyond its range, would see it; losses and products do not.
- `noise_missing_layer`, `noise_missing_row`: what is without noise is another layer, or number, than these canaries are
  measured along.
- `noise_skips_empty`, `noise_where_moved`: whether the batch was empty, or which coordinates it moves, is released, not
  the canary.
- `clip_norm_squared`, `noise_each_piece`: keep the claim at this setting.

From {canaries} guesses in one training, a claim of this size is refuted only where hardly any noise is left.

Not here: what no output shows, as vocabularies and statistics that were computed from private data before the training, and
choices of people who looked at them. A person has to answer for these.
"""


def page(entries: Sequence[Entry]) -> str:
    """Return docs/evidence/zoo.md; without the part on power if no audit trained."""
    steps, loops, releases = ([entry for entry in entries if entry.audit == audit] for audit in (STEP, LOOP, RELEASE))
    double = [entry for entry in steps if entry.doubles]
    double_hits = [entry for entry in double if any(hit for audit, hit in entry.refutations().items() if audit != MANY_RUNS)]
    beside = [entry for entry in (*loops, *releases) if entry.doubles]
    beside_hits = [entry for entry in beside if entry.checks]
    head = HEAD.format(
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
    loops_text = LOOPS_TEXT.format(
        records=LOOP_PLAN.records,
        noise=LOOP_PLAN.noise_multiplier,
        batch=LOOP_PLAN.batch_size,
        steps=LOOP_PLAN.steps,
        delta=LOOP_PLAN.delta,
        shuffled=len(plugins.find(LOOPS, "shuffled_batches")().batches(LOOP_PLAN, np.random.default_rng(0))[0]),
    )
    parts = [head, *map(_row, steps)]
    parts += [_table("Loops", loops_text, loops), _table("Releases", RELEASES_TEXT, releases)]
    return "".join([*parts, _power(rows) if rows else "", TAIL.format(canaries=CANARIES)])


def _summary(title: str, entries: Sequence[Entry]) -> str:
    """Return one row on the entries of a kind, or nothing if there are none."""
    if not entries:
        return ""
    wrong = [entry for entry in entries if entry.wrong]
    accusations = sum(bool(entry.checks) for entry in entries if not entry.wrong)
    longest = max(entry.seconds for entry in entries)
    refutations = f"{sum(bool(entry.checks) for entry in wrong)} of {len(wrong)}"
    return f"| {title} | {entries[0].audit} | {refutations} | {accusations} of {len(entries) - len(wrong)} | {longest:.2g} |\n"


def _table(title: str, text: str, entries: Sequence[Entry]) -> str:
    """Return the table of loops or releases, or nothing if there are none."""
    return TABLE.format(title=title, text=text) + "".join(map(_other_row, entries)) if entries else ""


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


def _power(entries: Sequence[Entry]) -> str:
    head = POWER.format(
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
