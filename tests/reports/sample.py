"""Realistic reports of every kind, made from drawn scores, so that each page and each branch can be looked at."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Certificate, Claim, Detectable, Estimate, NegativeControl, Outcome, Verdict
from audit.core.events import dp_sgd, sgd
from audit.core.game import Assumption, Game, Inclusion
from audit.core.game_results import AttackResult, GameResult, GroupResult, Histogram, RecordExposure, RocCurve, TprAtFpr
from audit.core.lower_bounds import (
    BoundTrajectory,
    FamilyBound,
    FamilyTrajectory,
    LowerBound,
    ReportedBound,
    ReportedTrajectory,
    VoidBound,
    report_bound,
    report_trajectory,
)
from audit.core.provenance import DataSummary, Provenance
from audit.core.results import (
    SCHEMA,
    AuditReport,
    Check,
    Coverage,
    GateResult,
    LimitCurve,
    MechanismResult,
    Metric,
    Status,
    Trajectory,
)
from reports.formats import json as report_json

Floats = NDArray[np.float64]
DELTA = 1e-5
CONFIDENCE = 0.95
COMPARISONS = 12
EACH = 1 - (1 - CONFIDENCE) / COMPARISONS
DP = dp_sgd(noise_multiplier=0.9321, clip_norm=1.0, sample_rate=0.1, steps=120)
DIGITS = tuple(str(n) for n in range(10))

CONFIG = """\
version: 1
name: quickstart
seed: 20260101
delta: 1.0e-05
confidence: 0.95
data:
  kind: digits
model:
  kind: mlp
  hidden: [64]
mechanisms:
- name: non_private
  kind: non_private
  steps: 120
  sample_rate: 0.1
- name: dp_sgd
  kind: dp_sgd
  target_epsilon: 8.0
  clip_norm: 1.0
  steps: 120
  sample_rate: 0.1
games:
- name: black_box
  access: final_model
  runs: 16
  references: 32
  canaries: {kind: held_out, count: 250}
  attacks: [loss, lira]
- name: white_box
  access: all_steps
  runs: 4
  canaries: {kind: dirac_gradient, count: 1000}
  attacks: [gradient_product]
"""


def _scores(seed: int, members: int, nonmembers: int, shift: float) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    return generator.normal(shift, 1.0, members), generator.normal(0.0, 1.0, nonmembers)


def _roc(members: Floats, nonmembers: Floats) -> RocCurve:
    m, n = len(members), len(nonmembers)
    counts = np.unique(np.r_[0:20, np.geomspace(20, n, 180).astype(int)])
    ordered = np.sort(nonmembers)[::-1]
    thresholds = np.r_[ordered, -np.inf][counts]
    hits = np.array([(members > t).sum() for t in thresholds])
    half = math.sqrt(math.log(2 / 0.05) / (2 * m))
    tpr = hits / m
    return RocCurve(
        fpr=tuple((counts / n).tolist()),
        tpr=tuple(tpr.tolist()),
        lower=tuple(np.clip(tpr - half, 0, 1).tolist()),
        upper=tuple(np.clip(tpr + half, 0, 1).tolist()),
        confidence=CONFIDENCE,
        band="Dvoretzky-Kiefer-Wolfowitz",
        members=m,
        nonmembers=n,
    )


def _allowed(fpr: float, epsilon: float) -> float | None:
    if math.isinf(epsilon):
        return None
    return min(1.0, math.exp(epsilon) * fpr + DELTA, 1 - math.exp(-epsilon) * (1 - fpr - DELTA))


def _tpr_at(members: Floats, nonmembers: Floats, epsilon: float) -> tuple[TprAtFpr, ...]:
    m, n = len(members), len(nonmembers)
    ordered = np.sort(nonmembers)[::-1]
    rows = []
    for target in (0.1, 0.01, 0.001):
        allowed = _allowed(target, epsilon)
        false = math.floor(target * n + 1e-9)
        if false < 1:
            rows.append(TprAtFpr.blank(target, allowed))
            continue
        hits = int((members > ordered[false]).sum())
        rows.append(
            TprAtFpr(
                target_fpr=target,
                tpr=hits / m,
                realised_fpr=false / n,
                lower=float(stats.beta.ppf(0.025, hits, m - hits + 1)) if hits else 0.0,
                upper=float(stats.beta.ppf(0.975, hits + 1, m - hits)) if hits < m else 1.0,
                false_positives=false,
                true_positives=hits,
                allowed=allowed,
            )
        )
    return tuple(rows)


def _histogram(members: Floats, nonmembers: Floats) -> Histogram:
    edges = np.histogram_bin_edges(np.r_[members, nonmembers], bins=40)
    return Histogram(
        edges=tuple(edges.tolist()),
        members=tuple(np.histogram(members, edges)[0].tolist()),
        nonmembers=tuple(np.histogram(nonmembers, edges)[0].tolist()),
    )


def _one_run_ceiling(canaries: int) -> float:
    q = (1 - EACH) ** (1 / canaries)
    return math.log(q / (1 - q))


def replace_figures(bound: ReportedBound, epsilon: float, ceiling: float) -> ReportedBound:
    """The bound with another figure and ceiling under the same condition."""
    match bound:
        case FamilyBound():
            return replace(bound, epsilon_inside=epsilon, ceiling_inside=ceiling)
        case VoidBound():
            return replace(bound, void_epsilon=epsilon, void_ceiling=ceiling)
    return replace(bound, epsilon=epsilon, ceiling=ceiling)


def bound(epsilon: float, **fields: object) -> ReportedBound:
    """A bound under the type of its condition; `fields` overrides."""
    provided: dict[str, object] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "confidence": EACH,
        "estimator": "one_run",
        "comparisons": 8,
        "ceiling": _one_run_ceiling(1000),
        "assumes": (Assumption.INDEPENDENT_COINS,),
        "selected": "214 guesses, 171 right",
        "seed": 77120,
    }
    return report_bound(LowerBound(**(provided | fields)))  # type: ignore[arg-type]


def _attack(
    name: str,
    drawn: tuple[int, int, float],
    claimed: float,
    bounds: tuple[ReportedBound, ...],
    false_alarms: int = 1,
) -> AttackResult:
    """An attack on `drawn`: seed, scores on each side, shift of the members."""
    seed, size, shift = drawn
    members, nonmembers = _scores(seed, size, size, shift)
    area = float(stats.norm.cdf(shift / math.sqrt(2)))
    return AttackResult(
        scorer=name,
        auc=area,
        auc_lower=max(0.0, area - 0.021),
        auc_upper=min(1.0, area + 0.02),
        roc=_roc(members, nonmembers),
        tpr_at=_tpr_at(members, nonmembers, claimed),
        histogram=_histogram(members, nonmembers),
        bounds=bounds,
        estimates=(
            Estimate(
                epsilon=0.8 + 2 * shift,
                delta=DELTA,
                estimator="plug_in",
                warning="a point estimate from the ROC; it has no confidence",
            ),
        ),
        control=NegativeControl(repetitions=200, false_alarms=false_alarms, allowed=5, passed=false_alarms <= 5),
    )


def _records(seed: int, count: int = 24) -> tuple[RecordExposure, ...]:
    generator = np.random.default_rng(seed)
    values = np.sort(generator.normal(2.2, 0.9, count))[::-1]
    return tuple(
        RecordExposure(
            record=f"{generator.integers(16**12):012x}",
            label=DIGITS[int(generator.integers(10))],
            score=float(values[i]),
            rank=i + 1,
            fpr=float((i // 3) / 2000),
            member=i % 5 != 3,
        )
        for i in range(count)
    )


def groups(seed: int, names: tuple[str, ...] = DIGITS) -> tuple[GroupResult, ...]:
    generator = np.random.default_rng(seed)
    return tuple(
        GroupResult(
            group=name,
            members=int(generator.integers(8, 140)),
            nonmembers=int(generator.integers(8, 140)),
            auc=float(generator.uniform(0.52, 0.78)),
            accuracy=float(generator.uniform(0.84, 0.99)),
            auc_lower=0.41,
            auc_upper=0.89,
        )
        for name in names
    )


CERTIFICATES = (
    Certificate(law="nothing leaks", epsilon=0.0, wrong=1, repetitions=200, nominal=0.03, lower=0.00003, upper=0.0366),
    Certificate(
        law="randomised response, epsilon 1", epsilon=1.0, wrong=3, repetitions=100, nominal=0.015, lower=0.0034, upper=0.106
    ),
)


def detectable(estimator: str, epsilon: float, claim: float, family: str | None = None) -> Detectable:
    """What an estimator would have caught."""
    return Detectable(estimator=estimator, family=family, claim=claim, epsilon=epsilon, power=0.8, draws=25)


def black_box(seed: int, shift: float, claimed: float, proven: float, false_alarms: int = 1) -> GameResult:
    """The game on held-out records and the final model's outputs."""
    pooled = _one_run_ceiling(250) + 2.1
    return GameResult(
        name="black_box",
        game=Game(
            adjacency=Adjacency.ADD_REMOVE,
            access=Access.FINAL_MODEL,
            inclusion=Inclusion.COINS,
            canaries=250,
            runs=16,
            references=32,
            canary="held-out records",
        ),
        attacks=(
            _attack(
                "loss",
                (seed, 2000, shift * 0.55),
                claimed,
                (
                    bound(proven * 0.42, ceiling=_one_run_ceiling(250), selected="64 guesses, 52 right"),
                    bound(
                        proven * 0.5,
                        estimator="gaussian",
                        ceiling=pooled,
                        family="gdp",
                        parameter=shift * 0.4,
                        assumes=(Assumption.INDEPENDENT_COINS,),
                        comparisons=16,
                    ),
                ),
            ),
            _attack(
                "lira",
                (seed + 1, 2000, shift),
                claimed,
                (
                    bound(proven, ceiling=_one_run_ceiling(4000), selected="412 guesses, 398 right"),
                    bound(
                        proven * 1.2,
                        estimator="gaussian",
                        ceiling=pooled + 1.7,
                        family="gdp",
                        parameter=shift * 0.8,
                        comparisons=16,
                    ),
                ),
                false_alarms,
            ),
        ),
        records=_records(seed + 2),
        groups=groups(seed + 3),
        models=48,
        certificates=CERTIFICATES,
        detectable=(detectable("one_run", 6.31, claimed), detectable("gaussian", 1.07, 0.0, "gdp")),
    )


def white_box(seed: int, shift: float, claimed: float, proven: float, inside: float) -> GameResult:
    """The game on crafted gradients and every step."""
    trials = (Assumption.INDEPENDENT_TRIALS,)
    return GameResult(
        name="white_box",
        game=Game(
            adjacency=Adjacency.ADD_REMOVE,
            access=Access.ALL_STEPS,
            inclusion=Inclusion.COINS,
            canaries=1000,
            runs=4,
            independent_noise=True,
            canary="crafted gradients, one coordinate each",
        ),
        attacks=(
            _attack(
                "gradient_product",
                (seed, 2000, shift),
                claimed,
                (
                    bound(
                        proven,
                        estimator="clopper_pearson",
                        assumes=trials,
                        ceiling=6.61,
                        comparisons=24,
                        selected="threshold at 0.5 % of the nonmembers",
                        seed=None,
                    ),
                    bound(proven * 0.77, ceiling=_one_run_ceiling(4000)),
                    bound(
                        inside,
                        estimator="dp_sgd_family",
                        family="dp_sgd",
                        parameter=1.21,
                        assumes=trials,
                        ceiling=9.4,
                        comparisons=24,
                        selected="noise multiplier 1.21",
                        seed=None,
                    ),
                ),
            ),
        ),
        models=4,
    )


def _claims(scale: float = 1.0) -> tuple[Claim, ...]:
    common = {"delta": DELTA, "adjacency": Adjacency.ADD_REMOVE, "family": "dp_sgd"}
    return (
        Claim(epsilon=7.9981 * scale, source="dp-accounting 0.6.0 PLD", note="", **common),  # type: ignore[arg-type]
        Claim(
            epsilon=8.6127 * scale,
            source="dp-accounting 0.6.0 RDP",
            note="best order 3.1; 3 order(s) the library could not evaluate were left out",
            **common,
        ),  # type: ignore[arg-type]
        Claim(epsilon=9.4411 * scale, source="dp-accounting 0.6.0 RDP, classic conversion", note="best order 3.6", **common),  # type: ignore[arg-type]
    )


def _spent(scale: float = 1.0) -> tuple[Trajectory, ...]:
    steps = tuple(range(5, 121, 5))
    return tuple(
        Trajectory(
            accountant=name, steps=steps, epsilon=tuple(end * scale * (0.30 + 0.70 * math.sqrt(step / 120)) for step in steps)
        )
        for name, end in (
            ("dp-accounting 0.6.0 PLD", 7.9981),
            ("dp-accounting 0.6.0 RDP", 8.6127),
            ("dp-accounting 0.6.0 RDP, classic conversion", 9.4411),
        )
    )


def _proven(end: float, inside: float) -> tuple[ReportedTrajectory, ...]:
    steps = tuple(range(10, 121, 10))
    generator = np.random.default_rng(5)

    def rise(top: float) -> tuple[float, ...]:
        noise = generator.normal(0, 0.05 * top, len(steps))
        noise[-1] = 0.0
        return tuple(float(max(0.0, top * math.sqrt(s / 120) + e)) for s, e in zip(steps, noise, strict=True))

    return (
        BoundTrajectory(label="gradient_product, clopper_pearson", steps=steps, epsilon=rise(end)),
        FamilyTrajectory(label="gradient_product, dp_sgd_family", steps=steps, family="dp_sgd", epsilon_inside=rise(inside)),
    )


CHECKS = (
    Check(code="unit", item="Unit of privacy", value="one training example", status=Status.DECLARED),
    Check(
        code="adjacency", item="Adjacency", value="add or remove one record, in claim, sampling and game", status=Status.CHECKED
    ),
    Check(code="steps", item="Steps", value="120 taken, 120 accounted", status=Status.CHECKED),
    Check(code="sampling", item="Sampling rate", value="0.1001 realised, 0.1 accounted", status=Status.CHECKED),
    Check(
        code="sampling-law", item="Sampling law", value="Poisson; realised variance 0.994 of the law's", status=Status.CHECKED
    ),
    Check(
        code="noise", item="Noise", value="noise multiplier 0.9319 to 0.9324 realised, 0.9321 accounted", status=Status.CHECKED
    ),
    Check(code="clipping", item="Clipping", value="largest clipped gradient 1.000000 of the clip norm", status=Status.CHECKED),
    Check(code="tuning", item="Tuning on the training data", value="not declared, cost not in epsilon", status=Status.GAP),
    Check(code="release", item="What is released", value="final weights", status=Status.DECLARED),
)


def _utility(accuracy: float) -> tuple[Metric, ...]:
    return (
        Metric(name="accuracy", value=accuracy, spread=0.011, models=16),
        Metric(name="macro F1", value=accuracy - 0.004, spread=0.012, models=16),
        Metric(name="AUC", value=min(0.999, accuracy + 0.03), spread=0.004, models=16),
    )


def non_private() -> MechanismResult:
    """Plain training: no claim, a strong leak."""
    return MechanismResult(
        name="non_private",
        mechanism=sgd(sample_rate=0.1, steps=120),
        claims=(),
        trajectories=(),
        bound_trajectories=(),
        games=(black_box(11, 2.1, math.inf, 3.417),),
        verdicts=(),
        outcome=None,
        utility=_utility(0.967),
        checks=CHECKS[2:5],
        models=48,
    )


def dp_sgd(outcome: Outcome = Outcome.CONSISTENT) -> MechanismResult:
    """DP-SGD at epsilon 8, in each of the four outcomes."""
    scale = {Outcome.VIOLATED: 0.125, Outcome.OUT_OF_REACH: 4.0}.get(outcome, 1.0)
    claims = _claims(scale)
    games = (
        black_box(21, 0.35, claims[0].epsilon, 0.412, 41 if outcome is Outcome.INVALID else 1),
        white_box(31, 1.7, claims[0].epsilon, 3.348, 4.906),
    )
    best = games[1].attacks[0].bounds[2]
    reasons = {
        Outcome.VIOLATED: "dp_sgd_family proves epsilon of at least 4.90, above the claimed 1",
        Outcome.CONSISTENT: "no bound lies above the claim; perfect scores would have proved up to 9.40",
        Outcome.OUT_OF_REACH: "even perfect scores would have proved at most 9.40, so this audit could not have refuted "
        "the claim",
        Outcome.INVALID: "the negative control found more than chance allows",
    }
    void = outcome is Outcome.INVALID
    return MechanismResult(
        name="dp_sgd",
        mechanism=DP,
        claims=claims,
        trajectories=_spent(scale),
        bound_trajectories=tuple(
            report_trajectory(curve, getattr(curve, "family", None), void=void) for curve in _proven(3.348, 4.906)
        ),
        games=tuple(game.type_bounds(void=void) for game in games),
        verdicts=tuple(
            Verdict(claim=item, outcome=outcome, bound=report_bound(best, void=void), reason=reasons[outcome])
            for item in claims
        ),
        outcome=outcome,
        utility=_utility(0.881),
        checks=CHECKS,
        models=52,
        limit=_limit(),
    )


def _limit() -> LimitCurve:
    """The trade-off of Gaussian DP, which a mechanism of that kind would leave."""
    fpr = np.geomspace(1e-4, 1, 120)
    tpr = stats.norm.cdf(stats.norm.ppf(fpr) + 1.9)
    return LimitCurve(fpr=tuple(fpr.tolist()), tpr=tuple(tpr.tolist()), source="privacy-loss distribution of the claimed noise")


PROVENANCE = Provenance(
    command="audit run quickstart",
    version="0.1.0",
    code_commit="4be1f3c0d6b2a9587e11",
    seed=20260101,
    config_sha256="3f5a" * 16,
    packages=(
        ("numpy", "2.3.5"),
        ("torch", "2.13.0"),
        ("dp-accounting", "0.6.0"),
        ("scipy", "1.17.1"),
        ("matplotlib", "3.11.2"),
        ("typst", "0.15.0"),
    ),
    python="3.11.2",
    platform="Linux 6.1 x86_64",
    device="cpu",
    threads=2,
)

DATA = DataSummary(
    name="digits",
    source="scikit-learn, embedded",
    sha256="88d0" * 16,
    train=600,
    pool=600,
    test=597,
    classes=10,
    features="64 numbers",
)

COVERAGE = (
    Coverage(
        attack_class="Membership inference", done="held-out records and crafted gradients, 4,000 coins each", status="run"
    ),
    Coverage(attack_class="Attribute inference", done="none", status="not run"),
    Coverage(attack_class="Model inversion, reconstruction", done="none", status="not run"),
    Coverage(attack_class="Regurgitation", done="a classifier does not emit training records", status="not applicable"),
    Coverage(attack_class="Exfiltration", done="outside a test of the model", status="out of scope"),
)

NOTES = (
    "Hyperparameters may have been tuned on the training data; that cost is not in the claimed epsilon.",
    "Attribute inference and reconstruction were not run, so this report says nothing about them.",
)


def with_messages(make: Callable[..., AuditReport]) -> Callable[..., AuditReport]:
    """A report whose English sentences have messages: as one is read that was written before version 2.0."""

    @functools.cache
    def read(*args: object, **fields: object) -> AuditReport:
        plain = json.loads(report_json.to_json(make(*args, **fields)))
        plain = {key: value for key, value in plain.items() if key != "messages"} | {"schema": "audit-report/1.1"}
        return report_json.from_json(json.dumps(plain).encode())

    return read


@with_messages
def run(outcome: Outcome = Outcome.CONSISTENT, *, notes: tuple[str, ...] = NOTES) -> AuditReport:
    """A report of `audit run` with a plain and a DP mechanism."""
    return AuditReport(
        schema=SCHEMA,
        id="20260115T120000Z-quickstart",
        kind="run",
        title="quickstart",
        created="2026-01-15T12:00:00Z",
        delta=DELTA,
        confidence=CONFIDENCE,
        comparisons=COMPARISONS,
        data=DATA,
        model="mlp, hidden layers 64",
        mechanisms=(non_private(), dp_sgd(outcome)),
        outcome=outcome,
        notes=notes,
        coverage=COVERAGE,
        policy=(
            GateResult(gate="largest claimed epsilon", limit=8.0, found=7.9981, met=True),
            GateResult(gate="TPR at 0.1 % FPR", limit=0.05, found=None, met=False),
        ),
        config=CONFIG,
        origins=(
            ("delta", "quickstart.yaml"),
            ("data.kind", "quickstart.yaml"),
            ("seed", "default"),
            ("mechanisms.1.steps", "--set"),
        ),
        provenance=PROVENANCE,
    )


@with_messages
def model() -> AuditReport:
    """A report of `audit model`: a plain split, so no coins and no epsilon."""
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.SPLIT,
        canaries=4000,
        canary="records given as members and nonmembers",
    )
    attacks = tuple(
        replace(_attack(name, (seed, 2000, shift), math.inf, ()), estimates=(), control=None)
        for name, seed, shift in (("loss", 41, 0.6), ("confidence", 42, 0.5), ("entropy", 43, 0.3))
    )
    audited = MechanismResult(
        name="classifier.pt2",
        mechanism=None,
        claims=(),
        trajectories=(),
        bound_trajectories=(),
        games=(
            GameResult(
                name="membership",
                game=game,
                attacks=attacks,
                records=_records(44),
                groups=groups(45, ("airplane", "bird", "truck")),
                note="membership was decided by a data split, so no epsilon follows",
            ),
        ),
        verdicts=(),
        outcome=None,
        utility=(Metric(name="accuracy", value=0.713, spread=0.0, models=1),),
        checks=(
            Check(
                code="blind",
                item="Blind classifier on the inputs",
                value="AUC 0.507, p = 0.22, tested at 1%: inputs alone do not tell members from nonmembers",
                status=Status.CHECKED,
            ),
        ),
        models=1,
    )
    return replace(
        run(),
        id="20260116T090000Z-classifier",
        kind="model",
        title="classifier.pt2",
        model="net.pt2 (torch_export, sha256 7a07e3e6ddd026eb), 10 outputs",
        data=replace(
            DATA,
            name="members.npz, nonmembers.npz",
            source="members (train) and nonmembers (pool) as given",
            train=2000,
            pool=2000,
            test=0,
        ),
        mechanisms=(audited,),
        outcome=None,
        policy=(),
        notes=(
            "Membership was decided by a data split, not by recorded coins: there is no randomness to reason from, so no "
            "epsilon follows. The figures below describe this attack on these records.",
        ),
        config="",
        origins=(),
        provenance=replace(
            PROVENANCE, command="audit model --target classifier.pt2 --members members.npz --nonmembers nonmembers.npz"
        ),
    )


@with_messages
def scores() -> AuditReport:
    """A report of `audit scores` with a declared claim."""
    claim = Claim(epsilon=2.0, delta=DELTA, adjacency=Adjacency.ADD_REMOVE, source="declared")
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1000,
        canary="scores given",
    )
    attack = replace(_attack("scores", (51, 500, 0.9), 2.0, (bound(0.731), bound(0.0, estimator="gaussian", family="gdp"))))
    audited = MechanismResult(
        name="scores.csv",
        mechanism=None,
        claims=(claim,),
        trajectories=(),
        bound_trajectories=(),
        games=(
            GameResult(
                name="scores",
                game=game,
                attacks=(attack,),
                certificates=CERTIFICATES,
                detectable=(detectable("one_run", math.inf, 2.0),),
            ),
        ),
        verdicts=(
            Verdict(
                claim=claim,
                outcome=Outcome.CONSISTENT,
                bound=attack.bounds[0],
                reason="no bound lies above the claim; perfect scores would have proved up to 5.13",
            ),
        ),
        outcome=Outcome.CONSISTENT,
        utility=(),
    )
    return replace(
        run(),
        id="20260117T090000Z-scores",
        kind="scores",
        title="scores.csv",
        model="not given",
        data=None,
        mechanisms=(audited,),
        outcome=Outcome.CONSISTENT,
        policy=(),
        notes=(),
        coverage=COVERAGE[:1],
        config="",
        origins=(),
        provenance=replace(PROVENANCE, command="audit scores scores.csv --delta 1e-5 --claim-epsilon 2"),
    )


ALL = {
    "consistent": lambda: run(Outcome.CONSISTENT),
    "clean": lambda: run(Outcome.CONSISTENT, notes=()),
    "violated": lambda: run(Outcome.VIOLATED),
    "out_of_reach": lambda: run(Outcome.OUT_OF_REACH),
    "invalid": lambda: run(Outcome.INVALID),
    "model": model,
    "scores": scores,
}
