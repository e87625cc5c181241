"""Each scorer against a loop written from its paper's formula, and against known answers."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from attacks.scorers._contest import RankMixture, candidates
from attacks.scorers.auto import FORMS, Auto
from attacks.signals import _reading as reading
from attacks.signals._queries import make_views
from audit import plugins
from audit.api.scores import lower_bound
from audit.core.data import Array
from audit.core.errors import ConfigError, ObservationError
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds.roc import auc
from audit.stats.scoring import signals
from audit.stats.scoring.strength import tpr_at

SEED = Seed(1)
RANDOM = np.random.default_rng(2)
M, K, CLASSES = 40, 9, 4
LABELS = RANDOM.integers(0, CLASSES, M)
INCLUDED = RANDOM.random((K, M)) < 0.5
INCLUDED[:4, :] = np.array([[True], [False], [True], [False]])  # at least two models on each side
LOGITS = (RANDOM.standard_normal((K + 1, M, CLASSES)) + 2 * np.eye(CLASSES)[LABELS]).astype(np.float32)
PREDICTED = LOGITS.argmax(axis=-1)[:, None]
TARGET = View.of(labels=LABELS, logits=LOGITS[0], predicted_labels=PREDICTED[0])
REFERENCE = View.of(included=INCLUDED, logits=LOGITS[1:], predicted_labels=PREDICTED[1:])


def score(kind: str, target: View = TARGET, reference: View = REFERENCE, **options: object) -> Array:
    return plugins.build("attacks.scorers", {"kind": kind, **options}).score(target, reference, SEED)


def probabilities(logits: Array) -> list[float]:
    exponentials = [math.exp(v) for v in logits.astype(float)]
    return [v / sum(exponentials) for v in exponentials]


def label_odds(logits: Array, label: int) -> float:
    p = probabilities(logits)[label]
    return math.log(p / (1 - p))


OURS = [label_odds(LOGITS[0, i], LABELS[i]) for i in range(M)]
THEIRS = [[label_odds(LOGITS[k + 1, i], LABELS[i]) for i in range(M)] for k in range(K)]
P_OURS = [probabilities(LOGITS[0, i])[LABELS[i]] for i in range(M)]
P_THEIRS = [[probabilities(LOGITS[k + 1, i])[LABELS[i]] for i in range(M)] for k in range(K)]


def of_side(i: int, member: bool, table: list[list[float]]) -> list[float]:
    return [table[k][i] for k in range(K) if INCLUDED[k, i] == member]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def squares(values: list[float]) -> float:
    return sum((v - mean(values)) ** 2 for v in values)


def fixed_std(member: bool) -> float:
    groups = [of_side(i, member, THEIRS) for i in range(M)]
    return math.sqrt(sum(squares(g) for g in groups) / sum(len(g) - 1 for g in groups))


def each(formula) -> list[float]:  # type: ignore[no-untyped-def]
    return [formula(i) for i in range(M)]


def test_loss() -> None:
    np.testing.assert_allclose(score("loss"), each(lambda i: math.log(P_OURS[i])), rtol=1e-6)


def test_confidence_entropy_and_gradient() -> None:
    p = [probabilities(row) for row in LOGITS[0]]
    np.testing.assert_allclose(score("confidence"), each(lambda i: math.log(max(p[i]) / (1 - max(p[i])))), rtol=1e-6)
    np.testing.assert_allclose(score("entropy"), each(lambda i: sum(v * math.log(v) for v in p[i])), rtol=1e-6)

    def modified(i: int) -> float:
        chance = p[i][LABELS[i]]
        remainder = [v for j, v in enumerate(p[i]) if j != LABELS[i]]
        return (1 - chance) * math.log(chance) + sum(v * math.log(1 - v) for v in remainder)

    np.testing.assert_allclose(score("modified_entropy"), each(modified), rtol=1e-6)

    def gradient(i: int) -> float:
        return -math.log(math.sqrt(sum((v - (j == LABELS[i])) ** 2 for j, v in enumerate(p[i]))))

    np.testing.assert_allclose(score("output_gradient"), each(gradient), rtol=1e-6, atol=1e-9)


def test_lira_fixed() -> None:
    std = {side: fixed_std(side) for side in (True, False)}

    def ratio(i: int) -> float:
        laws = {side: NormalDist(mean(of_side(i, side, THEIRS)), std[side]) for side in std}
        return math.log(laws[True].pdf(OURS[i])) - math.log(laws[False].pdf(OURS[i]))

    np.testing.assert_allclose(score("lira", variance="fixed"), each(ratio), rtol=1e-6, atol=1e-9)
    offline = each(lambda i: (OURS[i] - mean(of_side(i, False, THEIRS))) / std[False])
    np.testing.assert_allclose(score("lira", variance="fixed", online=False), offline, rtol=1e-6, atol=1e-9)


def test_lira_predictive_is_the_law_of_one_further_signal() -> None:
    def law(i: int, side: bool) -> NormalDist:
        values = of_side(i, side, THEIRS)
        return NormalDist(mean(values), fixed_std(side) * math.sqrt(1 + 1 / len(values)))

    online = each(lambda i: _log_pdf(law(i, True), OURS[i]) - _log_pdf(law(i, False), OURS[i]))
    np.testing.assert_allclose(score("lira", variance="predictive"), online, rtol=1e-6, atol=1e-9)
    offline = each(lambda i: (OURS[i] - law(i, False).mean) / law(i, False).stdev)
    np.testing.assert_allclose(score("lira", variance="predictive", online=False), offline, rtol=1e-6, atol=1e-9)


def test_lira_per_example() -> None:
    def law(i: int, side: bool) -> NormalDist:
        values = of_side(i, side, THEIRS)
        return NormalDist(mean(values), math.sqrt(squares(values) / (len(values) - 1)))

    def ratio(i: int) -> float:
        return _log_pdf(law(i, True), OURS[i]) - _log_pdf(law(i, False), OURS[i])

    np.testing.assert_allclose(score("lira", variance="per_example"), each(ratio), rtol=1e-6, atol=1e-9)


def _log_pdf(law: NormalDist, x: float) -> float:
    return -((x - law.mean) ** 2) / (2 * law.variance) - math.log(law.stdev) - 0.5 * math.log(2 * math.pi)


def test_lira_shrunk_is_the_student_predictive_law() -> None:
    strength = 5.0

    def law(i: int, side: bool):  # type: ignore[no-untyped-def]
        values, n = of_side(i, side, THEIRS), len(of_side(i, side, THEIRS))
        dof = strength + n - 1
        variance = (strength * fixed_std(side) ** 2 + squares(values)) / dof
        return stats.t(df=dof, loc=mean(values), scale=math.sqrt(variance * (1 + 1 / n)))

    online = each(lambda i: law(i, True).logpdf(OURS[i]) - law(i, False).logpdf(OURS[i]))
    np.testing.assert_allclose(score("lira", variance="shrunk", prior_strength=strength), online, rtol=1e-6, atol=1e-9)
    offline = each(lambda i: stats.norm.isf(law(i, False).sf(OURS[i])))
    result = score("lira", variance="shrunk", prior_strength=strength, online=False)
    np.testing.assert_allclose(result, offline, rtol=1e-6, atol=1e-9)


def test_lira_with_shrunk_shift() -> None:
    std = {side: fixed_std(side) for side in (True, False)}
    count = {side: [len(of_side(i, side, THEIRS)) for i in range(M)] for side in std}
    raw_shifts = each(lambda i: mean(of_side(i, True, THEIRS)) - mean(of_side(i, False, THEIRS)))
    noise = each(lambda i: sum(std[side] ** 2 / count[side][i] for side in std))
    centre = mean(raw_shifts)
    between = max(squares(raw_shifts) / M - mean(noise), 0.0)

    def ratio(i: int) -> float:
        shift = centre + between / (between + noise[i]) * (raw_shifts[i] - centre)
        precision = {side: count[side][i] / std[side] ** 2 for side in std}
        level = precision[True] * (mean(of_side(i, True, THEIRS)) - shift) + precision[False] * mean(of_side(i, False, THEIRS))
        level /= precision[True] + precision[False]
        return _log_pdf(NormalDist(level + shift, std[True]), OURS[i]) - _log_pdf(NormalDist(level, std[False]), OURS[i])

    np.testing.assert_allclose(score("lira", variance="fixed", shift="shrunk"), each(ratio), rtol=1e-6, atol=1e-9)
    with pytest.raises(ConfigError, match="own or shrunk"):
        score("lira", shift="both")


def test_shrinking_the_shift_helps_where_it_is_weak_and_does_no_harm_where_it_is_strong() -> None:
    for shift, gain in ((0.3, 0.01), (2.0, -0.003)):
        target, reference, included = gaussian_toy(records=20_000, references=16, shift=shift)
        plain, shrunk = score("lira", target, reference), score("lira", target, reference, shift="shrunk")
        assert auc(shrunk[included], shrunk[~included]) > auc(plain[included], plain[~included]) + gain


def test_offset() -> None:
    def midpoint(i: int) -> float:
        return OURS[i] - (mean(of_side(i, True, THEIRS)) + mean(of_side(i, False, THEIRS))) / 2

    np.testing.assert_allclose(score("offset"), each(midpoint), rtol=1e-6, atol=1e-9)
    offline = each(lambda i: OURS[i] - mean(of_side(i, False, THEIRS)))
    np.testing.assert_allclose(score("offset", online=False), offline, rtol=1e-6, atol=1e-9)


def test_rmia() -> None:
    def online(i: int) -> float:
        p = (mean(of_side(i, True, P_THEIRS)) + mean(of_side(i, False, P_THEIRS))) / 2
        return math.log(P_OURS[i] / p)

    def offline(i: int) -> float:
        out = mean(of_side(i, False, P_THEIRS))
        return math.log(P_OURS[i] / ((1.4 * out + 0.6) / 2))

    np.testing.assert_allclose(score("rmia", temperature=1.0), each(online), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        score("rmia", online=False, offline_weight=0.4, temperature=1.0), each(offline), rtol=1e-5, atol=1e-7
    )


def test_rmia_ranks_as_the_count_over_a_population_does() -> None:
    """The paper's count P_z[ratio(x) / ratio(z) >= 1] never contradicts the ratio, and ties if the ratio does not."""
    ratios = score("rmia")
    population = np.sort(np.random.default_rng(0).choice(ratios, 12, replace=False))
    counts = np.array([np.mean(ratio >= population) for ratio in ratios])
    for i in range(M):
        for j in range(M):
            assert not (counts[i] > counts[j] and ratios[i] <= ratios[j])
    assert len(np.unique(counts)) < len(np.unique(ratios))


def test_rmia_population_form_is_calibrated_and_keeps_the_order() -> None:
    target, reference, included = gaussian_toy(records=4000, references=8, shift=0.0)
    plain, calibrated = score("rmia", target, reference), score("rmia", target, reference, population=True)
    np.testing.assert_array_equal(np.argsort(plain), np.argsort(calibrated))
    p_values = stats.norm.sf(calibrated[~included])
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(p_values <= level) - level) < 0.05


def test_attack_r() -> None:
    width = [fixed_std(False) * len(of_side(i, False, THEIRS)) ** -0.2 for i in range(M)]

    def rank(i: int) -> float:
        below = mean([NormalDist().cdf((OURS[i] - v) / width[i]) for v in of_side(i, False, THEIRS)])
        above = mean([NormalDist().cdf((v - OURS[i]) / width[i]) for v in of_side(i, False, THEIRS)])
        return math.log(below / above)

    np.testing.assert_allclose(score("attack_r"), each(rank), rtol=1e-5, atol=1e-8)


def test_attack_p_gives_the_rank_among_nonmembers_of_the_class() -> None:
    target, reference, _ = gaussian_toy(records=3000, references=3, shift=1.0)
    result = score("attack_p", target, reference)
    ours = signals.loss_confidences(target["losses"])
    theirs = signals.loss_confidences(reference["losses"])
    nonmembers = theirs[~reference.included]
    for i in range(0, 3000, 211):
        share = (np.sum(nonmembers < ours[i]) + np.sum(nonmembers <= ours[i])) / (2 * len(nonmembers))
        if 0.01 < share < 0.99:
            assert stats.norm.cdf(result[i]) == pytest.approx(share, abs=0.004)


def test_quantile_predicts_the_quantiles_of_other_nonmembers() -> None:
    """Without any leakage a share of 1 - q of the target's non-members is above the predicted q quantile."""
    target, reference, _ = gaussian_toy(records=6000, references=12, shift=0.0)
    result = score("reference_quantile", target, reference)
    assert np.mean(result > 0) == pytest.approx(0.5, abs=0.04)
    assert np.mean(result > stats.norm.ppf(0.9)) == pytest.approx(0.1, abs=0.025)


def test_label_only() -> None:
    right = [float(int(np.argmax(LOGITS[0, i])) == LABELS[i]) for i in range(M)]
    np.testing.assert_array_equal(score("label_only"), right)

    def reference_share(i: int) -> float:
        return mean([float(int(np.argmax(LOGITS[k + 1, i])) == LABELS[i]) for k in range(K) if not INCLUDED[k, i]])

    np.testing.assert_allclose(score("label_only", calibrated=True), each(lambda i: right[i] - reference_share(i)), atol=1e-12)


def test_gradient_product() -> None:
    mechanism = dp_sgd(noise_multiplier=0.7, clip_norm=1.0, sample_rate=0.2, steps=5)
    products = np.random.default_rng(0).standard_normal((M, 5))
    nothing = View.of(included=np.empty((0, M), dtype=bool))

    def ratio(i: int) -> float:
        present, absent = NormalDist(1.0, 0.7), NormalDist(0.0, 0.7)
        return sum(math.log((0.8 * absent.pdf(x) + 0.2 * present.pdf(x)) / absent.pdf(x)) for x in products[i])

    result = score("gradient_product", View.of(step_products=products, mechanism=mechanism), nothing)
    np.testing.assert_allclose(result, each(ratio), rtol=1e-9)
    summed = score("gradient_product", View.of(step_products=products, mechanism=sgd(sample_rate=0.2, steps=5)), nothing)
    np.testing.assert_allclose(summed, products.sum(axis=1))
    once = score("gradient_product", View.of(step_products=products[:, :1], mechanism=mechanism), nothing)
    np.testing.assert_allclose(once, products[:, 0])
    certain = dp_sgd(noise_multiplier=1e-3, clip_norm=1.0, sample_rate=1.0, steps=5)
    assert np.isfinite(score("gradient_product", View.of(step_products=products, mechanism=certain), nothing)).all()


def gaussian_toy(records: int, references: int, shift: float, seed: int = 0) -> tuple[View, View, Array]:
    """Confidences N(difficulty + shift * member, 1) given as losses: the optimal attack is known."""
    random = np.random.default_rng(seed)
    included = random.random((references + 1, records)) < 0.5
    confidence = 2 * random.standard_normal(records) + shift * included + random.standard_normal((references + 1, records))
    losses = np.logaddexp(0.0, -confidence)
    target = View.of(losses=losses[0])
    return target, View.of(included=included[1:], losses=losses[1:]), included[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("variance", ["fixed", "predictive", "per_example", "shrunk"])
def test_lira_reaches_the_optimal_auc_of_a_gaussian_model(variance: str) -> None:
    """Members N(1, 1), non-members N(0, 1) around a known difficulty: the best AUC is Phi(1 / sqrt 2)."""
    target, reference, included = gaussian_toy(records=20_000, references=200, shift=1.0)
    best = NormalDist().cdf(1 / math.sqrt(2))
    result = score("lira", target, reference, variance=variance)
    assert auc(result[included], result[~included]) == pytest.approx(best, abs=0.01)
    plain = score("loss", target, reference)
    assert auc(plain[included], plain[~included]) < best - 0.1


def test_gradient_product_reaches_the_optimal_auc_of_the_gaussian_mechanism() -> None:
    random = np.random.default_rng(3)
    steps, noise = 4, 2.0
    included = random.random(40_000) < 0.5
    products = included[:, None] + noise * random.standard_normal((len(included), steps))
    mechanism = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=1.0, steps=steps)
    nothing = View.of(included=np.empty((0, len(included)), dtype=bool))
    result = score("gradient_product", View.of(step_products=products, mechanism=mechanism), nothing)
    best = NormalDist().cdf(math.sqrt(steps) / noise / math.sqrt(2))
    assert auc(result[included], result[~included]) == pytest.approx(best, abs=0.006)


@pytest.mark.slow
def test_learned_combination_beats_lira_with_few_references() -> None:
    """LiRA takes means over three models at face value; the fit learns how far to trust them."""
    few = aucs_of(*gaussian_toy(records=6000, references=6, shift=1.5))
    assert few["learned_combination"] > few["lira"] + 0.02
    assert min(few["lira"], few["rmia"]) > few["loss"] + 0.05
    many = aucs_of(*gaussian_toy(records=6000, references=100, shift=1.5))
    assert many["learned_combination"] == pytest.approx(NormalDist().cdf(1.5 / math.sqrt(2)), abs=0.012)


def test_learned_combination_beats_lira_where_hard_records_are_memorised_more() -> None:
    random = np.random.default_rng(0)
    records, references = 6000, 5
    included = random.random((references + 1, records)) < 0.5
    difficulty = 2 * random.standard_normal(records)
    confidence = difficulty + np.maximum(3 - difficulty, 0) * included + random.standard_normal((references + 1, records))
    losses = np.logaddexp(0.0, -confidence)
    aucs = aucs_of(View.of(losses=losses[0]), View.of(included=included[1:], losses=losses[1:]), included[0])
    assert aucs["learned_combination"] > aucs["lira"] + 0.005


@pytest.mark.parametrize("references", [2, 3])
def test_learned_combination_is_no_weaker_than_lira_with_the_fewest_references(references: int) -> None:
    """Most records lack a side there, and a fit that takes means at face value is at chance."""
    aucs = aucs_of(*gaussian_toy(records=2000, references=references, shift=1.5))
    assert aucs["learned_combination"] > max(aucs["lira"], aucs["loss"]) - 0.01, aucs


def aucs_of(target: View, reference: View, included: Array) -> dict[str, float]:
    result = {kind: score(kind, target, reference) for kind in ("learned_combination", "lira", "rmia", "loss")}
    return {kind: auc(values[included], values[~included]) for kind, values in result.items()}


def test_one_sided_offline_ignores_low_confidence() -> None:
    """A record that the target finds far harder than models without it must not look like a member."""
    reference = View.of(included=np.zeros((4, 3), dtype=bool), losses=np.exp(RANDOM.normal(0, 0.1, (4, 3))))
    low, usual, high = score("lira", View.of(losses=np.array([50.0, 1.0, 1e-6])), reference, online=False)
    assert low < usual < high


def test_queries_add_up() -> None:
    queries = np.stack([LOGITS, LOGITS[:, ::-1][:, ::-1] * 0.5], axis=1)
    target = View.of(labels=LABELS, logits=queries[0])
    reference = View.of(included=INCLUDED, logits=queries[1:])
    halved = score("lira", View.of(labels=LABELS, logits=LOGITS[0] * 0.5), View.of(included=INCLUDED, logits=LOGITS[1:] * 0.5))
    np.testing.assert_allclose(score("lira", target, reference), score("lira") + halved, rtol=1e-6, atol=1e-9)


def test_augmented_queries_are_asked_for_and_used() -> None:
    """Three views of each record; the plain logits play no part then."""
    views_seen = (RANDOM.standard_normal((K + 1, 3, M, CLASSES)) + 2 * np.eye(CLASSES)[LABELS]).astype(np.float32)
    predicted = views_seen.argmax(axis=-1)
    for kind, key, observed, plain in (
        ("lira", "augmented_logits_3", views_seen, "logits"),
        ("label_only", "predicted_labels_3", predicted, "predicted_labels"),
    ):
        attack = plugins.build("attacks.scorers", {"kind": kind, "augmentations": 3})
        assert {signal.key for signal in attack.needs.signals} == {key}
        target = View.of(labels=LABELS, logits=LOGITS[0], **{key: observed[0]})
        reference = View.of(included=INCLUDED, logits=LOGITS[1:], **{key: observed[1:]})
        alone = View.of(labels=LABELS, **{plain: observed[0]})
        known = View.of(included=INCLUDED, **{plain: observed[1:]})
        np.testing.assert_array_equal(attack.score(target, reference, SEED), score(kind, alone, known))
        with pytest.raises(ObservationError, match=key):
            score(kind, augmentations=3)
        with pytest.raises(ObservationError, match="_6"):
            score(kind, target, reference, augmentations=6)
        with pytest.raises(ConfigError, match="to 18"):
            plugins.build("attacks.scorers", {"kind": kind, "augmentations": 19})


def test_views_of_images() -> None:
    images = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4)
    observed = list(make_views(images, 18))
    assert len(observed) == 18 and len({view.tobytes() for view in observed}) == 18
    np.testing.assert_array_equal(observed[0], images)
    np.testing.assert_array_equal(observed[1], images[..., ::-1])
    np.testing.assert_array_equal(observed[10][:, :, 1:, 1:], images[:, :, :-1, :-1])  # one down, one to the right
    assert not observed[10][:, :, 0].any() and not observed[10][..., 0].any()
    with pytest.raises(ConfigError, match="images"):
        list(make_views(images[:, 0, 0], 2))


@pytest.mark.parametrize("variance", ["fixed", "predictive", "per_example", "shrunk"])
def test_canaries_with_few_references(variance: str) -> None:
    """One canary never seen in training, one always, one with a single model a side: all get finite, right signs."""
    included = INCLUDED.copy()
    included[:, 0], included[:, 1], included[:, 2] = False, True, False
    included[0, 2] = True
    confidence = np.random.default_rng(5).standard_normal((K, M)) * 0.1 + 4.0 * included
    reference = View.of(included=included, losses=np.logaddexp(0, -confidence))
    for level, member in ((4.0, True), (0.0, False)):
        target = View.of(losses=np.full(M, np.logaddexp(0, -level)))
        for shift in ("own", "shrunk"):
            result = score("lira", target, reference, variance=variance, shift=shift)
            assert np.isfinite(result).all()
            assert ((result > 0) == member).all()


def test_two_references_one_on_each_side() -> None:
    """Without any residual the ratio falls back on one common spread and still ranks by the offset."""
    reference = View.of(included=np.array([[True] * 3, [False] * 3]), losses=np.array([[0.1] * 3, [2.0] * 3]))
    result = score("lira", View.of(losses=np.array([0.1, 0.7, 2.0])), reference)
    assert np.isfinite(result).all()
    assert result[0] > result[1] > result[2]


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ObservationError, match="every reference model"):
        score("lira", reference=View.of(included=np.ones_like(INCLUDED), logits=LOGITS[1:]))
    with pytest.raises(ObservationError, match="online: false"):
        score("lira", reference=View.of(included=np.zeros_like(INCLUDED), logits=LOGITS[1:]))
    with pytest.raises(ObservationError, match="none of its 9 references"):
        score("lira", reference=View.of(included=INCLUDED))
    with pytest.raises(ObservationError, match="regression"):
        score("loss", View.of(labels=LABELS.astype(float), logits=LOGITS[0]))
    with pytest.raises(ConfigError, match="fixed, predictive, per_example, shrunk"):
        score("lira", variance="fixd")
    with pytest.raises(ConfigError, match="offline_weight"):
        score("rmia", offline_weight=0.0)
    with pytest.raises(ObservationError, match="losses only"):
        score("entropy", View.of(losses=np.ones(M)))


def test_auto_scores_as_the_attack_that_it_names() -> None:
    target, reference, _ = gaussian_toy(records=300, references=6, shift=2.0)
    for count in (0, 2, 6):
        some = View.of(included=reference.included[:count], losses=reference["losses"][:count])
        name, reason = Auto().choose(some, None)
        assert len(reason) > 20
        attack = dict(candidates(reference, count))[name]
        np.testing.assert_array_equal(score("auto", target, some), attack.score(target, some, SEED))


@pytest.mark.parametrize(("count", "online"), [(1, True), (1, False), (2, False)])
def test_auto_adds_formulas_up_by_rank_where_references_show_nothing(count: int, online: bool) -> None:
    target, reference, _ = gaussian_toy(records=300, references=2, shift=2.0)
    coins = reference.included[:count] if online else np.zeros((count, 300), dtype=bool)
    some = View.of(included=coins, losses=reference["losses"][:count])
    name, reason = Auto().choose(some, None)
    assert name == ("offset with rmia" if online else "offset with rmia offline")
    assert len(reason) > 20
    forms = [("offset", {}), ("rmia", {"temperature": 1.0}), ("rmia", {"temperature": 2.0})]
    ranks = [np.argsort(np.argsort(score(kind, target, some, online=online, **form))) + 1 for kind, form in forms]
    by_hand = np.mean([np.log(rank / (301 - rank)) for rank in ranks], axis=0)
    np.testing.assert_allclose(score("auto", target, some), by_hand, rtol=1e-9)


@pytest.mark.parametrize("hard", [0.3, 4.0])
def test_offline_auto_takes_by_the_outputs_alone_what_tells_members_best(hard: float) -> None:
    """Where records differ in how widely their confidence spreads LiRA is ahead, if they saturate a ratio is."""
    random = np.random.default_rng(5)
    models, records = 9, 2000
    included = np.zeros((models, records), dtype=bool)
    included[0] = random.random(records) < 0.5
    difficulty = hard * random.standard_normal(records)
    confidence = difficulty + np.maximum(2 - difficulty, 0) * included + random.standard_normal((models, records))
    losses = np.logaddexp(0.0, -confidence)
    target, reference = View.of(losses=losses[0]), View.of(included=included[1:], losses=losses[1:])

    def area(values: Array) -> float:
        return auc(values[included[0]], values[~included[0]])

    areas = {
        name: area(plugins.build("attacks.scorers", dict(form)).score(target, reference, SEED)) for name, form in FORMS.items()
    }
    assert max(areas.values()) - min(areas.values()) > 0.02, areas
    assert area(score("auto", target, reference)) > max(areas.values()) - 0.01, areas
    name, reason = Auto().choose(reference, None)
    assert "offline" in name and "outputs decide" in reason


def test_offline_auto_leaves_references_with_the_record_out() -> None:
    target, reference, _ = gaussian_toy(records=300, references=6, shift=2.0)
    offline_scores = score("auto", target, reference, online=False)
    forms = [plugins.build("attacks.scorers", dict(form)).score(target, reference, SEED) for form in FORMS.values()]
    assert any(np.array_equal(offline_scores, values) for values in forms)
    everywhere = np.concatenate([np.ones((1, 300), dtype=bool), reference.included[1:4]])
    some = View.of(included=everywhere, losses=reference["losses"][:4])
    assert np.isfinite(score("auto", target, some, online=False)).all()
    with pytest.raises(ObservationError, match="trained on every canary"):
        score("auto", target, View.of(included=np.ones((4, 300), dtype=bool), losses=reference["losses"][:4]), online=False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("references", [2, 8])
def test_auto_weighs_ranks_by_how_many_pairs_the_combination_learned_from(references: int) -> None:
    target, reference, _ = gaussian_toy(records=300, references=references, shift=1.0)
    assert Auto().choose(reference, None)[0] == RankMixture().name

    def log_odds(values: Array) -> Array:
        ranks = np.array([np.sum(values < value) + (np.sum(values == value) + 1) / 2 for value in values])
        return np.asarray(np.log(ranks / (len(values) + 1 - ranks)))

    weight = 600 / (600 + references * 300)
    learned, ratio = (log_odds(score(kind, target, reference)) for kind in ("learned_combination", "rmia"))
    np.testing.assert_allclose(score("auto", target, reference), (1 - weight) * learned + weight * ratio, rtol=1e-9)


def test_auto_takes_another_attack_where_it_is_clearly_ahead() -> None:
    """Membership shows in how probabilities of the wrong classes differ, and the label's says nothing."""
    random = np.random.default_rng(1)
    included = random.random((9, 400)) < 0.5
    wrong = random.standard_normal((9, 400, 4)) * np.where(included, 3.0, 0.5)[..., None]
    wrong -= np.log(np.exp(wrong).sum(axis=-1, keepdims=True))
    logits = np.concatenate([random.standard_normal((9, 400, 1)), wrong], axis=-1)
    name, reason = Auto().choose(View.of(included=included, logits=logits), np.zeros(400, dtype=np.int64))
    assert name != RankMixture().name and "more than the mixture" in reason, (name, reason)


def test_auto_reads_nothing_of_the_target() -> None:
    target, reference, _ = gaussian_toy(records=300, references=5, shift=1.0)
    chosen = Auto().choose(reference, target.labels)
    peer, _, _ = gaussian_toy(records=300, references=5, shift=9.0, seed=4)
    Auto().score(peer, reference, SEED)
    assert Auto().choose(reference, peer.labels) == chosen


@pytest.mark.slow
def test_auto_is_as_strong_as_the_best_of_the_folder() -> None:
    """Within noise over targets, if hard records are memorised more."""
    random = np.random.default_rng(3)
    models, records = 10, 300
    included = random.random((models, records)) < 0.5
    difficulty = 2 * random.standard_normal(records)
    confidence = difficulty + np.maximum(3 - difficulty, 0) * included + random.standard_normal((models, records))
    losses = np.logaddexp(0.0, -confidence)

    def rates(kind: str) -> Array:
        rows = []
        for target in range(4):
            remainder = np.delete(np.arange(models), target)
            reference = View.of(included=included[remainder], losses=losses[remainder])
            values = score(kind, View.of(losses=losses[target]), reference)
            rows.append(tpr_at(values[included[target]], values[~included[target]], 0.01))
        return np.array(rows)

    best = max((rates(kind) for kind in ("loss", "offset", "rmia", "lira", "learned_combination")), key=np.mean)
    gap = rates("auto") - best
    assert gap.mean() > -max(0.03, gap.std(ddof=1))


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("audits", [pytest.param(60, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.calibration)])
def test_bounds_of_the_attack_chosen_on_references_hold_where_they_are_tight(audits: int, online: bool) -> None:
    """Randomised response over the confidences: epsilon is exact, and auto's bound is above it in at most 5 % of audits.

    Each model says of each record its coin, kept with probability e / (1 + e): epsilon is one, and every attack that ranks
    by the answer is the best there is. Choosing with the target's own coins among many attacks would be caught here.
    """
    random = np.random.default_rng(8)
    records, references = 250, 4
    keep = 1 / (1 + math.exp(-1.0))
    above = 0
    for _ in range(audits):
        included = random.random((references + 1, records)) < 0.5
        included[1:] &= online
        answers = included ^ (random.random(included.shape) > keep)
        confidence = 2.0 * answers + 0.5 * random.standard_normal((1, records)) + 0.01 * random.standard_normal(included.shape)
        losses = np.logaddexp(0.0, -confidence)
        reference = View.of(included=included[1:], losses=losses[1:])
        values = score("auto", View.of(losses=losses[0]), reference)
        bound = lower_bound(values[included[0]], values[~included[0]], delta=0.0, confidence=0.95, certificates=0)
        above += bound.epsilon > 1.0
    assert stats.binomtest(above, audits, 0.05, alternative="greater").pvalue > 1e-3, above


def test_losses_and_logits_tell_the_same() -> None:
    losses = signals.cross_entropy(LOGITS, LABELS)
    target, reference = View.of(losses=losses[0]), View.of(included=INCLUDED, losses=losses[1:])
    for kind in ("loss", "lira", "offset", "attack_r"):
        np.testing.assert_allclose(score(kind, target, reference), score(kind), rtol=1e-6, atol=1e-6)
    rmia = score("rmia", target, reference, temperature=1.0)
    np.testing.assert_allclose(rmia, score("rmia", temperature=1.0), rtol=1e-6, atol=1e-6)


def test_views_average_losses_over_queries() -> None:
    losses = np.array([[1.0, 2.0], [3.0, 4.0]])
    ours, theirs = reading.losses(View.of(losses=losses), reading.NO_REFERENCE, "loss")
    np.testing.assert_allclose(ours, [2.0, 3.0])
    assert theirs.shape == (0, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["loss", "lira", "offset", "attack_r", "rmia", "auto"])
def test_a_regression_is_scored_alike_in_every_unit(name: str) -> None:
    random = np.random.default_rng(3)
    truths, included = 20 + random.normal(size=200), random.random((6, 200)) < 0.5
    predictions = (truths + np.where(included, 0.2, 1.0) * random.normal(size=included.shape))[..., None]

    def result(unit: float) -> np.ndarray:
        target = View(signals={"logits": unit * predictions[0]}, labels=unit * truths)
        reference = View(signals={"logits": unit * predictions[1:]}, included=included[1:])
        return score(name, target, reference)

    scores = result(1.0)
    assert np.mean(scores[included[0]]) > np.mean(scores[~included[0]])
    np.testing.assert_allclose(result(1e-3), scores, rtol=1e-6, atol=1e-8)
