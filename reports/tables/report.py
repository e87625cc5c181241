"""Tables of a report, one function each; cells are text already rounded."""

from __future__ import annotations

from audit.core.event_reading import is_non_private, noisy_steps, sample_rate, steps, unit
from audit.core.events import Event
from audit.core.results import AuditReport, MechanismResult
from audit.core.rounding import DASH, count, down, figure, percent, power, significant, up
from reports import headline
from reports.pages.blocks import Column, Mark, Mono, Table, Text, Tone
from reports.words import en

MOST_RECORDS = 20
SMALL_SIDE = 30  # fewer members or nonmembers than this make a group's figures rough


def overview(report: AuditReport) -> Table:
    """Every training and game on mechanism line: claimed, proven with the ceiling of the same game, TPR."""
    rows: list[tuple[Text, ...]] = []
    for mechanism in headline.by_gravity(report):
        claim = min(mechanism.claims, key=lambda c: c.epsilon, default=None)
        for game in mechanism.games:
            free, inside = (
                max((b for b in game.bounds if (b.family is None) is kind), key=lambda b: (b.epsilon, b.ceiling), default=None)
                for kind in (True, False)
            )
            best_rate = headline.rate_at(game, 0.01)
            rows.append(
                (
                    Mono(mechanism.name),
                    Mono(game.name),
                    up(claim.epsilon) if claim else "none",
                    "none" if free is None else f"{down(free.epsilon)} of {down(free.ceiling)}",
                    "none"
                    if inside is None
                    else f"{down(inside.epsilon)} of {down(inside.ceiling)} ({en.family(inside.family or '')})",
                    percent(best_rate[1].tpr) if best_rate else DASH,
                )
            )
    return Table(
        caption=f"Every training and game at δ = {power(report.delta)}. Claims are rounded up; each bound stands before the "
        "ceiling of its own game, the most that perfect scores would have proven there, both rounded down.",
        columns=(
            Column(title="Training"),
            Column(title="Game"),
            Column(title="Claimed ε", right=True),
            Column(title="Proven ε", right=True),
            Column(title="Inside a family", share=1),
            Column(title="TPR at 1 % FPR (chance 1 %)", right=True),
        ),
        rows=tuple(rows),
    )


def claims(mechanism: MechanismResult) -> Table:
    """Every claim with where it comes from and how it was judged."""
    outcomes = {verdict.claim: verdict.outcome for verdict in mechanism.verdicts}
    deltas, units = {claim.delta for claim in mechanism.claims}, {claim.unit for claim in mechanism.claims}
    rows = tuple(
        (
            claim.source if len(units) == 1 else f"{claim.source}, per {claim.unit}",
            up(claim.epsilon),
            power(claim.delta),
            en.family(claim.family) if claim.family else "any with this (ε, δ)",
            claim.note or "none",
            Mark(*en.OUTCOMES[outcomes.get(claim)]),
        )
        for claim in mechanism.claims
    )
    columns = (
        Column(title="Source", share=1),
        Column(title="ε", right=True),
        Column(title="δ", right=True),
        Column(title="Asserted mechanism", share=1),
        Column(title="Remarks", share=1.2),
        Column(title="Verdict"),
    )
    indices = [i for i, column in enumerate(columns) if column.title != "δ" or len(deltas) > 1]
    return Table(
        caption=f"What is claimed for {mechanism.name}, each figure with its source. A bound inside a family of mechanisms can "
        "contradict only a claim that asserts that family.",
        columns=tuple(columns[i] for i in indices),
        rows=tuple(tuple(row[i] for i in indices) for row in rows),
        small=True,
    )


def parameters(mechanism: Event) -> tuple[tuple[Text, ...], ...]:
    """The parameters of a mechanism as rows of two."""
    rate = sample_rate(mechanism)
    rate_row = () if rate is None else (("Sample rate", f"{significant(rate)} per {_record(mechanism)} and step"),)
    noisy = noisy_steps(mechanism)
    if noisy is not None:
        return (
            ("Mechanism", "DP-SGD: Poisson batches, clipped gradients, Gaussian noise on the sum"),
            ("Noise multiplier", f"{significant(noisy.noise_multiplier)} times the clip norm"),
            ("Clip norm", f"{significant(noisy.clip_norm)} (l2, over all parameters)"),
            *rate_row,
            ("Steps", count(noisy.steps)),
        )
    plain = "Plain stochastic gradient training: no clipping, no noise, no guarantee"
    name = plain if is_non_private(mechanism) else f"{mechanism}"
    return (("Mechanism", name), *rate_row, ("Steps", count(steps(mechanism))))


def _record(mechanism: Event) -> str:
    """Return the word for what is sampled."""
    return "record" if (protection_unit := unit(mechanism)) == "example" else protection_unit


def mechanism_table(mechanism: MechanismResult) -> Table | None:
    """What happens to the data, or None where the training is not known."""
    if mechanism.mechanism is None:
        return None
    return Table(
        caption=f"What {mechanism.name} does to the data"
        + ("; the accountants were given these same values." if mechanism.trajectories else "."),
        columns=(Column(title="Parameter", share=0.33), Column(title="Value", share=0.67)),
        rows=parameters(mechanism.mechanism),
    )


def checks(mechanism: MechanismResult) -> Table:
    """The assumptions with their status."""
    return Table(
        caption=("What the claim rests on." if mechanism.claims else "What was checked.")
        + " Checked: this run tested it. Declared: the owner stated it. "
        "Gap: known not to hold, or not covered. Failed: tested and found false.",
        columns=(Column(title="Item", share=0.32), Column(title="Value", share=0.52), Column(title="Status", share=0.16)),
        rows=tuple((check.item, check.value, Mark(*en.STATUS[check.status])) for check in mechanism.checks),
    )


def budget(mechanism: MechanismResult) -> Table:
    """Epsilon spent after each quarter of the training, by accountant."""
    last = max((trajectory.steps[-1] for trajectory in mechanism.trajectories if trajectory.steps), default=0)
    stops = sorted({max(1, round(last * part)) for part in (0.25, 0.5, 0.75, 1.0)})
    rows: list[tuple[Text, ...]] = []
    for trajectory in mechanism.trajectories:
        cells: list[Text] = []
        for stop in stops:
            later = [(step, value) for step, value in zip(trajectory.steps, trajectory.epsilon, strict=True) if step >= stop]
            cells.append(up(later[0][1]) if later else DASH)
        rows.append((trajectory.accountant, *cells))
    return Table(
        caption=f"Budget of {mechanism.name}: epsilon claimed after so many steps, rounded up.",
        columns=(
            Column(title="Accountant", share=1),
            *(Column(title=f"{count(s)} steps", right=True, share=0.6) for s in stops),
        ),
        rows=tuple(rows),
    )


def utility(report: AuditReport) -> Table:
    """Every utility figure of every training."""
    rows = tuple(
        (
            Mono(result.name),
            metric.name,
            figure(metric.value),
            "one model" if metric.models < 2 else significant(metric.spread, 2),
            count(metric.models),
        )
        for result in headline.by_gravity(report)
        for metric in result.utility
    )
    return Table(
        caption=f"{en.utility(report.kind)} Mean over models and sample standard deviation.",
        columns=(
            Column(title="Training", share=1),
            Column(title="Metric", share=1),
            Column(title="Mean", right=True, share=0.7),
            Column(title="Deviation", right=True, share=0.7),
            Column(title="Models", right=True, share=0.5),
        ),
        rows=rows,
    )


def coverage(report: AuditReport) -> Table:
    """Classes of attack and whether they were run."""
    rows = tuple(
        (row.attack_class, row.done, Mark(row.status, en.COVERAGE.get(row.status, Tone.PLAIN))) for row in report.coverage
    )
    return Table(
        caption="Classes of attack. What was not run is listed, because this report says nothing about it.",
        columns=(
            Column(title="Class", share=0.3),
            Column(title="What was done", share=0.52),
            Column(title="Status", share=0.18),
        ),
        rows=rows,
    )


def policy(report: AuditReport) -> Table:
    """The gates of the configuration."""
    rows = tuple(
        (
            en.GATES.get(gate.gate, gate.gate),
            significant(gate.limit),
            DASH if gate.found is None else significant(gate.found),
            Mark("met", Tone.GOOD) if gate.met else Mark("not met", Tone.BAD),
        )
        for gate in report.policy
    )
    return Table(
        caption="The release policy, as the configuration states it.",
        columns=(
            Column(title="Gate", share=1),
            Column(title="Limit", right=True, share=0.4),
            Column(title="Found", right=True, share=0.4),
            Column(title="Result", share=0.4),
        ),
        rows=rows,
    )
